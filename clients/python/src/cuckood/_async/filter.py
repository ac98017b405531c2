"""One filter."""

import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Unpack

from .._batches import Entry, Item, Replacement
from .._each import achunks
from .._models import (
    AddedBody, CompactionBegunBody, CompactionBody, FilterBody, FilterFields, ImportBody, LocatedBody,
)
from .._retry import Request
from ..errors import FilterNotFound, ImportNotFound, json_of
from .transport import AsyncTransport, path

Download = AbstractAsyncContextManager[AsyncIterator[bytes]]

# One request of an import. A broken one is sent again as a whole.
_CHUNK_LINES = 50_000
_CHUNK_BYTES = 4 << 20


class AsyncFilter:
    """A filter by its key. All errors are `CuckoodError`; without the filter `FilterNotFound`.

    `idempotency_key` of a change: one of your own, so that the change is also made
    once if your program is restarted and calls again within 24 hours. A batch with
    such a key is never split. Without it each change gets a random one.
    """

    def __init__(self, transport: AsyncTransport, key: str) -> None:
        self._transport = transport
        self._path = path("filters", key)
        self.key = key

    async def create(
        self, *, only_new: bool = False, idempotency_key: str | None = None, **fields: Unpack[FilterFields]
    ) -> FilterBody:
        """Creates the filter; the server's defaults fill in missing fields.

        Changes nothing if it exists with these parameters. Raises `FilterDiffers` if
        it has others, and with `only_new` `FilterExists` if it exists at all.
        """
        headers = {"if-none-match": "*"} if only_new else {}
        return FilterBody.from_json(
            await self._transport.change("PUT", self._path, fields, idempotency_key, headers)
        )

    async def info(self) -> FilterBody:
        """Its parameters, how full it is, its false-positive rate."""
        return FilterBody.from_json(await self._transport.ask("GET", self._path))

    async def is_there(self) -> bool:
        """Whether the filter exists."""
        try:
            await self._transport.send(Request("GET", self._path))
        except FilterNotFound:
            return False
        return True

    async def expire_after(self, ttl_seconds: int | None, *, idempotency_key: str | None = None) -> FilterBody:
        """Lets the filter expire so many seconds from now; None: never."""
        fields = {"ttl_seconds": ttl_seconds}
        return FilterBody.from_json(await self._transport.change("PATCH", self._path, fields, idempotency_key))

    async def drop(self, *, idempotency_key: str | None = None) -> None:
        """Deletes the whole filter."""
        await self._transport.change("DELETE", self._path, None, idempotency_key)

    async def add(
        self, item: Item, *, only_if_absent: bool = False, create: FilterFields | None = None,
        idempotency_key: str | None = None,
    ) -> Literal["added", "refreshed", "exists", "full"]:
        """Adds an item, as `add_many`. Look at the result: a full filter answers `full`."""
        added = await self.add_many(
            [item], only_if_absent=only_if_absent, create=create, idempotency_key=idempotency_key
        )
        return added.results[0]  # type: ignore[return-value]

    async def add_many(
        self, items: Iterable[Item], *, only_if_absent: bool = False, create: FilterFields | None = None,
        idempotency_key: str | None = None,
    ) -> AddedBody:
        """Adds items. An item that was added twice has two copies.

        Results, in order: `added`; `refreshed`, in a filter with a window, if the
        filter contained it; `exists`, with `only_if_absent`, if the filter
        contained it; `full`, with `full_reason` and `full_detail`. `create`:
        parameters with which the filter is created if there is none.

        A batch beyond the limits is sent in parts, each of which is made as a whole
        or not at all; an error's `completed` has the results of those before it.
        """
        fields: dict[str, object] = {"only_if_absent": only_if_absent}
        if create is not None:
            fields["create"] = create
        answers = await self._transport.change_batch(f"{self._path}/items", items, fields, idempotency_key)
        return _added(answers)

    async def exists(
        self, item: Item, *, within_seconds: int | None = None, where: Mapping[str, Sequence[str]] | None = None
    ) -> bool:
        """Whether the filter contains the item. False is certain; True can be a false positive.

        `within_seconds`, of a filter with a window: whether it was seen so lately.
        `where`, of a filter with attributes: whether one row of the item has one of
        the listed values of each of these attributes.
        """
        return (await self.exists_many([item], within_seconds=within_seconds, where=where))[0]

    async def exists_many(
        self, items: Iterable[Item], *, within_seconds: int | None = None,
        where: Mapping[str, Sequence[str]] | None = None,
    ) -> list[bool]:
        """The same of many items, in their order."""
        given = {"within_seconds": within_seconds, "where": where}
        fields: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        return _joined(await self._transport.ask_batch(f"{self._path}/exists", items, fields))

    async def count(self, item: Item) -> int:
        """Copies of the item: never too low, too high as often as a false positive occurs."""
        return (await self.count_many([item]))[0]

    async def count_many(self, items: Iterable[Item]) -> list[int]:
        """The same of many items, in their order."""
        return _joined(await self._transport.ask_batch(f"{self._path}/count", items, {}))

    async def delete(self, item: Item, *, idempotency_key: str | None = None) -> bool:
        """Deletes one copy of the item, as `delete_many`."""
        return (await self.delete_many([item], idempotency_key=idempotency_key))[0]

    async def delete_many(self, items: Iterable[Item], *, idempotency_key: str | None = None) -> list[bool]:
        """Deletes one copy of each item; whether there was one, in their order.

        Delete only what was added: deleting another item can remove the fingerprint
        of one that was. Batches are split as in `add_many`.
        """
        return _joined(
            await self._transport.change_batch(f"{self._path}/items/delete", items, {}, idempotency_key)
        )

    async def add_values(
        self, entries: Iterable[Entry], *, only_if_absent: bool = False, idempotency_key: str | None = None
    ) -> AddedBody:
        """Adds a value to each item, in a filter that was created with `value_bits`, or a row, in one with
        `attributes`; results as `add_many`."""
        fields: dict[str, object] = {"only_if_absent": only_if_absent}
        at = f"{self._path}/values"
        return _added(await self._transport.change_batch(at, entries, fields, idempotency_key, "entries"))

    async def values(self, item: Item) -> list[int]:
        """The values of the item, ascending. None is missing; a value of another item can be among them."""
        return (await self.values_many([item]))[0]

    async def values_many(self, items: Iterable[Item]) -> list[list[int]]:
        """The same of many items, in their order."""
        return _joined(await self._transport.ask_batch(f"{self._path}/values/query", items, {}))

    async def rows(self, item: Item) -> list[dict[str, Any]]:
        """The rows of the item, in a filter with attributes: of an exact one the value, of a hashed one its bits.

        None is missing; a row of another item can be among them.
        """
        return (await self.rows_many([item]))[0]

    async def rows_many(self, items: Iterable[Item]) -> list[list[dict[str, Any]]]:
        """The same of many items, in their order."""
        return _joined(await self._transport.ask_batch(f"{self._path}/values/query", items, {}))

    async def replace_values(
        self, entries: Iterable[Replacement], *, idempotency_key: str | None = None
    ) -> list[str]:
        """Has each item have one value, or row, in place of another, or leaves it as it is.

        `replaced`; `absent`: it was not found with the old one; `full`. Replace only what was added.
        """
        at = f"{self._path}/values/replace"
        return _joined(await self._transport.change_batch(at, entries, {}, idempotency_key, "entries"))

    async def has_value(self, item: Item, value: int) -> bool:
        """Whether the item has the value. False is certain."""
        return (await self.has_values([(item, value)]))[0]

    async def has_values(self, entries: Iterable[Entry]) -> list[bool]:
        """The same of many items with a value each, in their order."""
        return _joined(await self._transport.ask_batch(f"{self._path}/exists", entries, {}, "entries"))

    async def delete_values(self, entries: Iterable[Entry], *, idempotency_key: str | None = None) -> list[bool]:
        """Deletes one copy of each entry; whether there was one, in their order. Delete only what was added."""
        at = f"{self._path}/values/delete"
        return _joined(await self._transport.change_batch(at, entries, {}, idempotency_key, "entries"))

    async def import_items(
        self, items: Iterable[str | int] | AsyncIterable[str | int], *, import_id: str | None = None,
        only_if_absent: bool = False,
    ) -> AsyncIterator[ImportBody]:
        """Adds any number of items, and yields the progress after each request.

        Nothing is sent unless you iterate. With an `import_id` the import is resumed
        where it was: call again with the same items in the same order, also from
        another process, and those that are committed are not sent again. The server
        remembers an import for a week.
        """
        import_id = import_id or uuid.uuid4().hex
        progress = await self._progress(import_id)
        committed = progress.committed_lines if progress else 0
        params = {"import_id": import_id, "only_if_absent": "true" if only_if_absent else "false"}
        sent = False
        async for chunk in achunks(items, committed, _CHUNK_LINES, _CHUNK_BYTES):
            yield (progress := await self._import(params, committed, chunk))
            committed, sent = progress.committed_lines, True
        if not sent:
            yield progress or await self._import(params, 0, b"")

    async def _import(self, params: dict[str, str], committed: int, chunk: bytes) -> ImportBody:
        # Lines that were committed although their answer was lost are skipped by
        # their numbers, so the same request can be sent again.
        request = Request(
            "POST", f"{self._path}/import", params={**params, "from_line": str(committed + 1)},
            headers={"content-type": "application/x-ndjson"}, content=chunk,
        )
        return ImportBody.from_json(json_of(await self._transport.send(request)))

    async def import_progress(self, import_id: str) -> ImportBody:
        """How far an import is. Raises `ImportNotFound`."""
        return ImportBody.from_json(await self._transport.ask("GET", f"{self._path}{path('imports', import_id)}"))

    async def _progress(self, import_id: str) -> ImportBody | None:
        try:
            return await self.import_progress(import_id)
        except ImportNotFound:
            return None

    async def compact(self, *, idempotency_key: str | None = None) -> CompactionBegunBody:
        """Starts to remove the newest sub-filters, after many deletes."""
        answer = await self._transport.change("POST", f"{self._path}/compact", None, idempotency_key)
        return CompactionBegunBody.from_json(answer)

    async def compaction(self) -> CompactionBody:
        """The state of the compaction."""
        return CompactionBody.from_json(await self._transport.ask("GET", f"{self._path}/compaction"))

    async def locate(self, item: str | int) -> LocatedBody:
        """The slots in which the item may lie."""
        return LocatedBody.from_json(
            await self._transport.ask("GET", f"{self._path}/locate", {"item": str(item)})
        )

    def dump(self) -> Download:
        """A consistent copy of the filter, as a context manager around its pieces of bytes.

        Its end is reached only if the copy is whole; otherwise `NoAnswerError` is raised.
        """
        return self._transport.download(f"{self._path}/dump")

    async def restore(
        self, dump: bytes | Iterable[bytes] | AsyncIterable[bytes], *, replace: bool = False
    ) -> FilterBody:
        """Makes the filter from a dump; with `replace` in place of one that exists.

        Not sent again if no answer arrives: ask `info()` what is there then.
        """
        params = {"replace": "true"} if replace else {}
        return FilterBody.from_json(await self._transport.upload(f"{self._path}/dump", params, {}, dump))


def _added(answers: list[Any]) -> AddedBody:
    # Later parts only repeat why the filter is full.
    full: dict[str, Any] = next((answer for answer in answers if "full_reason" in answer), {})
    return AddedBody.from_json({**full, "results": _joined(answers)})


def _joined(answers: list[dict[str, list]]) -> list:
    return [result for answer in answers for result in answer["results"]]
