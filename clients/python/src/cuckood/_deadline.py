"""When an attempt ends at the latest. httpx has a limit for each phase of a request and for
each piece of it, and none for all of it: who trickles is waited for without end."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import httpcore
import httpx

# Bytes of a body that are sent at once: as many as a socket takes.
_PIECE = 65536

# For a phase that begins when nothing is left.
_LEAST = 0.001


class AsyncDeadline:
    """Of each attempt: within these seconds it has a whole answer, or an error."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def send(self, http: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
        async with self._in_time(request):
            return await http.send(request)

    async def begin(self, http: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
        """For the head of a good answer, whose body is read piece by piece; for all of another."""
        async with self._in_time(request):
            response = await http.send(request, stream=True)
            if not is_good(response):
                try:
                    await response.aread()
                finally:
                    await response.aclose()
            return response

    @asynccontextmanager
    async def _in_time(self, request: httpx.Request) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._seconds):
                yield
        except TimeoutError as error:
            raise _late(self._seconds, request) from error


class Deadline:
    """The same where nothing can be broken off: each phase, and each piece that is read,
    gets what is left for it, and between two pieces the clock is asked. So an attempt ends
    late by one phase at most."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def send(self, http: httpx.Client, request: httpx.Request) -> httpx.Response:
        # What a client sends that is not asynchronous.
        request.stream = self._pieces(request.stream, request)
        with _attempt.until(time.monotonic() + self._seconds):
            return self._read(self._begun(http, request), request)

    def begin(self, http: httpx.Client, request: httpx.Request) -> httpx.Response:
        """For the head of a good answer, whose body is read piece by piece; for all of another."""
        limits = dict(request.extensions["timeout"])
        with _attempt.until(time.monotonic() + self._seconds):
            response = self._begun(http, request)
            if not is_good(response):
                return self._read(response, request)
        # A piece of the body may take as long as any phase.
        request.extensions["timeout"].update(limits)
        return response

    def _read(self, response: httpx.Response, request: httpx.Request) -> httpx.Response:
        try:
            response.stream = self._pieces(response.stream, request)
            response.read()
        finally:
            response.close()
        return response

    def _pieces(self, stream: object, request: httpx.Request) -> "_Pieces":
        def check() -> None:
            if time.monotonic() > _attempt.ends:
                raise _late(self._seconds, request)

        return _Pieces(cast(httpx.SyncByteStream, stream), check)

    def _begun(self, http: httpx.Client, request: httpx.Request) -> httpx.Response:
        limits = dict(request.extensions["timeout"])

        def at_phase(_event: str, info: dict[str, object]) -> None:
            if isinstance(stream := info.get("return_value"), httpcore.NetworkStream):
                _read_in_time(stream)
            left = max(_LEAST, _attempt.ends - time.monotonic())
            for phase, limit in limits.items():
                bound = left if limit is None else min(left, limit)
                request.extensions["timeout"][phase] = bound if bound < math.inf else None

        at_phase("", {})
        request.extensions["trace"] = at_phase
        return http.send(request, stream=True)


class _Attempt(threading.local):
    """Of the thread: when what it sends now has to have its answer, or the head of that."""

    ends = math.inf

    @contextmanager
    def until(self, ends: float) -> Iterator[None]:
        self.ends = ends
        try:
            yield
        finally:
            self.ends = math.inf


_attempt = _Attempt()


def _read_in_time(stream: Any) -> None:
    """Has a new connection ask the clock before each piece that it reads: headers come in
    any number of them, and each would have all of the phase's time."""
    read = stream.read

    def read_in_time(most: int, timeout: float | None = None) -> bytes:
        left = _attempt.ends - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        bound = left if timeout is None else min(left, timeout)
        piece: bytes = read(most, bound if bound < math.inf else None)
        return piece

    stream.read = read_in_time


class _Pieces(httpx.SyncByteStream):
    """A stream in pieces, with a check before each."""

    def __init__(self, stream: httpx.SyncByteStream, check: Callable[[], None]) -> None:
        self._stream = stream
        self._check = check

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            for at in range(0, len(part), _PIECE):
                self._check()
                yield part[at : at + _PIECE]

    def close(self) -> None:
        self._stream.close()


def is_good(response: httpx.Response) -> bool:
    """Whether it is what was asked for, or says of what was named that it has not changed."""
    is_named = "if-none-match" in response.request.headers
    return response.is_success or is_named and response.status_code == httpx.codes.NOT_MODIFIED


def _late(seconds: float, request: httpx.Request) -> httpx.TimeoutException:
    return httpx.ReadTimeout(f"{seconds:g} s", request=request)
