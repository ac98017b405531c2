"""A server and its filters."""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from types import TracebackType
from typing import Literal, Self, Unpack

import httpx

from .._batches import BatchLimits, Item
from .._models import (
    BackupBody, BackupListBody, ClusterBody, FilterFields, FilterLineBody, FilterListBody, FoundBody, PreviewBody,
)
from .._pods import Pods
from .._retry import Backoff, Request, is_visible
from .._seconds import Seconds, seconds
from ..errors import json_of
from .filter import AsyncFilter
from .transport import AsyncTransport, path

Download = AbstractAsyncContextManager[AsyncIterator[bytes]]


class AsyncClient:
    """A cuckood server, or a cluster of them.

    Questions and changes are sent again until they are answered, for `patience`
    seconds: after broken connections and after answers that pass (429, 503 and
    the like), with growing random pauses, and not before `Retry-After`. Each
    change has an `Idempotency-Key`, so it is made once.

    Of a cluster name several pods: one is asked until it fails, then the next one,
    at once and with the same `Idempotency-Key`. Questions are answered with all
    changes that this client has made, whichever pod it asks.

    `url`: address of the server, or those of pods; without it `CUCKOOD_SERVER`, in
    which commas separate several, else http://127.0.0.1:8080.
    `api_key`: without it `CUCKOOD_API_KEY`, else none.
    `timeout`: seconds, or a `timedelta`, in which one request is to be answered, to its
    last byte.
    `patience`: the same, after the first attempt, in which others may begin; 0: none.
    `consistency`: `local`, or `strong` for questions about one filter that are answered
    with everything that was acknowledged before, to whomever. Without it `local`.
    `limits`: what the server takes in one request. Larger batches are split.
    `max_in_flight`: requests on their way at the same time. Others wait for a place, however
    many they are; that is no error, and their patience begins when they have one.
    `coalesce_changes`: of `AsyncClient`, whether single adds and deletes that are made at the
    same time go as batches, as questions always do; those with an `idempotency_key` do not. A
    batch is made as a whole or not at all: one that the server refuses has them made without
    the refused item.
    `http`: a client of httpx, for example with certificates. It is not closed. It needs
    `max_in_flight` connections: a wait for one is part of `timeout`.

    Use it as a context manager, or call `aclose()`.
    """

    def __init__(
        self, url: str | Sequence[str] | None = None, *, api_key: str | None = None, timeout: Seconds = 30.0,
        patience: Seconds = 60.0, consistency: Literal["local", "strong"] | None = None,
        limits: BatchLimits | None = None, max_in_flight: int = 64, coalesce_changes: bool = False,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        if url is None:
            url = (os.environ.get("CUCKOOD_SERVER") or "http://127.0.0.1:8080").split(",")
        # What is read from a file ends with its line.
        key = api_key or os.environ.get("CUCKOOD_API_KEY") or ""
        if not isinstance(key, str):
            raise TypeError(f"api_key is of type {type(key).__name__}: pass a str")
        key = key.strip()
        if not is_visible(key):
            raise ValueError("the API key has other characters than visible ASCII: give it as `cuckood keys add` printed it")
        self._transport = AsyncTransport(
            Pods([url] if isinstance(url, str) else url), {"authorization": f"Bearer {key}"} if key else {},
            consistency, seconds(timeout), Backoff(seconds(patience)), limits or BatchLimits(), max_in_flight,
            coalesce_changes, http,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()

    @property
    def url(self) -> str:
        """Address of the server, or of the pod that is asked now."""
        return self._transport.url

    def filter(self, key: str) -> AsyncFilter:
        """The filter of this key, whether it exists or not. Sends nothing."""
        return AsyncFilter(self._transport, key)

    async def filters(self, prefix: str = "", *, page: int = 1000) -> AsyncIterator[FilterLineBody]:
        """All filters whose keys start with `prefix`, in byte order; one request for `page` of them."""
        params = {"prefix": prefix, "limit": str(page)}
        while True:
            listed = FilterListBody.from_json(await self._transport.ask("GET", "/filters", params))
            for line in listed.filters:
                yield line
            if listed.next_cursor is None:
                return
            params["cursor"] = listed.next_cursor

    async def preview(self, **fields: Unpack[FilterFields]) -> PreviewBody:
        """What a filter with these parameters would be; nothing is created."""
        return PreviewBody.from_json(await self._transport.ask_with("/preview", fields))

    async def lookup(
        self, items: Iterable[Item], *, filters: Iterable[str] | None = None, prefix: str | None = None,
        first: bool = False, within_seconds: int | timedelta | None = None,
    ) -> FoundBody:
        """For each item the keys of the filters that contain it.

        Asks these `filters`, in their order, or all whose keys start with
        `prefix`; with `first` only up to the first that contains the item.
        `within_seconds`, of filters with windows: which of them saw the item so lately.
        """
        if isinstance(filters, str) or not isinstance(filters, Iterable | None):
            raise TypeError(f"{filters!r} is one key, not many: pass a list of keys")
        fields: dict[str, object] = {"first": first}
        if within_seconds is not None:
            fields["within_seconds"] = within_seconds
        if filters is not None:
            fields["filters"] = list(filters)
        if prefix is not None:
            fields["prefix"] = prefix
        answers = await self._transport.ask_batch("/lookup", items, fields)
        return FoundBody(
            results=[found for answer in answers for found in answer["results"]],
            missing_filters=list(dict.fromkeys(key for answer in answers for key in answer["missing_filters"])),
        )

    async def is_ready(self) -> bool:
        """Whether the server takes requests now. Asks once."""
        try:
            return await self._transport.is_ready()
        except httpx.RequestError:
            return False

    async def cluster(self) -> ClusterBody:
        """The lanes and pods of the cluster, as far as the asked pod knows."""
        return ClusterBody.from_json(await self._transport.ask("GET", "/cluster"))

    async def backups(self) -> BackupListBody:
        """The backups, newest first."""
        return BackupListBody.from_json(await self._transport.ask("GET", "/admin/backups"))

    async def create_backup(self) -> BackupBody:
        """Starts a backup. Raises `ProblemError` `backup_running` if one is running."""
        request = Request("POST", "/admin/backups", repeatable=False)
        return BackupBody.from_json(json_of(await self._transport.send(request)))

    async def backup(self, id: str) -> BackupBody:
        """The state of a backup."""
        return BackupBody.from_json(await self._transport.ask("GET", path("admin", "backups", id, "status")))

    def download_backup(self, id: str) -> Download:
        """A complete backup, a tar archive, as a context manager around its pieces of bytes."""
        return self._transport.download(path("admin", "backups", id))
