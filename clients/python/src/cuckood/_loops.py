"""Which event loop a client is used in. Connections, and who waits for them, are of one."""

import asyncio

from .errors import CuckoodError


class AsyncLoop:
    """Notices another event loop, as each `asyncio.run` has one of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_another(self, *, can_follow: bool) -> bool:
        """Whether this is another one than before, which is closed. An error if both are in
        use, or if the caller can't follow from one to the other."""
        before, self._loop = self._loop, asyncio.get_running_loop()
        if before is None or before is self._loop:
            return False
        if before.is_closed() and can_follow:
            return True
        self._loop = before
        raise CuckoodError(
            "this AsyncClient is used in another event loop, and " + (
                "the client of httpx that it was given belongs to the closed one" if before.is_closed()
                else "the first one is not closed"
            ) + ": make a client in each"
        )


class Loop:
    """Threads have none."""

    def is_another(self, *, can_follow: bool) -> bool:
        """No."""
        return False
