"""What somebody does with the generated Python client; the server's address is
the first argument."""

import io
import sys

from cuckood_client import Client
from cuckood_client.api.filters import (
    delete_filter, dump_filter, get_filter, list_filters, patch_filter, put_filter, restore_filter,
)
from cuckood_client.api.items import (
    add_items, check_items, count_items, delete_items, get_item_count, get_item_exists, look_up_items,
)
from cuckood_client.api.operations import get_liveness
from cuckood_client.models import (
    AddBody, CheckBody, FilterBody, FilterChanges, FilterFields, ItemsBody, LookupBody, Problem,
)
from cuckood_client.types import File

client = Client(base_url=sys.argv[1])

made = put_filter.sync("coupons", client=client, body=FilterFields(capacity=1000, error_rate=0.001))
assert isinstance(made, FilterBody) and made.capacity == 1000, made
added = add_items.sync("coupons", client=client, body=AddBody(items=["SPRING-24", 17]), idempotency_key="first")
assert added.results == ["added", "added"], added
again = add_items.sync_detailed("coupons", client=client, body=AddBody(items=["SPRING-24", 17]), idempotency_key="first")
assert again.headers["Idempotency-Replayed"] == "true", again
found = check_items.sync("coupons", client=client, body=CheckBody(items=["SPRING-24", "other"]))
assert found.results == [True, False], found
assert count_items.sync("coupons", client=client, body=ItemsBody(items=[17])).results == [1]
assert get_item_exists.sync("coupons", client=client, item="SPRING-24").exists is True
assert get_item_count.sync("coupons", client=client, item="17").count == 1
assert look_up_items.sync(client=client, body=LookupBody(items=["17"], prefix="cou")).results == [["coupons"]]
assert delete_items.sync("coupons", client=client, body=ItemsBody(items=[17])).results == [True]
assert patch_filter.sync("coupons", client=client, body=FilterChanges(ttl_seconds=3600)).ttl_seconds == 3600

dump = dump_filter.sync("coupons", client=client)
assert isinstance(dump, File), dump
copy = restore_filter.sync("copy", client=client, body=File(payload=io.BytesIO(dump.payload.read())))
assert isinstance(copy, FilterBody) and copy.items == 1, copy
listed = list_filters.sync(client=client, limit=1)
assert listed.filters[0].key == "copy" and listed.next_cursor == "copy", listed

missing = get_filter.sync("nothing", client=client)
assert isinstance(missing, Problem) and missing.code == "filter_not_found", missing
refused = put_filter.sync("f", client=client, body=FilterFields(capacity=10**18))
assert isinstance(refused, Problem) and refused.errors[0].pointer == "/capacity", refused
assert delete_filter.sync_detailed("copy", client=client).status_code == 204
assert get_liveness.sync_detailed(client=client).status_code == 200
