"""Items as JSON, and batches as parts that the server takes. Sends nothing."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._seconds import in_json
from .errors import ProblemError

Item = str | int | bytes
"""A string (its UTF-8 bytes), an integer (its decimal digits, so `7` and `"7"`
are the same item) or bytes."""

Row = Mapping[str, str]
"""A value for each attribute of a filter, by its name."""

Entry = tuple[Item, int | Row] | Mapping[str, Any]
"""An item and a value, or a row: `("ada", 17)`, or as the API has it
`{"item": "ada", "value": 17}`, `{"item": "ada", "attributes": {"plan": "pro"}}`."""

Entries = Iterable[Entry] | Mapping[Any, int | Row]
"""Several; a mapping has a value, or a row, for each item."""

Replacement = tuple[Item, int | Row, int | Row] | Mapping[str, Any]
"""An item, the value or row that it has, and what comes in its place; or a
mapping with `item`, `from` and `to`."""

Line = Item | Entry
"""What an import takes. Of a `str` or `bytes` the end of the line is left out, and of the
first a byte order mark; one with more lines is an error. `{"item": "ada"}` is an item as
it is."""

# The server refused these as a whole; smaller parts may pass.
_SMALLER_PASS = frozenset({"batch_too_large", "body_too_large", "too_costly", "too_many_pages"})
# Room for the other fields of a body.
_BODY_BYTES = 64 << 10


@dataclass
class BatchLimits:
    """What the server takes in one request: `--max-batch-items`,
    `--max-body-bytes`. They shrink when the server refuses a part."""

    items: int = 250_000
    bytes: int = 32 << 20


def encoded(items: Iterable[Item | Entry | Replacement], named: str) -> tuple[list[bytes], dict[str, str]]:
    """The items, or entries, in JSON, and the field that says how the items are encoded."""
    if named == "entries":
        items = [_entry(item) for item in several(items)]
    else:
        items = several(items)
        for item in items:
            if isinstance(item, (tuple, list, Mapping)):
                raise TypeError(
                    f"{item!r} is no item: an item is a str, an int or bytes; several are added with add_many, "
                    "entries with add_values"
                )
    if any(isinstance(item[0] if isinstance(item, tuple) else item, bytes) for item in items):
        return [_line(item, _base64) for item in items], {"encoding": "base64"}
    return [_line(item, line) for item in items], {}


def several(given: Iterable[Any]) -> list[Any]:
    """Items, or entries, that can be read twice."""
    refuse_single(given)
    return list(given)


def refuse_single(given: object, otherwise: str = "") -> None:
    """Refuses what is not several items."""
    if isinstance(given, (str, bytes, bytearray)):
        raise TypeError(f"{given[:80]!r} is one item, not many: pass a list{otherwise}")
    if not isinstance(given, Iterable):
        raise TypeError(f"{given!r} is no list of items: pass a list{otherwise}")


def entries_of(given: Iterable[Any]) -> Iterable[Any]:
    """The entries of a mapping are items and their values."""
    if not isinstance(given, Mapping):
        return given
    if "item" in given and given.keys() <= {"item", "value", "attributes", "from", "to"}:
        raise TypeError(f"{given!r} is one entry, not many: pass a list")
    return given.items()


def _entry(item: Any) -> Any:
    found = _as_tuple(item)
    if not isinstance(found, tuple) or not found:
        raise _no_entry(item)
    return found


def _no_entry(item: object) -> TypeError:
    return TypeError(f"{item!r} is no entry: an entry is an item with a value or a row, such as ('ada', 17)")


def _as_tuple(item: Item | Entry | Replacement) -> Any:
    """An entry or a replacement as a tuple, however it is given."""
    if not isinstance(item, Mapping):
        return item
    for names in (("item", "value"), ("item", "attributes"), ("item", "from", "to")):
        if item.keys() == set(names):
            return tuple(item[name] for name in names)
    raise TypeError(
        f"{item!r} is no entry: it has item and value, item and attributes, or to replace a value item, from and to"
    )


def _line(item: Any, line_of: Callable[[Item], bytes]) -> bytes:
    if not isinstance(item, tuple):
        return line_of(item)
    if not 2 <= len(item) <= 3:
        raise _no_entry(item)
    item, *values = item
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, Mapping)):
            raise TypeError(f"{value!r} is no value: a value is an int, or for attributes a mapping of their names")
    names = ("from", "to") if len(values) == 2 else ("attributes" if isinstance(values[0], Mapping) else "value",)
    fields = (b',"' + name.encode() + b'":' + as_json(value) for name, value in zip(names, values, strict=True))
    return b'{"item":' + line_of(item) + b"".join(fields) + b"}"


def entry_line(item: Any) -> bytes:
    """What an import takes beside text, as a line of NDJSON."""
    if isinstance(item, Mapping) and item.keys() == {"item"}:
        return _utf8_line(item["item"])
    return _line(_as_tuple(item), _utf8_line)


def _utf8_line(item: Item) -> bytes:
    if not isinstance(item, bytes):
        return line(item)
    try:
        return line(item.decode())
    except UnicodeDecodeError:
        raise ValueError(f"{item!r} is no UTF-8: add it with add_many, with a value with add_values") from None


def line(item: object) -> bytes:
    """An item as a line of NDJSON, without its end."""
    if isinstance(item, bool) or not isinstance(item, (str, int)):
        raise TypeError(f"{item!r} is no item: an item is a str, an int or bytes")
    try:
        return as_json(item)
    except UnicodeEncodeError:
        raise no_utf8(item) from None


def no_utf8(item: object) -> ValueError:
    """The error of a string that has half of a pair alone."""
    return ValueError(f"{item!r} is no item: it has a lone surrogate, which UTF-8 does not encode; pass bytes")


def body(items: Sequence[bytes], fields: bytes, named: str) -> bytes:
    """The body of a request for a part; `fields` is an object in JSON."""
    rest = fields[1:-1]
    return b'{"' + named.encode() + b'":[' + b",".join(items) + (b"]," + rest if rest else b"]") + b"}"


class Parts:
    """The parts of a batch, in order; a part that is refused is halved.

    Nothing of a refused part is done, so its halves are new requests."""

    def __init__(self, items: list[bytes], limits: BatchLimits, *, whole: bool) -> None:
        """`whole`: the batch goes as one request, or not at all."""
        self._limits = limits
        self._whole = whole
        self._waiting = [items] if whole else list(_split(items, limits))[::-1]
        self._current: list[bytes] = []

    def __iter__(self) -> Iterator[list[bytes]]:
        while self._waiting:
            self._current = self._waiting.pop()
            yield self._current

    def halve(self, problem: ProblemError) -> bool:
        """Puts the refused part back as two; whether that may help."""
        half = len(self._current) // 2
        if self._whole or half == 0 or problem.code not in _SMALLER_PASS:
            return False
        if problem.code == "batch_too_large":
            self._limits.items = min(self._limits.items, half)
        if problem.code == "body_too_large":
            size = sum(map(len, self._current))
            self._limits.bytes = min(self._limits.bytes, max(size // 2, _BODY_BYTES))
        self._waiting += [self._current[half:], self._current[:half]]
        return True


def _split(items: list[bytes], limits: BatchLimits) -> Iterator[list[bytes]]:
    room = max(limits.bytes - _BODY_BYTES, limits.bytes // 2)
    begin, size = 0, 0
    for at, item in enumerate(items):
        if at > begin and (at - begin >= limits.items or size + len(item) + 1 > room):
            yield items[begin:at]
            begin, size = at, 0
        size += len(item) + 1
    yield items[begin:]


def _base64(item: Item) -> bytes:
    return as_json(base64.b64encode(as_bytes(item)).decode())


def as_bytes(item: Item) -> bytes:
    """The bytes that an item is."""
    if isinstance(item, bytes):
        return item
    line(item)
    return str(item).encode()


def as_json(value: object) -> bytes:
    """JSON, in which a `timedelta` is its seconds."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=in_json).encode()
