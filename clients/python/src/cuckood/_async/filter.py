"""One filter."""

import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from os import PathLike
from typing import Any, Literal, Unpack

from .._batches import Entries, Item, Line, Replacement, as_bytes, entries_of, several
from .._each import Chunk, Progress, achunks, afile_chunks, aopened, atell
from .._models import (
    AddedBody, CompactionBegunBody, CompactionBody, FilterBody, FilterFields, ImportBody, LocatedBody,
)
from .._retry import Request
from ..errors import FilterDiffers, FilterNotFound, ImportIncomplete, ImportNotFound, json_of
from .transport import AsyncTransport, path

Download = AbstractAsyncContextManager[AsyncIterator[bytes]]
Changed = AbstractAsyncContextManager[tuple[str, AsyncIterator[bytes]] | None]

_EMPTY = Chunk(b"")


class AsyncFilter:
    """A filter by its key. Errors are `CuckoodError`, without the filter `FilterNotFound`, and of bad
    arguments `TypeError` or `ValueError`.

    `idempotency_key` of a change: one of your own, so that the change is also made
    once if your program is restarted and calls again within 24 hours. A batch with
    such a key is never split. Without it each change gets a random one.
    """

    def __init__(self, transport: AsyncTransport, key: str) -> None:
        self._transport = transport
        if not key:
            raise ValueError("the key of the filter is empty")
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
        """Whether the filter itself exists; `exists(item)` asks about an item."""
        try:
            await self._transport.send(Request("GET", self._path))
        except FilterNotFound:
            return False
        return True

    async def expire_after(self, ttl_seconds: int | timedelta | None, *, idempotency_key: str | None = None) -> FilterBody:
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
        fields = _add_fields(only_if_absent, create)
        result: Literal["added", "refreshed", "exists", "full"] = await self._transport.change_one(
            f"{self._path}/items", item, fields, idempotency_key
        )
        return result

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
        fields = _add_fields(only_if_absent, create)
        answers = await self._transport.change_batch(f"{self._path}/items", items, fields, idempotency_key)
        return _added(answers)

    async def exists(
        self, item: Item, *, within_seconds: int | timedelta | None = None, where: Mapping[str, Sequence[str]] | None = None
    ) -> bool:
        """Whether the filter contains the item. False is certain; True can be a false positive.

        `within_seconds`, of a filter with a window: whether it was seen so lately.
        `where`, of a filter with attributes: whether one row of the item has one of
        the listed values of each of these attributes.
        """
        fields = _asked_fields(within_seconds, where)
        return bool(await self._transport.ask_one(f"{self._path}/exists", item, fields))

    async def exists_many(
        self, items: Iterable[Item], *, within_seconds: int | timedelta | None = None,
        where: Mapping[str, Sequence[str]] | None = None,
    ) -> list[bool]:
        """The same of many items, in their order."""
        fields = _asked_fields(within_seconds, where)
        return _joined(await self._transport.ask_batch(f"{self._path}/exists", items, fields))

    async def count(self, item: Item) -> int:
        """Copies of the item: never too low, too high as often as a false positive occurs."""
        return int(await self._transport.ask_one(f"{self._path}/count", item, {}))

    async def count_many(self, items: Iterable[Item]) -> list[int]:
        """The same of many items, in their order."""
        return _joined(await self._transport.ask_batch(f"{self._path}/count", items, {}))

    async def delete(self, item: Item, *, idempotency_key: str | None = None) -> bool:
        """Deletes one copy of the item, as `delete_many`."""
        return bool(await self._transport.change_one(f"{self._path}/items/delete", item, {}, idempotency_key))

    async def delete_many(self, items: Iterable[Item], *, idempotency_key: str | None = None) -> list[bool]:
        """Deletes one copy of each item; whether there was one, in their order.

        Delete only what was added: deleting another item can remove the fingerprint
        of one that was. Batches are split as in `add_many`.
        """
        return _joined(
            await self._transport.change_batch(f"{self._path}/items/delete", items, {}, idempotency_key)
        )

    async def add_values(
        self, entries: Entries, *, only_if_absent: bool = False, create: FilterFields | None = None,
        idempotency_key: str | None = None,
    ) -> AddedBody:
        """Adds a value to each item, in a filter that was created with `value_bits`, or a row, in one with
        `attributes`; results as `add_many`. `entries`: pairs, mappings as the API has them, or a mapping from
        items to their values. `create`: parameters with which the filter is created first
        if there is none."""
        fields = _add_fields(only_if_absent, None)
        entries = several(entries_of(entries))
        at = f"{self._path}/values"
        try:
            return _added(await self._transport.change_batch(at, entries, fields, idempotency_key, "entries"))
        except FilterNotFound:
            if create is None:
                raise
        await self._create_if_missing(create)
        return _added(await self._transport.change_batch(at, entries, fields, idempotency_key, "entries"))

    async def _create_if_missing(self, fields: FilterFields) -> None:
        try:
            await self.create(**fields)
        except FilterDiffers:
            # Somebody else has created it meanwhile.
            pass

    async def values(self, item: Item) -> list[int]:
        """The values of the item, ascending. None is missing; a value of another item can be among them."""
        values: list[int] = await self._transport.ask_one(f"{self._path}/values/query", item, {})
        return values

    async def values_many(self, items: Iterable[Item]) -> list[list[int]]:
        """The same of many items, in their order."""
        return _joined(await self._transport.ask_batch(f"{self._path}/values/query", items, {}))

    async def rows(self, item: Item) -> list[dict[str, Any]]:
        """The rows of the item, in a filter with attributes: of an exact one the value, of a hashed one its bits.

        None is missing; a row of another item can be among them.
        """
        rows: list[dict[str, Any]] = await self._transport.ask_one(f"{self._path}/values/query", item, {})
        return rows

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
        return _joined(await self._transport.change_batch(at, entries_of(entries), {}, idempotency_key, "entries"))

    async def has_value(self, item: Item, value: int) -> bool:
        """Whether the item has the value. False is certain."""
        return bool(await self._transport.ask_one(f"{self._path}/exists", (item, value), {}, "entries"))

    async def has_values(self, entries: Entries) -> list[bool]:
        """The same of many items with a value each, in their order."""
        return _joined(await self._transport.ask_batch(f"{self._path}/exists", entries_of(entries), {}, "entries"))

    async def delete_values(self, entries: Entries, *, idempotency_key: str | None = None) -> list[bool]:
        """Deletes one copy of each entry; whether there was one, in their order. Delete only what was added."""
        at = f"{self._path}/values/delete"
        return _joined(await self._transport.change_batch(at, entries_of(entries), {}, idempotency_key, "entries"))

    async def import_items(
        self, items: Iterable[Line] | AsyncIterable[Line], *, import_id: str | None = None,
        only_if_absent: bool = False, allow_partial: bool = False, on_progress: Progress | None = None,
        create: FilterFields | None = None,
    ) -> ImportBody:
        """Adds any number of items, and returns the report when all are committed.

        `items`: a list, a generator, an open file (text or binary, also of gzip), anything that
        yields items. In a filter with values or attributes it yields entries: tuples as in
        `add_values`, mappings as the API has them, or the lines of a file. The end of a line
        (`\\n`, `\\r\\n`) is no part of an item, nor is a byte order mark at the beginning; empty
        lines are skipped. An item that ends with `\\n` is imported as `{"item": item}`.

        Raises `ImportIncomplete`, with the report, if lines were bad or found no room; all
        others are imported then. With `allow_partial` the report alone says so.

        `on_progress` is called with the report so far after each request, of up to 50,000
        lines. With an `import_id` the import is resumed where it was: call again with the same
        items in the same order, also from another process, and those that are committed are
        not sent again. A new list needs a new id: as many of its lines as are committed are
        passed over, and a shorter one is refused. The server remembers an import for a week.

        `create`: parameters of the filter if it does not exist yet, as for `create`.
        """
        return await self._import_all(
            lambda skip: achunks(items, skip), import_id, only_if_absent, allow_partial, on_progress, create
        )

    async def import_file(
        self, path: str | PathLike[str], *, import_id: str | None = None,
        only_if_absent: bool = False, allow_partial: bool = False, on_progress: Progress | None = None,
        create: FilterFields | None = None,
    ) -> ImportBody:
        """Adds each line of a file, as `import_items`.

        A file that begins as gzip does is unpacked. One whose name ends with `.ndjson` or
        `.jsonl` (and `.gz` after it) has an item or entry in JSON in each line; any other one
        text, and for a filter with values a tab and the value after each item.
        """
        with await aopened(path) as file:
            return await self._import_all(
                lambda skip: afile_chunks(file, skip), import_id, only_if_absent, allow_partial, on_progress, create
            )

    async def _import_all(
        self, chunks_after: Callable[[int], AsyncIterator[Chunk]], import_id: str | None, only_if_absent: bool,
        allow_partial: bool, on_progress: Progress | None, create: FilterFields | None,
    ) -> ImportBody:
        import_id = import_id or uuid.uuid4().hex
        if create is not None and not await self.is_there():
            await self._create_if_missing(create)
        report = await self._progress(import_id)
        params = {"import_id": import_id, "only_if_absent": "true" if only_if_absent else "false"}
        async for chunk in chunks_after(report.committed_lines if report else 0):
            report = await self._import(params, report.committed_lines if report else 0, chunk)
            await atell(on_progress, report)
        if report is None:
            report = await self._import(params, 0, _EMPTY)
        if (report.bad_lines or report.full) and not allow_partial:
            raise ImportIncomplete(report)
        return report

    async def _import(self, params: dict[str, str], committed: int, chunk: Chunk) -> ImportBody:
        # Lines that were committed although their answer was lost are skipped by
        # their numbers, so the same request can be sent again.
        request = Request(
            "POST", f"{self._path}/import", params={**params, "from_line": str(committed + 1)},
            headers={"content-type": chunk.media_type}, content=chunk.content,
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

    async def merge(self, *others: str, idempotency_key: str | None = None) -> FilterBody:
        """Makes the filter the union of itself and others, which stay as they are.

        They must be siblings, created with `sibling_of`; else the code is `not_siblings`.
        """
        answer = await self._transport.change("POST", f"{self._path}/merge", {"from": others}, idempotency_key)
        return FilterBody.from_json(answer)

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
            await self._transport.ask("GET", f"{self._path}/locate", {"item": as_bytes(item).decode()})
        )

    def dump(self, *, without_key: bool = False) -> Download:
        """A consistent copy of the filter, as a context manager around its pieces of bytes.

        `without_key`: the secret key of its hash is left out. Who asks the file has to have it
        from elsewhere, and it can't be restored.

        Its end is reached only if the copy is whole; otherwise `NoAnswerError` is raised.
        """
        return self._transport.download(f"{self._path}/dump", _dump_params(without_key))

    def dump_unless(self, etag: str | None, *, without_key: bool = False) -> Changed:
        """A dump with its `ETag`, or None while the filter has this one: as a context manager
        around the pair, or None. `FilterFile.etag` is that of a file; `SyncedFilter` uses it.
        With an `etag` the server is asked once, without `patience`."""
        return self._transport.changed(f"{self._path}/dump", _dump_params(without_key), etag)

    async def restore(
        self, dump: bytes | Iterable[bytes] | AsyncIterable[bytes], *, replace: bool = False
    ) -> FilterBody:
        """Makes the filter from a dump; with `replace` in place of one that exists.

        Not sent again if no answer arrives: ask `info()` what is there then.
        """
        params = {"replace": "true"} if replace else {}
        return FilterBody.from_json(await self._transport.upload(f"{self._path}/dump", params, {}, dump))


def _dump_params(without_key: bool) -> dict[str, str]:
    return {"without_key": "true"} if without_key else {}


def _added(answers: list[Any]) -> AddedBody:
    # Later parts only repeat why the filter is full.
    full: dict[str, Any] = next((answer for answer in answers if "full_reason" in answer), {})
    return AddedBody.from_json({**full, "results": _joined(answers)})


def _joined(answers: list[Any]) -> list[Any]:
    return [result for answer in answers for result in answer["results"]]


def _add_fields(only_if_absent: bool, create: FilterFields | None) -> dict[str, object]:
    fields: dict[str, object] = {"only_if_absent": only_if_absent}
    return fields if create is None else {**fields, "create": create}


def _asked_fields(
    within_seconds: int | timedelta | None, where: Mapping[str, Sequence[str]] | None
) -> dict[str, object]:
    given = {"within_seconds": within_seconds, "where": where}
    return {name: value for name, value in given.items() if value is not None}
