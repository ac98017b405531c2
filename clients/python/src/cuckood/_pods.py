"""Which server is asked, and what a question must take into account. Sends nothing
itself."""

import threading
from collections.abc import Mapping, Sequence

_POSITION = "cuckood-position"
_MIN_POSITION = "cuckood-min-position"


class Pods:
    """The addresses of the pods of a cluster, or of one server. One is asked until
    it fails, then the next one."""

    def __init__(self, urls: Sequence[str]) -> None:
        if not isinstance(urls, Sequence) or not all(isinstance(url, str) for url in urls):
            raise TypeError(f"url is {urls!r}: pass a str, or a list of them")
        if not urls or not all(url.strip() for url in urls):
            raise ValueError("url is empty: give the address of the server, or leave it out to use CUCKOOD_SERVER")
        self._urls = [_address(url) for url in urls]
        self._at = 0

    def __len__(self) -> int:
        return len(self._urls)

    @property
    def current(self) -> str:
        """The one to ask."""
        return self._urls[self._at]

    def failed(self, url: str) -> None:
        """Turns to the next one, unless another request has done so."""
        if url == self.current:
            self._at = (self._at + 1) % len(self._urls)


class Positions:
    """The newest change of each lane of the cluster that this client was told of."""

    def __init__(self) -> None:
        self._epoch = 0
        self._lanes: dict[int, int] = {}
        self._lock = threading.Lock()

    def note(self, headers: Mapping[str, str]) -> None:
        """Notes what an answer says."""
        if said := headers.get(_POSITION):
            epoch, lane, record = map(int, said.split("."))
            with self._lock:
                if epoch > self._epoch:
                    self._epoch, self._lanes = epoch, {}
                if epoch == self._epoch:
                    self._lanes[lane] = max(record, self._lanes.get(lane, 0))

    def forget(self) -> bool:
        """Forgets all, where the cluster does not know them; whether there were any."""
        with self._lock:
            known, self._lanes = self._lanes, {}
        return bool(known)

    def headers(self) -> dict[str, str]:
        """What a question has to say, so that its answer takes these into account."""
        with self._lock:
            said = [f"{self._epoch}.{lane}.{record}" for lane, record in self._lanes.items()]
        return {_MIN_POSITION: ",".join(said)} if said else {}


def _address(url: str) -> str:
    url = url.strip().rstrip("/")
    return url if "://" in url else f"http://{url}"
