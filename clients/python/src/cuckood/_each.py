"""Lines of an import in chunks, from any kind of iterable."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field

from ._batches import line


@dataclass
class _Chunk:
    lines: list[bytes] = field(default_factory=list)
    size: int = 0

    def takes(self, item: str | int, max_lines: int, max_bytes: int) -> bytes | None:
        """Takes an item. Returns what was in it before, if that was enough."""
        text = line(item) + b"\n"
        full: bytes | None = None
        if self.lines and (len(self.lines) >= max_lines or self.size + len(text) > max_bytes):
            full, self.lines, self.size = b"".join(self.lines), [], 0
        self.lines.append(text)
        self.size += len(text)
        return full


def chunks(items: Iterable[str | int], skip: int, max_lines: int, max_bytes: int) -> Iterator[bytes]:
    """Chunks of NDJSON, without the first `skip` items."""
    chunk = _Chunk()
    for number, item in enumerate(items):
        if number >= skip and (full := chunk.takes(item, max_lines, max_bytes)) is not None:
            yield full
    if chunk.lines:
        yield b"".join(chunk.lines)


async def achunks(
    items: Iterable[str | int] | AsyncIterable[str | int], skip: int, max_lines: int, max_bytes: int
) -> AsyncIterator[bytes]:
    """The same, also of asynchronous iterables."""
    if not isinstance(items, AsyncIterable):
        for full in chunks(items, skip, max_lines, max_bytes):
            yield full
        return
    chunk, number = _Chunk(), 0
    async for item in items:
        if number >= skip and (taken := chunk.takes(item, max_lines, max_bytes)) is not None:
            yield taken
        number += 1
    if chunk.lines:
        yield b"".join(chunk.lines)
