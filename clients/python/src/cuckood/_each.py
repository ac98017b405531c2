"""Lines of an import in chunks, from any kind of iterable and from files."""

import asyncio
import gzip
import inspect
import os
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader, IOBase
from typing import Any

from ._batches import Line, entries_of, entry_line, line, no_utf8, refuse_single
from ._models import ImportBody
from .errors import CuckoodError

Progress = Callable[[ImportBody], object]
"""Is called after each request of an import."""

TEXT = "text/plain"
NDJSON = "application/x-ndjson"

# One request of an import. A broken one is sent again as a whole.
_LINES = 50_000
_BYTES = 4 << 20
# What a slow source has given is not kept back for longer, once more comes.
_SECONDS = 5.0

# Bytes of a file that are read at a time.
_BLOCK = 1 << 18

_GZIP = b"\x1f\x8b"
# How what gzip has packed begins, as it is and decoded as UTF-8 or Latin-1.
_PACKED = (b"\x1f\x8b\b", "\x1f\ufffd\b".encode(), "\x1f\x8b\b".encode())
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Chunk:
    """The body of one request."""

    content: bytes
    media_type: str = NDJSON


class JsonLine(bytes):
    """A line of a file of NDJSON."""


@dataclass
class _Chunks:
    """Gathers lines. They go as text where that can say them, so that a line of a
    file means what it does to the server, and as NDJSON otherwise."""

    number: int = 0
    media_type: str = TEXT
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    began: float = 0.0

    def take(self, item: Line) -> Iterator[Chunk]:
        """Takes an item; yields what was there before, if that is enough."""
        self.number += 1
        text = _text(item, is_first=self.number == 1)
        if not self.lines:
            self.media_type = NDJSON if text is None else TEXT
        elif self.media_type == TEXT and text is None:
            yield self.taken()
            self.media_type = NDJSON
        said = text
        if self.media_type == NDJSON:
            said = _json(item, text)
            if said is None:
                # Only bytes that are no UTF-8; they are text.
                yield self.taken()
                self.media_type, said = TEXT, text
        assert said is not None
        if self.media_type == TEXT and said.endswith(b"\r"):
            # The server leaves one out at the end of a line.
            said += b"\r"
        if self.lines and (
            len(self.lines) >= _LINES or self.size + len(said) >= _BYTES or time.monotonic() - self.began >= _SECONDS
        ):
            yield self.taken()
        if not self.lines:
            self.began = time.monotonic()
        self.lines.append(said)
        self.size += len(said) + 1

    def taken(self) -> Chunk:
        """What was gathered."""
        lines, self.lines, self.size = self.lines, [], 0
        return Chunk(b"\n".join(lines) + b"\n", self.media_type)

    def skip(self) -> None:
        """Leaves a line out."""
        self.number += 1

    def rest(self, skipped: int) -> Iterator[Chunk]:
        """What is left at the end."""
        if self.number < skipped:
            raise CuckoodError(
                f"of this import_id {skipped} lines are committed, and {self.number} were given: it is that of another "
                "or longer list; a new list needs a new import_id"
            )
        if self.lines:
            yield self.taken()


def _text(item: Line, *, is_first: bool) -> bytes | None:
    """The item as a line of text, without its end; None: that can't say it."""
    if isinstance(item, JsonLine):
        return None
    if isinstance(item, (str, bytes)) and not item:
        # A blank line would be skipped.
        return None
    if isinstance(item, str):
        try:
            said = item.encode()
        except UnicodeEncodeError:
            raise no_utf8(item) from None
    elif isinstance(item, bytes):
        said = item
    else:
        return None
    if is_first:
        if said.startswith(_PACKED):
            raise ValueError("the source is packed with gzip: import_file(path) unpacks a file, gzip.open opens one")
        said = said.removeprefix(_BOM)
    said = _without_end(said)
    if b"\n" in said:
        raise ValueError(
            f"{item[:80]!r} is more than one line: for a file use import_file(path), for text pass its lines, "
            'for an item with line ends {"item": item}, or add_many if it is no UTF-8'
        )
    return said


def _without_end(said: bytes) -> bytes:
    return said[:-1].removesuffix(b"\r") if said.endswith(b"\n") else said


def _json(item: Line, text: bytes | None) -> bytes | None:
    """The item as a line of NDJSON; None: that can't say it."""
    if isinstance(item, JsonLine):
        return _without_end(item)
    if text == b"":
        return text
    if text is not None:
        try:
            return line(text.decode())
        except UnicodeDecodeError:
            return None
    return entry_line(item)


def _each_of(items: Iterable[Line]) -> Iterable[Line]:
    refuse_single(items, ", or import_file(path) for a file")
    return _ended(items) if isinstance(items, IOBase) else entries_of(items)


def _ended(lines: Iterable[Any]) -> Iterator[Line]:
    """Lines of a file. What the last one ends with is no part of an item, even if the line
    feed after it is missing."""
    for said in lines:
        if isinstance(said, str):
            yield f"{said}\n" if said.endswith("\r") else said
        else:
            yield said + b"\n" if said.endswith(b"\r") else said


def chunks(items: Iterable[Line], skip: int) -> Iterator[Chunk]:
    """Chunks, without the first `skip` items."""
    gathered = _Chunks()
    for item in _each_of(items):
        if gathered.number < skip:
            gathered.skip()
        else:
            yield from gathered.take(item)
    yield from gathered.rest(skip)


async def achunks(items: Iterable[Line] | AsyncIterable[Line], skip: int) -> AsyncIterator[Chunk]:
    """The same, also of asynchronous iterables."""
    if not isinstance(items, AsyncIterable):
        for chunk in chunks(items, skip):
            yield chunk
        return
    gathered = _Chunks()
    async for item in items:
        if gathered.number < skip:
            gathered.skip()
            continue
        for chunk in gathered.take(item):
            yield chunk
    for chunk in gathered.rest(skip):
        yield chunk


def opened(path: str | os.PathLike[str]) -> BufferedReader:
    """The file, before anything is asked of the server: it may not be there."""
    return open(path, "rb")


async def aopened(path: str | os.PathLike[str]) -> BufferedReader:
    """The same; a pipe has others wait."""
    return await asyncio.to_thread(opened, path)


def file_chunks(file: BufferedReader, skip: int) -> Iterator[Chunk]:
    """Chunks of a file's lines, without the first `skip`."""
    name = os.fsdecode(file.name).lower().removesuffix(".gz")
    is_gzip = file.peek(len(_GZIP)).startswith(_GZIP)
    lines = gzip.GzipFile(fileobj=file) if is_gzip else file
    if lines.peek(len(_UTF16[0])).startswith(_UTF16):
        raise ValueError(f"{os.fsdecode(file.name)} is UTF-16: convert it to UTF-8")
    if name.endswith((".ndjson", ".jsonl")):
        yield from chunks(map(JsonLine, _without_bom(lines)), skip)
    else:
        yield from chunks(lines, skip)


def _without_bom(lines: Iterable[bytes]) -> Iterator[bytes]:
    for number, said in enumerate(lines):
        yield said if number else said.removeprefix(_BOM)


async def afile_chunks(file: BufferedReader, skip: int) -> AsyncIterator[Chunk]:
    """The same; the file is read in another thread."""
    read = file_chunks(file, skip)
    while (chunk := await asyncio.to_thread(next, read, None)) is not None:
        yield chunk


def refuse_no_blocks(content: object) -> None:
    """Refuses what is no body."""
    if isinstance(content, (str, bytearray, memoryview)) or not isinstance(content, (Iterable, AsyncIterable)):
        raise TypeError(f"{type(content).__name__} is no dump: pass bytes, or what yields bytes, such as open(path, 'rb')")


def blocks(content: Iterable[bytes]) -> Iterable[bytes]:
    """A body in pieces; httpx reads a file in such."""
    return content


async def ablocks(content: Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The same; a file is read in another thread."""
    if isinstance(content, AsyncIterable):
        async for piece in content:
            yield piece
    elif read := getattr(content, "read", None):
        while piece := await asyncio.to_thread(read, _BLOCK):
            yield piece
    else:
        for piece in content:
            yield piece


def tell(progress: Progress | None, report: ImportBody) -> None:
    """Calls it, if there is one."""
    if progress is not None:
        progress(report)


async def atell(progress: Progress | None, report: ImportBody) -> None:
    """The same, also of a function that is asynchronous."""
    if progress is not None and inspect.isawaitable(told := progress(report)):
        await told
