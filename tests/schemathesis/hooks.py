"""What a valid request has to keep to and no schema can say: fields that
exclude each other, and bytes that somebody else made. Only requests that are
meant to be valid are touched, except that most questions are put to filters
that are there."""

import base64
import hashlib
import json
import os
import pathlib

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

# Filters that run.py creates.
KEYS = ["coupons", "sessions", "redis"]
# Those with values and with attributes, and what is for them alone.
WITH_VALUES = "joins"
WITH_ATTRIBUTES = "readers"
PLANS = ["free", "pro"]
OF_VALUES = {"add_values", "delete_values", "replace_values", "get_item_values", "query_values"}
# What is for all others.
OF_ITEMS = {"add_items", "delete_items", "import_items"}
# Bodies of which every text makes sense.
LINES = ["text/plain", "application/x-ndjson"]
DUMP = pathlib.Path(os.environ["CUCKOOD_TEST_DUMP"]).read_bytes()
SCANDUMP = pathlib.Path(os.environ["CUCKOOD_TEST_SCANDUMP"]).read_bytes()


@schemathesis.serializer("application/x-ndjson", "application/vnd.redisbloom.scandump", "application/x-tar")
def as_it_is(ctx, value):
    return {"data": value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")}


@schemathesis.hook
def filter_case(ctx, case):
    """Blanks around a header's value are no part of it, and a number that is
    sent as text is text: they would be valid."""
    if case.media_type in LINES and isinstance(case.body, (int, float, list, dict, type(None))):
        return False
    headers = case.headers or {}
    # A header that nobody knows makes no request invalid.
    if any(name.lower() == "x-schemathesis-unknown-property" for name in headers):
        return False
    return all(value == value.strip() for value in headers.values() if isinstance(value, str))


@schemathesis.hook
def before_call(ctx, case, kwargs):
    negative_at = case.meta.is_negative_at if case.meta else lambda place: False
    stateful = case.meta is not None and case.meta.phase.name == TestPhase.STATEFUL
    if not stateful and not negative_at(ParameterLocation.PATH):
        existing_key(case)
    if any(negative_at(place) for place in ParameterLocation):
        return
    # A server in no cluster has no positions.
    (case.headers or {}).pop("cuckood-min-position", None)
    operation = case.operation.definition.raw.get("operationId")
    if operation in REPAIRS:
        REPAIRS[operation](case)
    if isinstance(case.body, dict) and "items" in case.body:
        items(case.body)
    if operation in OF_VALUES:
        entries(case, operation)
    if operation in OF_ITEMS and case.path_parameters["key"] in (WITH_VALUES, WITH_ATTRIBUTES):
        case.path_parameters["key"] = KEYS[0]
    idempotency_key(case)


def existing_key(case):
    """Three of four keys become the key of a filter that is there."""
    key = (case.path_parameters or {}).get("key")
    if isinstance(key, str):
        number = hashlib.sha256(key.encode()).digest()[0] % (len(KEYS) + 1)
        if number < len(KEYS):
            case.path_parameters["key"] = KEYS[number]


def entries(case, operation):
    """Of the filter with values, or of the one with attributes; items as elsewhere,
    values without a fraction, and a line has a TAB and a value, or the labels of a
    row."""
    rows = number_of((case.body, case.query)) % 2 == 1
    case.path_parameters["key"] = WITH_ATTRIBUTES if rows else WITH_VALUES
    if isinstance(case.body, dict) and "entries" in case.body:
        held = {"items": [entry["item"] for entry in case.body["entries"]], "encoding": case.body.get("encoding")}
        items(held)
        only = "attributes" if rows else "value"
        fields = ["from", "to"] if operation == "replace_values" else [only]
        case.body["entries"] = [
            {"item": item} | {field: (row_of if rows else value_of)(entry, field) for field in fields}
            for item, entry in zip(held["items"], case.body["entries"])
        ]
    elif case.media_type == "text/plain" and operation != "query_values":
        lines = str(case.body).replace("\r", "").split("\n")
        times = 2 if operation == "replace_values" else 1
        if rows:
            case.query = {**(case.query or {}), "attributes": "plan,tag"}
        beside = [f"\t{PLANS[len(line) % 2]}\t{len(line)}" if rows else f"\t{len(line)}" for line in lines]
        case.body = "\n".join(line[:1000] + columns * times for line, columns in zip(lines, beside))


def value_of(entry, field):
    """A value, also where a row was made."""
    value = entry.get(field)
    return int(value) if isinstance(value, (int, float)) else 17


def row_of(entry, field):
    """A row, of labels that were made if some were."""
    made = entry.get(field)
    labels = list(made.values()) if isinstance(made, dict) else []
    return {"plan": PLANS[number_of(entry) % 2], "tag": label_of(labels[0] if labels else 17)}


def label_of(made):
    """A label is up to 256 bytes long."""
    return str(made)[:64]


def number_of(something):
    """The same number for the same."""
    return hashlib.sha256(repr(something).encode("utf-8", "surrogatepass")).digest()[0]


def where_of(case, made):
    """A condition is for the filter with attributes; its labels are those that were
    made, as far as they can be any."""
    case.path_parameters["key"] = WITH_ATTRIBUTES
    listed = list(made.values())[:1] if isinstance(made, dict) else []
    labels = [label_of(label) for label in listed[0][:64]] if listed else []
    return {"tag": labels} if labels else {"plan": PLANS, "tag": ["DE"]}


def check_items(case):
    """Entries are for filters with values, conditions for those with attributes, and
    moments for those with a window."""
    one_condition(case)
    if isinstance(case.body, dict):
        case.body.pop("within_seconds", None)
        case.body.pop("entries", None)
        case.body.setdefault("items", ["SPRING-24"])
        case.query.pop("where", None)
        if "where" in case.body:
            case.body["where"] = where_of(case, case.body["where"])


def one_condition(case):
    """One in the query, if one was made there."""
    case.query.pop("within_seconds", None)
    if "where" in case.query:
        case.query["where"] = json.dumps(where_of(case, case.query["where"]))


def idempotency_key(case):
    """The same key is for the same request."""
    if case.headers and "Idempotency-Key" in case.headers:
        headers = sorted((name, value) for name, value in case.headers.items() if name != "Idempotency-Key")
        query = sorted((case.query or {}).items())
        request = repr((case.method, case.formatted_path, query, headers, case.media_type, case.body))
        case.headers["Idempotency-Key"] = hashlib.sha256(request.encode("utf-8", "surrogatepass")).hexdigest()


def items(body):
    """Integers have 64 bits and no fraction, not even of zero, since their
    digits are the item; base64 is of strings, and base64."""
    body["items"] = [item if isinstance(item, str) else int(item) % 2**64 for item in body["items"]]
    if body.get("encoding") == "base64":
        texts = [item for item in body["items"] if isinstance(item, str)]
        body["items"] = [base64.b64encode(text.encode("utf-8", "surrogatepass")).decode() for text in texts]


def fields(body):
    """Each layout has its own fields; a filter of 2^40 items is over the
    server's limit."""
    classic = {"bucket_size", "max_iterations"} & set(body)
    paged = {"error_rate", "fingerprint_bits", "promised_growth"} & set(body)
    # Items alone could not be added to a filter with values, nor deleted from one
    # with a window.
    for field in ("value_bits", "attributes", "values_per_item", "window_seconds", "window_resolution_seconds"):
        body.pop(field, None)
    layout = body.get("layout") or ("classic" if classic and not paged else "paged")
    for field in classic if layout == "paged" else paged:
        del body[field]
    if "error_rate" in body:
        body.pop("fingerprint_bits", None)
    if "promised_growth" in body:
        # How much can be promised follows from the other fields.
        body["promised_growth"] = 1
    if "capacity" in body:
        smallest = 2 * body.get("bucket_size", 2) if layout == "classic" else 1
        body["capacity"] = max(smallest, int(body["capacity"]) % 10**7)


def put_filter(case):
    if isinstance(case.body, dict):
        fields(case.body)


def add_items(case):
    if isinstance(case.body, dict) and isinstance(case.body.get("create"), dict):
        fields(case.body["create"])


def one_item(case):
    """One of the two ways to say it; moments are for filters with a window, and
    conditions for those with attributes."""
    one_condition(case)
    if "item" in case.query:
        case.query.pop("item_base64url", None)
    elif "item_base64url" not in case.query:
        case.query["item"] = "SPRING-24"


def look_up_items(case):
    case.body.pop("within_seconds", None)
    if "filters" in case.body:
        case.body.pop("prefix", None)
    elif "prefix" not in case.body:
        case.body["prefix"] = "c"


def import_items(case):
    """Lines that are not committed yet can't be passed over."""
    if "from_line" in case.query:
        case.query["from_line"] = 1


def restore_filter(case):
    """A dump that the server made; a condition belongs to replacing."""
    case.body = SCANDUMP if case.media_type == "application/vnd.redisbloom.scandump" else DUMP
    if case.headers and "If-Match" in case.headers:
        case.query["replace"] = "true"


REPAIRS = {
    "put_filter": put_filter,
    "preview_filter": put_filter,
    "add_items": add_items,
    "get_item_location": one_item,
    "get_item_exists": one_item,
    "get_item_count": one_item,
    "get_item_values": one_item,
    "check_items": check_items,
    "look_up_items": look_up_items,
    "import_items": import_items,
    "restore_filter": restore_filter,
}
