"""A file of a filter that is kept fresh in the background."""

import contextlib
import glob
import logging
import math
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ._batches import Item, several
from ._file import FilterFile, has_key, marks, told_bytes
from ._seconds import Seconds, seconds
from ._sync.filter import Filter
from .errors import CuckoodError, FilterFileError, ProblemError, in_words

_log = logging.getLogger("cuckood")

# The first bytes of a file, which say how long it is.
_BEGIN = 256
# Seconds after a download that failed within which the next begins; longer after each that
# follows.
_AGAIN = 5.0
# Beyond so many a server that wants to be left alone is asked again.
_LONGEST = 24 * 3600.0
# Without a `download_timeout`: seconds for any download, and bytes for which it has one more.
# With fewer a second the server itself closes the connection.
_FIRST, _BYTES = 60.0, 16 << 10
# The ETag of no filter. Without one the client would ask with all its patience.
_NONE = '"none"'
# What a process that was ended has left of a download is removed when nothing came for so
# long: one that is restarted again and again would fill the disk within a day.
_LEFT = 3600


class _Checked(NamedTuple):
    """A file, and when its source last said that it is current, by both clocks."""

    file: FilterFile
    wall: float
    monotonic: float

    @property
    def age(self) -> float:
        # One clock may be set back, the other one may stand still while the machine sleeps.
        return max(0.0, time.time() - self.wall, time.monotonic() - self.monotonic)


class SyncedFilter:
    """Answers from a file of a filter, which it keeps fresh, also while the server is away.

    `filter`: of a `Client`, whose key may `export`. `path`: where the file is kept; it is
    replaced by renaming, when a new one is whole and verified. The time of the file is when
    the server last said that it is current, so other processes may open it, too.
    `every`: seconds between two questions to the server, each longer or shorter by up to a
    `jitter` of it. While nothing changes the answer is 304.
    `max_age`: beyond it a "no" is none: `exists` answers None.
    `download_timeout`: seconds for a whole download; None: 60, and one more for each 16 KiB
    that came.
    `key`: the 16 bytes of the hash key, which files are fetched without then. A path has files
    of one kind: all that keep it fresh give the key, or none does.

    What is there already is used at once; without it the first download is waited for, and
    raises what goes wrong. Later that is logged, and is `last_error`. Use it as a context
    manager, or call `close()`. Threads may share it.
    """

    def __init__(
        self, filter: Filter, path: str | os.PathLike[str], *, every: Seconds = 60.0, jitter: float = 0.1,
        max_age: Seconds | None = None, download_timeout: Seconds | None = None, key: bytes | None = None,
    ) -> None:
        if not isinstance(filter, Filter):
            raise TypeError(
                f"{type(filter).__name__} is no filter of a Client, which SyncedFilter takes, also in asyncio code: "
                "its questions wait for nothing but the first download and what confirm asks"
            )
        if not 0 <= jitter < 1:
            raise ValueError(f"jitter is {jitter}: 0 and more, and less than 1, is allowed")
        for name, given in (("every", every), ("max_age", max_age), ("download_timeout", download_timeout)):
            if given is not None and not seconds(given) > 0:
                raise ValueError(f"{name} is {given}: a number of seconds above 0 is allowed")
        self._filter = filter
        self._path = Path(path)
        self._every, self._jitter = seconds(every), jitter
        self._max_age = None if max_age is None else seconds(max_age)
        self._timeout = None if download_timeout is None else seconds(download_timeout)
        self._key = key
        self._one = threading.Lock()
        self._closed = threading.Event()
        self.last_error: Exception | None = None
        """Why the last question to the server had no answer; None: it had one."""
        self._etag = ""
        """As its source named what was fetched last."""
        self._remove_left()
        self._check_kind(self._path)
        found = self._found()
        self._checked = found or self._downloaded(None)
        self._thread = threading.Thread(target=self._keep, args=(found is not None,), name="cuckood", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Keeps the file fresh no longer. A download that has begun is given up with its next
        piece, for which it waits no longer than the client's `timeout`."""
        self._closed.set()
        self._thread.join()

    @property
    def file(self) -> FilterFile:
        """The file that answers now. It stays readable when another takes its place."""
        return self._checked.file

    @property
    def age(self) -> float:
        """Seconds since the server last said that the file is current; infinite where that is
        not known, since this machine's clock is behind the time of the file."""
        return self._checked.age

    def exists(self, item: Item, *, within_seconds: Seconds | None = None, confirm: bool = False) -> bool | None:
        """Whether the filter contains the item; None: unknown, since the file is older than
        `max_age`. A "no" is certain for what was added before the file was made. With
        `confirm` a "yes" is asked of the server, which may have forgotten the item since."""
        return self.exists_many([item], within_seconds=within_seconds, confirm=confirm)[0]

    def exists_many(
        self, items: Iterable[Item], *, within_seconds: Seconds | None = None, confirm: bool = False
    ) -> list[bool | None]:
        """The same of many items, in their order."""
        asked = several(items)
        # Another one may take its place meanwhile.
        checked = self._checked
        found = checked.file.exists_many(asked, within_seconds=within_seconds)
        is_old = self._max_age is not None and checked.age > self._max_age
        answers: list[bool | None] = [True if it else None if is_old else False for it in found]
        if confirm and (again := [at for at, it in enumerate(found) if it]):
            within = None if within_seconds is None else int(seconds(within_seconds))
            told = self._filter.exists_many([asked[at] for at in again], within_seconds=within)
            for at, it in zip(again, told, strict=True):
                answers[at] = it
        return answers

    def refresh(self) -> bool:
        """Asks the server now; whether there was a new file. Raises what goes wrong."""
        with self._one:
            self._check_open()
            last = self._checked.file
            try:
                self._check_kind(self._path)
                self._checked = self._downloaded(last)
            except Exception as error:
                self.last_error = error
                raise
            self.last_error = None
            return self._checked.file is not last

    def _keep(self, is_due: bool) -> None:
        failures, pause = 0, 0.0 if is_due else self._apart()
        # For longer no thread waits.
        while not self._closed.wait(min(pause, threading.TIMEOUT_MAX)):
            try:
                self.refresh()
            # Whatever it is, the file has to be renewed later.
            except Exception as error:
                if self._closed.is_set():
                    return
                _log.warning("%s is %.0f s old and can't be renewed: %s", self._path, self.age, in_words(error))
                # Many that were refused at the same time come back at different times.
                pause = random.random() * min(self._every, _AGAIN * 2 ** min(failures, 30))
                if isinstance(error, ProblemError) and error.retry_after is not None:
                    pause += min(error.retry_after, _LONGEST)
                failures += 1
            else:
                failures, pause = 0, self._apart()

    def _apart(self) -> float:
        return self._every * random.uniform(1 - self._jitter, 1 + self._jitter)

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise CuckoodError("the file is kept fresh no longer")

    def _check_kind(self, path: str | os.PathLike[str]) -> None:
        """Refuses a file of the other kind. Somebody else keeps it, and each would put its own
        in place of the other's again and again."""
        is_apart = self._key is not None
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            if has_key(file.read(_BEGIN)) is is_apart:
                left = "not left out of it, but key= is given: take another path, or no key"
                says = left if is_apart else "left out of it: give it as key=, or take another path"
                raise FilterFileError(f"{self._path}: the key of the file's hash was {says}")

    def _found(self) -> _Checked | None:
        """The file that is there already, if it is a right one."""
        try:
            file = FilterFile(self._path, key=self._key)
            file.verify()
            self._etag = file.etag
            wall = file.modified
            age = time.time() - wall
            return _Checked(file, wall, time.monotonic() - (age if age >= 0 else math.inf))
        except FileNotFoundError:
            return None
        except FilterFileError as error:
            _log.warning("%s is fetched anew: %s", self._path, error)
            return None

    def _downloaded(self, last: FilterFile | None) -> _Checked:
        """The file as it is now, under its name, and when that was asked."""
        began, monotonic = time.time(), time.monotonic()
        etag = self._etag if last else None
        with self._filter.dump_unless(etag, without_key=self._key is not None) as dump:
            if dump is not None:
                file = self._kept(dump[1], began)
                self._etag = dump[0] or file.etag
                return _Checked(file, began, monotonic)
        if last is None or etag == _NONE:
            raise FilterFileError("the server sent no file, although none was there")
        checked = _Checked(last, began, monotonic)
        if self._noted(checked):
            return checked
        # Somebody took it away, or put another one there, of which the server said nothing.
        self._checked, self._etag = checked, _NONE
        return self._downloaded(last)

    def _noted(self, checked: _Checked) -> bool:
        """Whether it is this file that has the name. Then its time is when it was asked for."""
        try:
            with open(self._path, "rb") as there:
                # Another process may have put the same one there, which is as current.
                if marks(there) != checked.file.marks:
                    return False
                # By its number it is that file, whatever has the name by now.
                of = there.fileno() if os.utime in os.supports_fd else self._path
                os.utime(of, (checked.wall, checked.wall))
        except FileNotFoundError:
            return False
        return True

    def _kept(self, pieces: Iterable[bytes], began: float) -> FilterFile:
        """Writes a file, and gives it its name when it is found right."""
        number, part = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.", suffix=".part")
        try:
            with open(number, "wb") as out:
                for piece in self._bounded(pieces):
                    out.write(piece)
                out.flush()
                os.fsync(number)
            file = FilterFile(part, key=self._key)
            file.verify()
            # Others may have put theirs there meanwhile.
            for path in (part, self._path):
                self._check_kind(path)
            os.utime(part, (began, began))
            os.replace(part, self._path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
        return file

    def _bounded(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Pieces of a file, which may not be longer than it says that it is, and of a download
        that does not take too long. Each has a time of its own, so one of a byte now and then
        would never end."""
        began, begin, size, told = time.monotonic(), b"", 0, None
        for piece in pieces:
            self._check_open()
            size += len(piece)
            allowed = _FIRST + size / _BYTES if self._timeout is None else self._timeout
            if time.monotonic() - began > allowed:
                raise CuckoodError(f"the download takes longer than {allowed:.1f} s: {size} bytes came")
            if told is None and len(begin := begin + piece) >= _BEGIN:
                told = told_bytes(begin)
            if told is not None and size > told:
                raise FilterFileError(f"the server sent more than the {told} bytes of the file")
            yield piece

    def _remove_left(self) -> None:
        for part in self._path.parent.glob(f".{glob.escape(self._path.name)}.*.part"):
            # What somebody else removes first, or who may not, is in nobody's way.
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > _LEFT:
                    part.unlink()
