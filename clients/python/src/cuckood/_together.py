"""Single questions, and on request changes, that are asked at the same time, as one batch."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ._batches import Entry, Item, as_json, encoded
from .errors import CuckoodError, InvalidRequest

# Single calls in one batch.
_MOST = 1000


@dataclass(frozen=True)
class Kind:
    """What calls have in common that can go as one batch: all but their items."""

    at: str
    named: str
    fields: bytes
    is_change: bool


@dataclass
class _Call:
    line: bytes
    result: asyncio.Future[Any]


class AsyncTogether:
    """Gathers the calls of tasks that were started together.

    `send` takes the items of a batch and gives their results.
    """

    def __init__(self, send: Callable[[Kind, list[bytes]], Awaitable[list[Any]]]) -> None:
        self._send_all = send
        self._waiting: dict[Kind, list[_Call]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def result(self, at: str, named: str, item: Item | Entry, fields: dict[str, object], *, is_change: bool) -> Any:
        """The result of one item."""
        (line,), encoding = encoded([item], named)
        kind = Kind(at, named, as_json({**encoding, **fields}), is_change)
        call = _Call(line, asyncio.get_running_loop().create_future())
        if kind in self._waiting:
            self._waiting[kind].append(call)
        else:
            self._waiting[kind] = [call]
            self._start(self._gather(kind))
        return await call.result

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _gather(self, kind: Kind) -> None:
        # All tasks that are ready now ask before this goes on.
        await asyncio.sleep(0)
        calls = self._waiting.pop(kind)
        for begin in range(0, len(calls), _MOST):
            self._start(self._send(kind, calls[begin : begin + _MOST]))

    async def _send(self, kind: Kind, calls: list[_Call]) -> None:
        try:
            while calls := [call for call in calls if not call.result.done()]:
                try:
                    results: list[Any] = await self._send_all(kind, [call.line for call in calls])
                except Exception as error:
                    calls = self._after(error, kind, calls)
                else:
                    for call, result in zip(calls, results, strict=True):
                        _answer(call, result)
        finally:
            for call in calls:
                call.result.cancel()

    def _after(self, error: Exception, kind: Kind, calls: list[_Call]) -> list[_Call]:
        """Who is to be asked again after an error: all but those that it is about."""
        if isinstance(error, CuckoodError):
            for call, result in zip(calls, error.completed):
                _answer(call, result)
            calls = calls[len(error.completed) :]
        bad = _refused(error, kind, len(calls))
        if bad and len(calls) > 1 and not (isinstance(error, CuckoodError) and error.completed):
            # By itself each gets an error that speaks of it alone.
            for at in sorted(bad, reverse=True):
                self._start(self._send(kind, [calls.pop(at)]))
            return calls
        for call in calls:
            if not call.result.done():
                call.result.set_exception(error)
        return []


def _answer(call: _Call, result: Any) -> None:
    if not call.result.done():
        call.result.set_result(result)


def _refused(error: Exception, kind: Kind, calls: int) -> set[int]:
    """Which items the server refuses, and with them the batch, of which nothing is done."""
    if not isinstance(error, InvalidRequest):
        return set()
    named = (re.match(rf"/{kind.named}/(\d+)", it.pointer or "") for it in error.errors)
    return {int(at[1]) for at in named if at and int(at[1]) < calls}


class Together:
    """Threads ask one by one."""

    def __init__(self, send: Callable[[Kind, list[bytes]], list[Any]]) -> None:
        self._send_all = send

    def result(self, at: str, named: str, item: Item | Entry, fields: dict[str, object], *, is_change: bool) -> Any:
        """The result of one item."""
        lines, encoding = encoded([item], named)
        return self._send_all(Kind(at, named, as_json({**encoding, **fields}), is_change), lines)[0]
