"""Client of cuckood: named cuckoo filters over HTTP.

    with cuckood.Client() as client:
        users = client.filter("users")
        users.create(capacity=10_000, error_rate=0.01)
        users.add("ada")
        assert users.exists("ada")

`AsyncClient` has the same calls with `await`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import _models, errors
from ._batches import BatchLimits, Entry, Item, Line, Replacement, Row
from ._file import FileDescription, FilterFile
from ._models import *  # noqa: F403
from .errors import *  # noqa: F403

if TYPE_CHECKING:
    from ._async.client import AsyncClient
    from ._async.filter import AsyncFilter
    from ._sync.client import Client
    from ._sync.filter import Filter
    from ._synced import SyncedFilter
else:
    # What asks servers needs httpx, and is loaded when it is first used: files are read without.
    _LATER = {
        "AsyncClient": "._async.client", "AsyncFilter": "._async.filter", "Client": "._sync.client",
        "Filter": "._sync.filter", "SyncedFilter": "._synced",
    }

    def __getattr__(name):
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(_LATER[name], __name__), name)
        return found

    def __dir__():
        return sorted({*globals(), *_LATER})

__all__ = [
    "AsyncClient", "AsyncFilter", "BatchLimits", "Client", "Entry", "FileDescription", "Filter", "FilterFile", "Item",
    "Line", "Replacement", "Row", "SyncedFilter",
]
__all__ += _models.__all__
__all__ += errors.__all__
