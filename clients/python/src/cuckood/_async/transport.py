"""Sends requests until they are answered."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

from .._batches import BatchLimits, Entry, Item, Parts, body, encoded
from .._pods import Pods, Positions
from .._retry import Attempts, Backoff, Request
from ..errors import CuckoodError, NoAnswerError, ProblemError, json_of, problem_of

_JSON = {"content-type": "application/json"}

# Seconds in which a pod accepts a connection, where others can be asked.
_CONNECT = 1.0


def path(*parts: str) -> str:
    """A path with each part percent-encoded."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


class AsyncTransport:
    """A server, or the pods of a cluster, and how patiently they are asked."""

    def __init__(
        self, pods: Pods, headers: dict[str, str], consistency: str | None, timeout: float, backoff: Backoff,
        limits: BatchLimits, http: httpx.AsyncClient | None,
    ) -> None:
        self._pods = pods
        self._positions = Positions()
        self._headers = headers
        self._of_questions = {} if consistency is None else {"cuckood-consistency": consistency}
        connect = timeout if len(pods) == 1 else min(timeout, _CONNECT)
        self._timeout = httpx.Timeout(timeout, connect=connect)
        self._wait = f"wait={timeout:.3f}"
        self._backoff = backoff
        self._limits = limits
        self._http = http or httpx.AsyncClient()
        self._owns_http = http is None

    @property
    def url(self) -> str:
        return self._pods.current

    async def aclose(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def send(self, request: Request) -> httpx.Response:
        """A good answer, read to its end."""
        attempts = Attempts(self._backoff, len(self._pods))
        while True:
            url = self._pods.current
            try:
                response = await self._once(url, request)
            except httpx.TransportError as error:
                self._pods.failed(url)
                pause = attempts.after_silence(request, error)
            else:
                self._positions.note(response.headers)
                if response.is_success:
                    return response
                problem = problem_of(response)
                if problem.code == "invalid_position" and self._positions.forget():
                    continue
                if attempts.turns_away(problem):
                    self._pods.failed(url)
                pause = attempts.after_problem(request, problem)
            await asyncio.sleep(pause)

    async def _once(self, url: str, request: Request) -> httpx.Response:
        # The server stops work for which nobody waits any longer.
        headers = {**self._headers, "prefer": self._wait, **request.headers}
        if not request.is_change:
            headers |= self._asked()
        return await self._http.request(
            request.method, url + request.path, params=request.params, headers=headers,
            content=request.content, timeout=self._timeout,
        )

    def _asked(self) -> dict[str, str]:
        """What questions say: what they must take into account."""
        return {**self._positions.headers(), **self._of_questions}

    async def is_ready(self) -> bool:
        """Whether the server says that it is ready. One attempt."""
        url = f"{self._pods.current}/readyz"
        return (await self._http.get(url, headers=self._headers, timeout=self._timeout)).is_success

    async def ask(self, method: str, at: str, params: dict[str, str] | None = None) -> Any:
        """A question without a body; its answer in JSON."""
        return json_of(await self.send(Request(method, at, params=params or {})))

    async def ask_with(self, at: str, fields: object) -> Any:
        """A question with a body; its answer in JSON."""
        content = json.dumps(fields).encode()
        return json_of(await self.send(Request("POST", at, headers=_JSON, content=content)))

    async def change(
        self, method: str, at: str, fields: object = None, idempotency_key: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """A change that is made once, however often it is sent."""
        content = None if fields is None else json.dumps(fields).encode()
        return await self._change(method, at, content, idempotency_key, headers)

    async def _change(
        self, method: str, at: str, content: bytes | None, idempotency_key: str | None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        sent = {"idempotency-key": idempotency_key or uuid.uuid4().hex, **(headers or {})}
        if content is not None:
            sent |= _JSON
        response = await self.send(Request(method, at, headers=sent, content=content))
        return json_of(response) if response.content else None

    async def ask_batch(
        self, at: str, items: Iterable[Item | Entry], fields: dict[str, object], named: str = "items"
    ) -> list[Any]:
        """The answers to the parts of a batch of questions, in order."""

        async def ask(content: bytes) -> Any:
            return json_of(await self.send(Request("POST", at, headers=_JSON, content=content)))

        return await self._batch(items, fields, ask, named, whole=False)

    async def change_batch(
        self, at: str, items: Iterable[Item | Entry], fields: dict[str, object], idempotency_key: str | None,
        named: str = "items",
    ) -> list[Any]:
        """The answers to the parts of a batch of changes, in order."""

        async def change(content: bytes) -> Any:
            return await self._change("POST", at, content, idempotency_key)

        # One key names one request: a batch that was split differently the
        # next time would be made twice.
        return await self._batch(items, fields, change, named, whole=idempotency_key is not None)

    async def _batch(
        self, items: Iterable[Item | Entry], fields: dict[str, object], send: Callable[[bytes], Awaitable[Any]],
        named: str, *, whole: bool,
    ) -> list[Any]:
        lines, encoding = encoded(items)
        parts = Parts(lines, self._limits, whole=whole)
        answers: list[Any] = []
        for part in parts:
            try:
                answers.append(await send(body(part, {**encoding, **fields}, named)))
            except CuckoodError as error:
                if isinstance(error, ProblemError) and parts.halve(error):
                    continue
                error.completed = [result for answer in answers for result in answer["results"]]
                raise
        return answers

    @asynccontextmanager
    async def download(self, at: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of an answer of any length."""
        url, headers = self._pods.current, {**self._headers, **self._asked()}
        request = self._http.build_request("GET", url + at, headers=headers, timeout=self._timeout)
        try:
            response = await self._http.send(request, stream=True)
        except httpx.TransportError as error:
            self._pods.failed(url)
            raise NoAnswerError("GET", at, error) from error
        try:
            if not response.is_success:
                await response.aread()
                raise problem_of(response)
            yield self._pieces(at, response)
        finally:
            await response.aclose()

    async def _pieces(self, at: str, response: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for piece in response.aiter_bytes():
                yield piece
        except httpx.TransportError as error:
            raise NoAnswerError("GET", at, error) from error

    async def upload(
        self, at: str, params: dict[str, str], headers: dict[str, str],
        content: bytes | Iterable[bytes] | AsyncIterable[bytes],
    ) -> Any:
        """Sends a body of any length. Only bytes can be sent a second time."""
        headers = {"content-type": "application/octet-stream", **headers}
        if isinstance(content, bytes):
            request = Request("PUT", at, params=params, headers=headers, content=content, repeatable=False)
            return json_of(await self.send(request))
        url = self._pods.current
        try:
            response = await self._http.put(
                url + at, params=params, headers={**self._headers, **headers}, content=content,
                timeout=self._timeout,
            )
        except httpx.TransportError as error:
            self._pods.failed(url)
            raise NoAnswerError("PUT", at, error) from error
        self._positions.note(response.headers)
        if not response.is_success:
            raise problem_of(response)
        return json_of(response)
