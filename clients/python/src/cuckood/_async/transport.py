"""Sends requests until they are answered."""

import asyncio
import logging
import math
import uuid
from asyncio import Semaphore
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from .._batches import BatchLimits, Entry, Item, Parts, Replacement, as_json, body, encoded
from .._deadline import AsyncDeadline, is_good
from .._each import ablocks, refuse_no_blocks
from .._loops import AsyncLoop
from .._pods import Pods, Positions
from .._retry import Attempts, Backoff, Request, is_visible, text, was_sent
from .._together import AsyncTogether, Kind
from ..errors import CuckoodError, NoAnswerError, ProblemError, in_words, json_of, problem_of
from .connections import own_http

_JSON = {"content-type": "application/json"}

# Seconds that the server keeps an answer at most.
_LONGEST_LIFETIME = 24 * 3600

_log = logging.getLogger("cuckood")

# Seconds in which a pod accepts a connection, where others can be asked.
_CONNECT = 1.0


def path(*parts: str) -> str:
    """A path with each part percent-encoded."""
    return "".join(f"/{quote(text(part, 'a key or id'), safe='')}" for part in parts)


@dataclass(frozen=True)
class _InLoop:
    """What belongs to one event loop, and is of no use in another."""

    http: httpx.AsyncClient
    places: Semaphore
    together: AsyncTogether


class AsyncTransport:
    """A server, or the pods of a cluster, and how patiently they are asked."""

    def __init__(
        self, pods: Pods, headers: dict[str, str], consistency: str | None, timeout: float, backoff: Backoff,
        limits: BatchLimits, max_in_flight: int, coalesce_changes: bool, http: httpx.AsyncClient | None,
    ) -> None:
        if not isinstance(max_in_flight, int) or max_in_flight < 1:
            raise ValueError(f"max_in_flight is {max_in_flight!r}: an integer from 1 is allowed")
        if http is not None and not isinstance(http, httpx.AsyncClient):
            raise TypeError(f"http is {http!r}: pass an httpx.AsyncClient")
        if not 0 < timeout < math.inf:
            raise ValueError(f"timeout is {timeout}: a number of seconds above 0 is allowed")
        if not backoff.patience >= 0:
            raise ValueError(f"patience is {backoff.patience}: a number of seconds from 0 is allowed")
        self._pods = pods
        self._positions = Positions()
        self._headers = headers
        self._of_questions = {} if consistency is None else {"cuckood-consistency": consistency}
        connect = timeout if len(pods) == 1 else min(timeout, _CONNECT)
        # Who waits for a connection has no error: the places are counted here.
        self._timeout = httpx.Timeout(timeout, connect=connect, pool=None)
        self._deadline = AsyncDeadline(timeout)
        self._wait = f"wait={timeout:.3f}"
        self._backoff = backoff
        self._limits = limits
        # After that no attempt of a change is on its way.
        self._lifetime = str(max(1, math.ceil(min(backoff.patience + timeout, _LONGEST_LIFETIME))))
        self._max_in_flight = max_in_flight
        self._coalesce_changes = coalesce_changes
        self._given_http = http
        self._loop = AsyncLoop()
        self._in_loop = self._made()

    @property
    def url(self) -> str:
        return self._pods.current

    def _made(self) -> _InLoop:
        http = self._given_http or own_http(self._max_in_flight)
        return _InLoop(http, Semaphore(self._max_in_flight), AsyncTogether(self._results))

    @property
    def _here(self) -> _InLoop:
        if self._in_loop.http.is_closed:
            raise CuckoodError("the client is closed: make another one")
        if self._loop.is_another(can_follow=self._given_http is None):
            self._in_loop = self._made()
        return self._in_loop

    async def aclose(self) -> None:
        if self._given_http is None and not self._in_loop.http.is_closed:
            await self._here.http.aclose()

    async def send(self, request: Request) -> httpx.Response:
        """A good answer, read to its end."""
        # A place is kept during pauses: who was here first is answered first, and its
        # patience begins with its first attempt.
        async with self._here.places:
            return await self._send(request)

    async def _send(self, request: Request) -> httpx.Response:
        attempts = Attempts(self._backoff, len(self._pods))
        while True:
            url = self._pods.current
            try:
                response = await self._once(url, request)
            except httpx.RequestError as error:
                pause = self._after(request, url, error, attempts)
            else:
                self._positions.note(response.headers)
                if response.is_success:
                    return response
                pause = self._after(request, url, problem_of(response), attempts)
            await asyncio.sleep(pause)

    def _after(
        self, request: Request, url: str, failure: httpx.RequestError | ProblemError, attempts: Attempts
    ) -> float:
        """Seconds until the request is sent again. Raises what it ends with, if it is not."""
        if isinstance(failure, httpx.RequestError):
            self._pods.failed(url)
            pause = attempts.after_silence(request, failure)
        else:
            if failure.code == "invalid_position" and self._positions.forget():
                return 0.0
            if attempts.turns_away(failure):
                self._pods.failed(url)
            pause = attempts.after_problem(request, failure)
        _log.info(
            "%s %s at %s: %s; attempt %d follows in %.2f s",
            request.method, request.path, url, in_words(failure), attempts.made + 1, pause,
        )
        return pause

    async def _once(self, url: str, request: Request) -> httpx.Response:
        # The server stops work for which nobody waits any longer.
        headers = {**self._headers, "prefer": self._wait, **request.headers}
        if not request.is_change:
            headers |= self._asked()
        http = self._here.http
        return await self._deadline.send(http, http.build_request(
            request.method, url + request.path, params=request.params, headers=headers,
            content=request.content, timeout=self._timeout,
        ))

    def _asked(self) -> dict[str, str]:
        """What questions say: what they must take into account."""
        return {**self._positions.headers(), **self._of_questions}

    async def is_ready(self) -> bool:
        """Whether the server says that it is ready. One attempt."""
        url = f"{self._pods.current}/readyz"
        http = self._here.http
        request = http.build_request("GET", url, headers=self._headers, timeout=self._timeout)
        return (await self._deadline.send(http, request)).is_success

    async def ask(self, method: str, at: str, params: dict[str, str] | None = None) -> Any:
        """A question without a body; its answer in JSON."""
        return json_of(await self.send(Request(method, at, params=params or {})))

    async def ask_with(self, at: str, fields: object) -> Any:
        """A question with a body; its answer in JSON."""
        content = as_json(fields)
        return json_of(await self.send(Request("POST", at, headers=_JSON, content=content)))

    async def change(
        self, method: str, at: str, fields: object = None, idempotency_key: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """A change that is made once, however often it is sent."""
        content = None if fields is None else as_json(fields)
        return await self._change(method, at, content, idempotency_key, headers)

    async def _change(
        self, method: str, at: str, content: bytes | None, idempotency_key: str | None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        if idempotency_key is not None and not (
            0 < len(text(idempotency_key, "idempotency_key")) <= 255 and is_visible(idempotency_key)
        ):
            raise ValueError(f"idempotency_key is {idempotency_key!r}: 1 to 255 visible ASCII characters are allowed")
        key = {"idempotency-key": idempotency_key} if idempotency_key is not None else {
            "idempotency-key": uuid.uuid4().hex, "idempotency-key-lifetime": self._lifetime,
        }
        sent = {**key, **(headers or {})}
        if content is not None:
            sent |= _JSON
        response = await self.send(Request(method, at, headers=sent, content=content))
        return json_of(response) if response.content else None

    async def ask_batch(
        self, at: str, items: Iterable[Item | Entry], fields: dict[str, object], named: str = "items"
    ) -> list[Any]:
        """The answers to the parts of a batch of questions, in order."""
        lines, encoding = encoded(items, named)
        kind = Kind(at, named, as_json({**encoding, **fields}), is_change=False)
        return await self._batch(kind, lines, None)

    async def change_batch(
        self, at: str, items: Iterable[Item | Entry | Replacement], fields: dict[str, object],
        idempotency_key: str | None, named: str = "items",
    ) -> list[Any]:
        """The answers to the parts of a batch of changes, in order."""
        lines, encoding = encoded(items, named)
        kind = Kind(at, named, as_json({**encoding, **fields}), is_change=True)
        return await self._batch(kind, lines, idempotency_key)

    async def ask_one(self, at: str, item: Item | Entry, fields: dict[str, object], named: str = "items") -> Any:
        """The result of a question about one item."""
        return await self._here.together.result(at, named, item, fields, is_change=False)

    async def change_one(
        self, at: str, item: Item | Entry, fields: dict[str, object], idempotency_key: str | None,
        named: str = "items",
    ) -> Any:
        """The result of a change of one item."""
        if self._coalesce_changes and idempotency_key is None:
            return await self._here.together.result(at, named, item, fields, is_change=True)
        answers = await self.change_batch(at, [item], fields, idempotency_key, named)
        return answers[0]["results"][0]

    async def _results(self, kind: Kind, lines: list[bytes]) -> list[Any]:
        return [result for answer in await self._batch(kind, lines, None) for result in answer["results"]]

    async def _batch(self, kind: Kind, lines: list[bytes], idempotency_key: str | None) -> list[Any]:
        # One key names one request: a batch that was split differently the
        # next time would be made twice.
        parts = Parts(lines, self._limits, whole=idempotency_key is not None)
        answers: list[Any] = []
        for part in parts:
            content = body(part, kind.fields, kind.named)
            try:
                if kind.is_change:
                    answers.append(await self._change("POST", kind.at, content, idempotency_key))
                else:
                    request = Request("POST", kind.at, headers=_JSON, content=content)
                    answers.append(json_of(await self.send(request)))
            except CuckoodError as error:
                if isinstance(error, ProblemError) and parts.halve(error):
                    continue
                error.completed = [result for answer in answers for result in answer["results"]]
                raise
        return answers

    @asynccontextmanager
    async def download(self, at: str, params: dict[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of an answer of any length."""
        async with self._answer(at, params or {}, {}) as response:
            yield self._pieces(at, response)

    @asynccontextmanager
    async def changed(
        self, at: str, params: dict[str, str], etag: str | None
    ) -> AsyncIterator[tuple[str, AsyncIterator[bytes]] | None]:
        """The same with its ETag; None if it still has this one."""
        async with self._answer(at, params, {"if-none-match": etag} if etag else {}) as response:
            if response.status_code == httpx.codes.NOT_MODIFIED:
                yield None
            else:
                yield response.headers.get("etag", ""), self._pieces(at, response)

    @asynccontextmanager
    async def _answer(self, at: str, params: dict[str, str], asked: dict[str, str]) -> AsyncIterator[httpx.Response]:
        # Who has an older one asks again in its own time.
        backoff = Backoff(0.0) if asked else self._backoff
        # Compressed on the way a dump has another ETag and no length, and is hardly shorter.
        asked = {"accept-encoding": "identity", **asked}
        attempts, once = Attempts(backoff, len(self._pods)), Request("GET", at, repeatable=False)
        while True:
            url, http = self._pods.current, self._here.http
            headers = {**self._headers, **self._asked(), **asked}
            request = http.build_request("GET", url + at, params=params, headers=headers, timeout=self._timeout)
            try:
                response = await self._deadline.begin(http, request)
            except httpx.RequestError as error:
                pause = self._after(once, url, error, attempts)
            else:
                if is_good(response):
                    break
                pause = self._after(once, url, problem_of(response), attempts)
            await asyncio.sleep(pause)
        try:
            yield response
        finally:
            await response.aclose()

    async def _pieces(self, at: str, response: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for piece in response.aiter_bytes():
                yield piece
        except httpx.RequestError as error:
            raise NoAnswerError("GET", at, error) from error

    async def upload(
        self, at: str, params: dict[str, str], headers: dict[str, str],
        content: bytes | Iterable[bytes] | AsyncIterable[bytes],
    ) -> Any:
        """Sends a body of any length. Only bytes can be sent a second time."""
        refuse_no_blocks(content)
        headers = {"content-type": "application/octet-stream", **headers}
        if isinstance(content, bytes):
            request = Request("PUT", at, params=params, headers=headers, content=content, repeatable=False)
            return json_of(await self.send(request))
        url = self._pods.current
        try:
            response = await self._here.http.put(
                url + at, params=params, headers={**self._headers, **headers}, content=ablocks(content),
                timeout=self._timeout,
            )
        except httpx.RequestError as error:
            self._pods.failed(url)
            raise NoAnswerError("PUT", at, error, may_be_made=was_sent(error)) from error
        self._positions.note(response.headers)
        if not response.is_success:
            raise problem_of(response)
        return json_of(response)
