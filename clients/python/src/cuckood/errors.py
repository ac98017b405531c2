"""What calls raise. `code` is the server's stable word for the cause."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._models import ImportBody, ProblemField

if TYPE_CHECKING:
    # Who reads files alone has no httpx.
    import httpx

__all__ = [
    "CuckoodError", "FilterFileError", "ImportIncomplete", "NoAnswerError", "NotUnderstoodError", "ProblemError", "FilterNotFound", "ImportNotFound", "FilterExists",
    "FilterDiffers", "FilterChanged", "OutcomeUnknown", "InvalidRequest", "Unauthorized", "Forbidden", "TooLarge",
    "TooManyRequests", "Unavailable", "OutOfSpace",
]


class CuckoodError(Exception):
    """All errors of this package but `TypeError` and `ValueError`, which say what is wrong with
    arguments.

    `completed`: results of the items before the failed part, if a batch was sent
    in several parts; those are done and stay done.
    """

    completed: Sequence[Any] = ()


class NoAnswerError(CuckoodError):
    """No answer arrived within the client's patience. A change may be made or not."""

    def __init__(self, method: str, path: str, cause: Exception, *, may_be_made: bool = False) -> None:
        super().__init__(f"{method} {path}: no answer: {in_words(cause)}" + ": the change may be made" * may_be_made)
        self.__cause__ = cause


class ImportIncomplete(CuckoodError):
    """An import reached its end, but lines were bad, or found no room in the filter.

    All others are imported. `report` says which.
    """

    def __init__(self, report: ImportBody) -> None:
        bad = ", ".join(f"line {it.line}: {it.reason}" for it in report.first_bad_lines[:5])
        why = [f"{report.bad_lines} bad ({bad})"] if report.bad_lines else []
        why += [f"{report.full} without room ({report.full_reason})"] if report.full else []
        super().__init__(f"of {report.committed_lines} lines {' and '.join(why)}; allow_partial takes that")
        self.report = report


class FilterFileError(CuckoodError):
    """Bytes are no file of a filter, not all of one, damaged or of a newer version; or the
    question is none for them."""


class NotUnderstoodError(CuckoodError):
    """What answers is no cuckood server."""


class ProblemError(CuckoodError):
    """The server refuses the request (RFC 9457)."""

    def __init__(
        self, status: int, code: str, detail: str, *,
        request_id: str | None = None, retry_after: float | None = None, errors: Sequence[ProblemField] = (),
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        """HTTP status."""
        self.code = code
        """Stable name of the cause, such as `filter_not_found`; docs/limits.md lists them."""
        self.detail = detail
        """What was wrong, what is allowed, what to do."""
        self.request_id = request_id
        """Identifies the request in the server's log."""
        self.retry_after = retry_after
        """Seconds after which to try again, if the server says so."""
        self.errors = errors
        """The refused or differing fields."""


class FilterNotFound(ProblemError):
    """The filter does not exist."""


class ImportNotFound(ProblemError):
    """The import does not exist."""


class FilterExists(ProblemError):
    """The filter exists, and the request demands a new one."""


class FilterDiffers(ProblemError):
    """The filter exists with other parameters; `errors` lists them."""


class FilterChanged(ProblemError):
    """The filter has changed since its dump."""


class OutcomeUnknown(ProblemError):
    """The change may be made or not."""


class InvalidRequest(ProblemError):
    """400, 414, 415, 422: a field or the path is invalid; `errors` lists the fields."""


class Unauthorized(ProblemError):
    """401: the API key is missing, unknown, expired or removed."""


class Forbidden(ProblemError):
    """403: the API key does not allow this, or the server does not answer here."""


class TooLarge(ProblemError):
    """413: the request is too large, also after it was split."""


class TooManyRequests(ProblemError):
    """429: the API key exceeds its rate or its share, beyond the client's patience."""


class Unavailable(ProblemError):
    """503: the server starts, stops or is overloaded, beyond the client's patience."""


class OutOfSpace(ProblemError):
    """507: a quota is used up, or the disk is full."""


# Failures of httpx that often come without a message.
_WORDS = {
    "ConnectTimeout": "no connection was accepted in time",
    "PoolTimeout": "no connection of the pool was free in time",
    "ReadTimeout": "the answer did not arrive in time",
    "WriteTimeout": "the request could not be sent in time",
    "ConnectError": "no connection could be made",
    "ReadError": "the connection broke before the answer",
    "WriteError": "the connection broke while the request was sent",
    "DecodingError": "the answer is not encoded as it says",
    "TooManyRedirects": "the answers lead from one address to the next",
    "CloseError": "the connection broke while it was closed",
}


def in_words(cause: BaseException) -> str:
    """What failed; never nothing."""
    kinds = [kind for kind in type(cause).__mro__ if kind.__module__.partition(".")[0] == "httpx"]
    words = next((_WORDS[kind.__name__] for kind in kinds if kind.__name__ in _WORDS), type(cause).__name__)
    said = str(cause).strip()
    return f"{words} ({said})" if said and said != words else words


_BY_CODE: dict[str, type[ProblemError]] = {
    "filter_not_found": FilterNotFound,
    "import_not_found": ImportNotFound,
    "filter_exists": FilterExists,
    "filter_taken": FilterExists,
    "filter_differs": FilterDiffers,
    "filter_changed": FilterChanged,
    "outcome_unknown": OutcomeUnknown,
    "outcome_pending": OutcomeUnknown,
}
_BY_STATUS: dict[int, type[ProblemError]] = {
    400: InvalidRequest, 414: InvalidRequest, 415: InvalidRequest, 422: InvalidRequest,
    401: Unauthorized, 403: Forbidden, 413: TooLarge, 429: TooManyRequests, 503: Unavailable, 507: OutOfSpace,
}


def problem_of(response: httpx.Response) -> ProblemError:
    """The error of an answer that is not 2xx, whoever sent it."""
    try:
        body = json.loads(response.content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {}
    code = str(body.get("code", "unknown"))
    unasked = "nothing has changed, it says, but the request did not ask whether"
    otherwise = unasked if response.status_code == 304 else "the answer does not say why"
    kind = _BY_CODE.get(code) or _BY_STATUS.get(response.status_code, ProblemError)
    return kind(
        response.status_code, code, str(body.get("detail", otherwise)),
        request_id=response.headers.get("x-request-id"),
        retry_after=_seconds(response.headers.get("retry-after")),
        errors=tuple(ProblemField.from_json(field) for field in body.get("errors", ())),
    )


def json_of(response: httpx.Response) -> Any:
    """The body of a good answer."""
    try:
        return json.loads(response.content)
    except ValueError:
        raise NotUnderstoodError(f"{response.url.host} does not answer like a cuckood server") from None


def _seconds(header: str | None) -> float | None:
    # A proxy may send a date; the backoff alone is a fair answer to that.
    return float(header) if header is not None and header.isascii() and header.isdigit() else None
