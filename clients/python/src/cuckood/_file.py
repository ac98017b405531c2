"""A filter that is a file: docs/format.md has its bytes. Needs the standard library alone.

What a header says is checked when a file is opened, and a block of 4,096 bytes when it is
first looked into. So nothing is read beyond the end of a file, whatever stands in it, and
nothing is kept but a byte a block.
"""

import hashlib
import math
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import BinaryIO, Literal, Self

from ._batches import Item, as_bytes, several
from ._hashes import mix, murmur64a, siphash13
from ._seconds import Seconds, seconds
from .errors import FilterFileError

_BLOCK = 4096
_FIXED = 256
_END_BYTES = 48
_COUNTER = struct.Struct("<IIHH")
_MAGIC, _END = b"CUCKFILE", b"CUCKEND1"
_VERSION = 1
# Longest header, and counters of a page.
_MOST_HEADER = 4 << 20
_MOST_COUNTERS = 16_384

# What is not part of the digest.
_MASKED = ((12, 4), (120, 8), (216, 32))
_SUM = 12

_VALUES, _WINDOW, _ATTRIBUTES, _NO_KEY = 1, 2, 4, 8
_CLASSIC, _PAGED = 1, 2

# Slots in 8 bytes, by the bits of a slot.
_SLOTS = {12: 5, 16: 4, 21: 3, 32: 2}

_M = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True)
class FileDescription:
    """What a file says of its filter."""

    layout: Literal["classic", "paged"]
    items: int
    """Adds less deletes."""
    false_positive_rate: float
    """Probability that an item is found that was never added, as expected."""
    created_at: datetime
    changed_at: datetime
    """When the filter was changed last: what was added later is not in the file."""
    etag: str
    """Names the state of the filter, as the server does."""
    file_bytes: int
    value_bits: int
    """0: it has no values."""
    has_attributes: bool
    """Whether values are rows of attributes, which only the server can name."""
    window_seconds: int | None
    window_resolution_seconds: int | None
    has_key: bool
    """Whether the key of its hash is in the file. Whoever has it can test guesses."""


def _told(file: mmap.mmap | bytes, form: str, at: int) -> tuple[int, ...]:
    return struct.unpack_from(form, file, at)


def has_key(begin: bytes) -> bool | None:
    """Whether the key of its hash was not left out of a file, by its first bytes; None: it is no such file."""
    is_file = len(begin) >= _FIXED and begin.startswith(_MAGIC)
    return not _told(begin, "<I", 160)[0] & _NO_KEY if is_file else None


def told_bytes(begin: bytes) -> int:
    """How long a file says that it is, by its first bytes."""
    if has_key(begin) is None:
        raise FilterFileError("this is no file of a filter")
    (version,) = _told(begin, "<H", 8)
    if version != _VERSION:
        raise FilterFileError(f"the file has format version {version}, and this client reads {_VERSION} alone")
    (total,) = _told(begin, "<Q", 16)
    return total


def marks(file: BinaryIO) -> bytes:
    """What tells a file from others: its header's fields, and the digest of what it holds."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    begin = file.read(_FIXED)
    file.seek(max(0, size - _END_BYTES))
    return begin + file.read(_END_BYTES)


class FilterFile:
    """Answers from a filter's file, as `cuckood build` writes it.

    A "no" is certain for what was added before the file was made. Answers are those of the
    server at that moment, false positives included. Threads may share it.

    `key`: the 16 bytes of the hash key, of a file that it was left out of.

    Raises `FilterFileError` if the bytes are no such file, not all of one, damaged, or of
    a newer version; of a damaged block only what needs it is refused. Put new files in place
    by renaming: a file that is cut off while it is mapped ends the process.
    """

    def __init__(self, path: str | os.PathLike[str], *, key: bytes | None = None) -> None:
        with open(path, "rb") as file:
            told_bytes(file.read(_FIXED))
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            # Of the name it may be that of another file, which took this one's place.
            self._modified = os.fstat(file.fileno()).st_mtime
        try:
            self._open(key)
            self._advise("MADV_RANDOM")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file."""
        self._map.close()

    def _advise(self, name: str) -> None:
        """Says how the file will be read, where the system takes that: for a question whatever
        lies around its two pages is read in vain."""
        if hasattr(mmap, name) and hasattr(self._map, "madvise"):
            self._map.madvise(getattr(mmap, name))

    def _open(self, key: bytes | None) -> None:
        m = self._map
        total, pages_at, pages, stamps_at, index_at, counters_at, counters, sums_at = _told(m, "<8Q", 16)
        if len(m) != total:
            raise FilterFileError(f"the file has {len(m)} bytes and should have {total}: it was cut off, or added to")
        if not _FIXED <= pages_at <= min(_MOST_HEADER, total - _END_BYTES) or pages_at % _BLOCK:
            raise _damaged("its length can't be")
        head = m[:pages_at]
        if zlib.crc32(head[:_SUM] + bytes(4) + head[_SUM + 4 :]) != _told(m, "<I", _SUM)[0]:
            raise _damaged("its checksum does not match")
        self._layout = _told(m, "<H", 10)[0]
        self._features = _told(m, "<I", 160)[0]
        if unknown := self._features & ~(_VALUES | _WINDOW | _ATTRIBUTES | _NO_KEY):
            raise FilterFileError(f"the file has features that this client does not know (bits {unknown:#x})")
        self._pages_at, self._pages = pages_at, pages
        self._stamps_at, self._index_at, self._counters_at, self._counters = stamps_at, index_at, counters_at, counters
        self._sums_at = sums_at
        self._width, self._anchor_bits, self._suffix, self._value_bits = m[164:168]
        self._families, self._level, self._pointer, self._window, self._resolution = _told(m, "<5I", 168)
        (self._epoch,) = _told(m, "<Q", 192)
        self._subs: list[tuple[int, int]] = []
        if self._layout == _CLASSIC:
            self._open_classic()
        elif self._layout == _PAGED:
            self._open_paged(key)
        else:
            raise _damaged("it has an unknown layout")
        self._check_parts()
        sums = m[sums_at : total - _END_BYTES]
        if m[total - _END_BYTES : total - 40] != struct.pack("<II", zlib.crc32(sums), 0) or m[total - 8 :] != _END:
            raise FilterFileError("the checksums of the file are damaged")
        self._seen = bytearray((sums_at - pages_at) // _BLOCK)

    def _open_classic(self) -> None:
        self._bucket_size, subs, table_at = _told(self._map, "<III", 200)
        if table_at != _FIXED or not 0 < subs <= (self._pages_at - _FIXED) // 16 or not 0 < self._bucket_size < 256:
            raise _damaged("its sub-filters can't be")
        at = self._pages_at
        for number in range(subs):
            buckets, begin = _told(self._map, "<QQ", table_at + 16 * number)
            if not buckets or buckets & buckets - 1 or begin != at:
                raise _damaged("its sub-filters can't be")
            self._subs.append((buckets, begin))
            at += _whole(buckets * self._bucket_size)
        if at != self._pages_at + self._pages * _BLOCK or self._features:
            raise _damaged("its pages can't be")

    def _open_paged(self, key: bytes | None) -> None:
        fingerprint = self._width - self._value_bits
        may_be = (
            self._width in _SLOTS
            and self._anchor_bits == (6 if fingerprint < 16 else 8)
            and 0 < self._suffix == fingerprint - self._anchor_bits
            and self._families > 0
            and self._level < 32
            and self._pointer < self._families << self._level
            and self._pages == (self._families << self._level) + self._pointer < 1 << 32
        )
        if not may_be:
            raise _damaged("its pages can't be")
        is_window = bool(self._features & _WINDOW)
        if is_window and not (self._value_bits and 0 < self._resolution <= self._window):
            raise _damaged("its window can't be")
        if bool(self._features & _VALUES) != (self._value_bits > 0 and not is_window):
            raise _damaged("its values can't be")
        words = 2 if self._width == 32 else 1
        self._bucket_mask = 512 // words - 1
        self._bucket_bytes = 8 * words
        slots = range(_SLOTS[self._width])
        self._shifts = [64 * word + self._width * slot for word in range(words) for slot in slots]
        self._slot_mask = (1 << self._width) - 1
        self._value_mask = (1 << self._value_bits) - 1
        # What follows from an anchor alone: the sum of its two buckets, and to which pages it
        # crosses, if it does.
        self._anchors = [
            (mix(a, 0x77) >> 40 & 0x1FF | 1, a % 8 == 1, mix(a, 0x1234) * self._families >> 64, mix(a, 0xBEEF))
            for a in range(1 << self._anchor_bits)
        ]
        self._key = self._own_key(key)

    def _own_key(self, given: bytes | None) -> tuple[int, int] | None:
        told = self._map[96:112]
        if not self._features & _NO_KEY:
            if given not in (None, told):
                raise FilterFileError("this is not the key of the file's hash")
            given = told
        elif given is not None and (len(given) != 16 or hashlib.sha256(given).digest()[:16] != told):
            raise FilterFileError("this is not the key of the file's hash")
        if given is None:
            return None
        low, high = struct.unpack("<QQ", given)
        return low, high

    def _check_parts(self) -> None:
        """Refuses offsets that are not what follows from the sizes."""
        at = self._pages_at + self._pages * _BLOCK
        stamps_at = at if self._features & _WINDOW else 0
        if stamps_at:
            at += 8 * self._pages
        index_at = at if self._counters and not stamps_at else 0
        counters_at = index_at and at + 8 * (self._pages + 1)
        at = counters_at + 12 * self._counters if index_at else at
        sums_at = _whole(at)
        total = sums_at + (sums_at - self._pages_at) // _BLOCK * 4 + _END_BYTES
        told = (self._stamps_at, self._index_at, self._counters_at, self._sums_at, len(self._map))
        if told != (stamps_at, index_at, counters_at, sums_at, total):
            raise _damaged("its fields do not fit each other")

    # -- what it says

    @property
    def etag(self) -> str:
        """Names the state of the filter that the file is of, as the server's `ETag` does."""
        (changed,) = _told(self._map, "<Q", 120)
        (changes,) = _told(self._map, "<Q", 232)
        return f'"{self._map[216:232].hex()}-{changes:x}-{changed:x}"'

    @property
    def marks(self) -> bytes:
        """As `marks` of the file."""
        return self._map[:_FIXED] + self._map[-_END_BYTES:]

    @property
    def modified(self) -> float:
        """The time of the file when it was opened, in seconds since 1970."""
        return self._modified

    def describe(self) -> FileDescription:
        """What the file says of its filter. Reads the header alone."""
        m, is_window = self._map, bool(self._features & _WINDOW)
        created, changed, items = _told(m, "<3Q", 112)
        (rate,) = struct.unpack_from("<d", m, 152)
        return FileDescription(
            layout="classic" if self._layout == _CLASSIC else "paged", items=items, false_positive_rate=rate,
            created_at=_moment(created), changed_at=_moment(changed), etag=self.etag, file_bytes=len(m),
            value_bits=0 if is_window or self._layout == _CLASSIC else self._value_bits,
            has_attributes=bool(self._features & _ATTRIBUTES),
            window_seconds=self._window if is_window else None,
            window_resolution_seconds=self._resolution if is_window else None,
            has_key=not self._features & _NO_KEY,
        )

    def verify(self) -> str:
        """Checks every block, and the digest of all, which it returns. Equal filters have equal ones."""
        self._advise("MADV_SEQUENTIAL")
        try:
            return self._verified()
        finally:
            self._advise("MADV_RANDOM")

    def _verified(self) -> str:
        head, end = bytearray(self._map[: self._pages_at]), len(self._map) - 40
        for at, size in _MASKED:
            head[at : at + size] = bytes(size)
        digest = hashlib.sha256(head)
        # Pieces: an export of the map would keep it from being closed.
        for block in range(len(self._seen)):
            at = self._pages_at + block * _BLOCK
            self._check(at, 1)
            digest.update(self._map[at : at + _BLOCK])
        digest.update(self._map[self._sums_at : end])
        if digest.digest() != self._map[end : end + 32]:
            raise FilterFileError("the digest of the file is not the one that it has")
        return digest.hexdigest()

    # -- questions

    def exists(self, item: Item, *, within_seconds: Seconds | None = None, now: float | None = None) -> bool:
        """Whether the item is found. False is certain; true can be a false positive.

        `within_seconds`, of a filter with a window: whether it was seen so lately. `now`:
        seconds since 1970 in place of the clock.
        """
        return self._exists(as_bytes(item), self._since(within_seconds, now))

    def exists_many(
        self, items: Iterable[Item], *, within_seconds: Seconds | None = None, now: float | None = None
    ) -> list[bool]:
        """The same of many items, in their order."""
        since = self._since(within_seconds, now)
        return [self._exists(as_bytes(item), since) for item in several(items)]

    def count(self, item: Item, *, now: float | None = None) -> int:
        """Copies of the item: never too low, too high as often as a false positive occurs."""
        name = as_bytes(item)
        if self._layout == _CLASSIC:
            return sum(self._classic_copies(name))
        if self._features & _WINDOW:
            return int(self._exists(name, self._since(None, now)))
        slots, beside = self._entries(name)
        return len(slots) + sum(copies for _, copies in beside)

    def count_many(self, items: Iterable[Item], *, now: float | None = None) -> list[int]:
        """The same of many items, in their order."""
        return [self.count(item, now=now) for item in several(items)]

    def values(self, item: Item) -> list[int]:
        """The values of the item, ascending; of a filter with attributes the bits of its rows.

        None is missing; a value of another item can be among them.
        """
        if not self._features & _VALUES:
            raise FilterFileError("the filter has no values")
        slots, beside = self._entries(as_bytes(item))
        return sorted({held & self._value_mask for held in slots} | {held & self._value_mask for held, _ in beside})

    def values_many(self, items: Iterable[Item]) -> list[list[int]]:
        """The same of many items, in their order."""
        return [self.values(item) for item in several(items)]

    def _since(self, within: Seconds | None, now: float | None) -> int | None:
        """The first epoch in which an item may have been seen last that is found."""
        if not self._features & _WINDOW:
            if within is not None:
                raise FilterFileError("the filter has no window")
            return None
        asked = self._window if within is None else seconds(within)
        if not 0 < asked <= self._window:
            raise ValueError(f"within_seconds is {asked}: above 0 and up to {self._window} is allowed")
        current = max(self._epoch, int(time.time() if now is None else now) // self._resolution)
        return max(0, current - math.ceil(asked / self._resolution))

    def _exists(self, name: bytes, since: int | None) -> bool:
        if self._layout == _CLASSIC:
            return any(self._classic_copies(name, is_counted=False))
        for page, _, held in self._matches(name):
            if since is None or self._epoch_of(page, held) >= since:
                return True
        return False

    def _matches(self, name: bytes) -> Iterator[tuple[int, int, int]]:
        """Page, bucket and what the slot holds, of each that matches."""
        if self._key is None:
            raise FilterFileError("the key of its hash was left out of the file: give it as key")
        low, high = siphash13(name, *self._key)
        anchor_bits, suffix = self._anchor_bits, self._suffix
        anchor = low >> 9 & (1 << anchor_bits) - 1
        used = 9 + anchor_bits
        path = (low >> used | high << 64 - used) & _M
        # No fingerprint is 0.
        if not anchor and not path & (1 << suffix) - 1:
            path |= 1 << suffix - 1
        family, bucket = high * self._families >> 64, low & self._bucket_mask
        total, crosses, across, turn = self._anchors[anchor]
        yield from self._in_bucket(family, path, bucket, anchor)
        if crosses:
            family, path = (across - family) % self._families, path ^ turn
        yield from self._in_bucket(family, path, total - bucket & self._bucket_mask, anchor)

    def _in_bucket(self, family: int, path: int, bucket: int, anchor: int) -> Iterator[tuple[int, int, int]]:
        level, suffix = self._level, self._suffix
        page = family + self._families * (path & (1 << level) - 1)
        if page < self._pointer:
            page += (self._families << level) * (path >> level & 1)
            level += 1
        bits = path >> level & (1 << suffix) - 1
        fresh = anchor << suffix | int(f"{bits:0{suffix}b}"[::-1], 2) | (level > 0)
        at = self._pages_at + page * _BLOCK + bucket * self._bucket_bytes
        block = page
        if not self._seen[block]:
            self._check(at, 1)
        word = int.from_bytes(self._map[at : at + self._bucket_bytes], "little")
        if not word:
            return
        for shift in self._shifts:
            held = word >> shift & self._slot_mask
            fingerprint = held >> self._value_bits
            if not fingerprint:
                continue
            # Up to its lowest 1 a fingerprint has no bits of the path, but at level 0.
            unknown = (fingerprint ^ fingerprint - 1) if level else 0
            if not (fingerprint ^ fresh) & ~unknown:
                yield page, bucket, held

    def _entries(self, name: bytes) -> tuple[list[int], list[tuple[int, int]]]:
        """What the slots hold that match, and what is counted beside pages: what it would be
        in a slot, and copies."""
        slots: list[int] = []
        classes: dict[tuple[int, int, int], None] = {}
        for page, bucket, held in self._matches(name):
            slots.append(held)
            total, crosses = self._anchors[held >> self._suffix + self._value_bits][:2]
            stands = bucket if crosses else min(bucket, total - bucket & self._bucket_mask)
            classes[page, stands, held & ~self._value_mask] = None
        beside = [
            counted
            for page, stands, first in classes
            for counted in self._beside(page, stands, first, first | self._value_mask)
        ]
        return slots, beside

    def _beside(self, block: int, where: int, first: int, last: int) -> Iterator[tuple[int, int]]:
        """What is counted beside a page at a place, from one slot's content to another's."""
        if not self._counters:
            return
        at = self._index_at + 8 * block
        self._check(at, 16)
        low, end = struct.unpack_from("<QQ", self._map, at)
        if not low <= end <= self._counters or end - low > _MOST_COUNTERS:
            raise FilterFileError(f"block {(at - self._pages_at) // _BLOCK} of the file is damaged")
        high = end
        while low < high:
            middle = (low + high) // 2
            held, _, place, _ = self._counter(middle)
            low, high = (middle + 1, high) if (place, held) < (where, first) else (low, middle)
        for number in range(low, end):
            held, few, place, many = self._counter(number)
            if (place, held) > (where, last):
                return
            yield held, few | many << 32

    def _counter(self, number: int) -> tuple[int, ...]:
        at = self._counters_at + 12 * number
        self._check(at, 12)
        return _COUNTER.unpack_from(self._map, at)

    def _epoch_of(self, page: int, held: int) -> int:
        """The epoch in which what a slot holds was seen last; -1: never."""
        at = self._stamps_at + 8 * page
        self._check(at, 8)
        stamp = int(struct.unpack_from("<Q", self._map, at)[0]) - 1
        return -1 if stamp < 0 else stamp - (stamp - held & self._value_mask)

    def _classic_copies(self, name: bytes, *, is_counted: bool = True) -> Iterator[int]:
        """Copies in each sub-filter that has any."""
        low = murmur64a(name)
        fingerprint, size = low % 255 + 1, self._bucket_size
        for buckets, begin in self._subs:
            first = low & buckets - 1
            second = (first ^ fingerprint * 0x5BD1E995) & buckets - 1
            copies = 0
            for bucket in {first, second}:
                at = begin + bucket * size
                self._check(at, size)
                copies += self._map[at : at + size].count(fingerprint)
            if not copies:
                continue
            if is_counted:
                block, place = divmod(begin + min(first, second) * size - self._pages_at, _BLOCK)
                copies += sum(more for _, more in self._beside(block, place, fingerprint, fingerprint))
            yield copies

    def _check(self, at: int, size: int) -> None:
        """Each block before it is first looked into."""
        for block in range((at - self._pages_at) // _BLOCK, (at + size - 1 - self._pages_at) // _BLOCK + 1):
            if self._seen[block]:
                continue
            begin = self._pages_at + block * _BLOCK
            if zlib.crc32(self._map[begin : begin + _BLOCK]) != _told(self._map, "<I", self._sums_at + 4 * block)[0]:
                raise FilterFileError(f"block {block} of the file is damaged")
            self._seen[block] = 1


def _whole(size: int) -> int:
    """So many bytes in whole blocks."""
    return -(-size // _BLOCK) * _BLOCK


def _moment(milliseconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        raise _damaged("its moments can't be") from None


def _damaged(why: str) -> FilterFileError:
    return FilterFileError(f"the header of the file is damaged: {why}")
