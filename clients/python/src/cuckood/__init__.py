"""Client of cuckood: named cuckoo filters over HTTP.

    with cuckood.Client() as client:
        users = client.filter("users")
        users.create(capacity=10_000, error_rate=0.01)
        users.add("ada")
        assert users.exists("ada")

`AsyncClient` has the same calls with `await`.
"""

from . import _models, errors
from ._async.client import AsyncClient
from ._async.filter import AsyncFilter
from ._batches import BatchLimits, Entry, Item, Line, Replacement, Row
from ._file import FileDescription, FilterFile
from ._models import *  # noqa: F403
from ._sync.client import Client
from ._sync.filter import Filter
from ._synced import SyncedFilter
from .errors import *  # noqa: F403

__all__ = [
    "AsyncClient", "AsyncFilter", "BatchLimits", "Client", "Entry", "FileDescription", "Filter", "FilterFile", "Item",
    "Line", "Replacement", "Row", "SyncedFilter",
]
__all__ += _models.__all__
__all__ += errors.__all__
