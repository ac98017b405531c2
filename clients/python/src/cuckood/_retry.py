"""When a request is sent again, and after how long. Sends nothing itself."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from .errors import NoAnswerError, ProblemError

# Answers after which the same request can succeed. It has its
# Idempotency-Key, so it is also safe where the change may have been made.
_PASSING_STATUS = frozenset({408, 429, 502, 503, 504})
_PASSING_CODES = frozenset({"idempotency_in_flight", "import_running", "outcome_unknown"})
# Of answers that say that nothing was done, what does not.
_UNKNOWN_CODES = frozenset({"outcome_pending"})
# Failures that the next attempt would meet, too.
_LASTING = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.DecodingError, httpx.TooManyRedirects)
# Failures before a request was sent.
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# Answers of one pod; another one may answer otherwise.
_NOT_HERE_STATUS = frozenset({408, 502, 503, 504})
# Answers that say of any request that nothing was done, with other codes.
_NOT_DONE_STATUS = frozenset({429, 503})


def was_sent(error: httpx.RequestError) -> bool:
    """Whether the server may have got the request."""
    return not isinstance(error, (*_NEVER_SENT, httpx.UnsupportedProtocol, httpx.LocalProtocolError))


def is_visible(text: str) -> bool:
    """Whether a header can have it as it is: visible ASCII characters alone."""
    return all("!" <= it <= "~" for it in text)


def text(given: object, named: str) -> str:
    """What has to be a str."""
    if not isinstance(given, str):
        raise TypeError(f"{named} is {given!r}: pass a str")
    return given


@dataclass(frozen=True)
class Request:
    """One request. One that is not `repeatable` is sent again only where the
    first one certainly did nothing."""

    method: str
    path: str
    params: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    repeatable: bool = True

    @property
    def is_change(self) -> bool:
        """Whether it is a change that is made once."""
        return "idempotency-key" in self.headers


@dataclass(frozen=True)
class Backoff:
    """Pauses between attempts, in seconds: a random part of `first` doubled
    with each attempt, up to `longest`; `Retry-After` is added to it. No attempt
    begins later than `patience` after the first one."""

    patience: float
    first: float = 0.1
    longest: float = 5.0
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic


class Attempts:
    """The attempts of one request, which `pods` servers can answer: each of them is
    asked before the first pause."""

    def __init__(self, backoff: Backoff, pods: int = 1) -> None:
        self._backoff = backoff
        self._pods = pods
        self.made = 0
        self._may_be_made = False
        self._ends = backoff.clock() + backoff.patience

    def after_silence(self, request: Request, error: httpx.RequestError) -> float:
        """The pause after an attempt without an answer; raises if it was the last."""
        passes = not isinstance(error, _LASTING) and (request.repeatable or isinstance(error, _NEVER_SENT))
        # An import has no key, and is repeated by the numbers of its lines.
        is_keyless = request.method != "GET" and (not request.repeatable or request.path.endswith("/import"))
        self._may_be_made |= was_sent(error) and (request.is_change or is_keyless)
        return self._pause(passes, NoAnswerError(request.method, request.path, error, may_be_made=self._may_be_made))

    def after_problem(self, request: Request, problem: ProblemError) -> float:
        """The pause after a refusal; raises it if it was the last attempt."""
        is_undone = problem.status in _NOT_DONE_STATUS and problem.code not in _UNKNOWN_CODES
        passes = is_undone or request.repeatable and (
            problem.status in _PASSING_STATUS or problem.code in _PASSING_CODES
        )
        return self._pause(passes, problem)

    def turns_away(self, problem: ProblemError) -> bool:
        """Whether another pod may answer otherwise."""
        return problem.status in _NOT_HERE_STATUS

    def _pause(self, passes: bool, error: NoAnswerError | ProblemError) -> float:
        it = self._backoff
        self.made += 1
        rounds, is_within = divmod(self.made, self._pods)
        pause = 0.0
        is_elsewhere = not isinstance(error, ProblemError) or self.turns_away(error)
        if not is_within or not is_elsewhere:
            pause = it.chance() * min(it.longest, it.first * 2 ** min(max(0, rounds - 1), 30))
            if isinstance(error, ProblemError) and error.retry_after is not None:
                pause += error.retry_after
        if not passes or it.clock() + pause > self._ends:
            raise error
        return pause
