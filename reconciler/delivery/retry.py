"""Retry decisions: the meaning of an answer, and if and when a failed batch is tried again. Pure.

Times are seconds. A batch's requests and the waits between them count against `max_elapsed`. Time from `Retry-After`,
of an open breaker and of a closed window does not count: a batch is never given up because of it.

A failure belongs to an **outage** if it does not concern the records (no answer, no credentials, a redirect, too many
requests, the server's own fault). Otherwise it belongs to the **batch**, and another batch may succeed. No sentence
contains text from the endpoint or from the request.
"""

import math
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from reconciler.delivery.http_client import Denied, FailureCause, HttpAnswer, Unanswered
from reconciler.model import errors, webhooks
from reconciler.model.routes import Endpoint, Retry

MULTIPLIER = 1.5
SPREAD = 0.5  # an interval is multiplied by anything from 1 - SPREAD to 1 + SPREAD
LONGEST_RETRY_AFTER = 3600.0
_MOST_DOUBLINGS = 100  # 1.5 ** 100 is longer than any interval, and no overflow


class RetryDecision(NamedTuple):
    """Try again after `delay` seconds. By then `spent` seconds of `max_elapsed` will have been used."""

    delay: float
    spent: float


def retry_interval(retry: Retry, *, attempts: int, chance: random.Random) -> float:
    """Return the wait after a number of attempts, at least one: it grows, is randomised, and then limited."""
    grown = retry.initial_interval * MULTIPLIER ** min(attempts - 1, _MOST_DOUBLINGS)
    return min(grown * chance.uniform(1 - SPREAD, 1 + SPREAD), retry.max_interval)


def decide_retry(
    retry: Retry, *, attempts: int, spent: float, retry_after: float, chance: random.Random
) -> RetryDecision | None:
    """Decide about a batch after its `attempts`-th failure, when `spent` seconds of `max_elapsed` were used. None: it
    is given up. The last attempt may be exactly at the end of `max_elapsed`.
    """
    if not retry.enabled:
        return None
    own = retry_interval(retry, attempts=attempts, chance=chance)
    asked = clamped_retry(retry_after)
    after = spent + max(own - asked, 0.0)
    if retry.max_elapsed and after > retry.max_elapsed:
        return None
    return RetryDecision(max(own, asked), after)


def clamped_retry(retry_after: float) -> float:
    """Limit a `Retry-After` to the longest time that is honoured."""
    return min(max(retry_after, 0.0), LONGEST_RETRY_AFTER)


ANSWER_BYTES = 1024  # that are kept of an answer

_OF_AN_OUTAGE = frozenset({401, 403, 404, 405, 407, 408, 421, 425, 429})  # of the 4xx
_SMALLER_MAY_PASS = frozenset({400, 413, 422})
TOO_LARGE = 413


class AnswerVerdict(NamedTuple):
    """The meaning of an answer. `status` is None if there was none. `retry_after` is in seconds, 0 without one.
    `splits`: a part of the batch may be accepted.
    """

    delivered: bool
    outage: bool = False
    status: int | None = None
    cause: str = ""
    retry_after: float = 0.0
    answer: bytes = b""
    splits: bool = False


def judge_answer(answer: HttpAnswer, *, endpoint: Endpoint, name: str, now_ms: int) -> AnswerVerdict:
    """Judge an answer."""
    status = answer.status
    if 200 <= status < 300:
        return AnswerVerdict(True, status=status, answer=answer.body_start[:ANSWER_BYTES])
    return AnswerVerdict(
        False,
        outage=not 400 <= status < 500 or status in _OF_AN_OUTAGE,
        status=status,
        cause=f"{_who(name, endpoint)} answered {status}{_meaning(status, endpoint)}",
        retry_after=retry_after(answer, now_ms=now_ms),
        answer=answer.body_start[:ANSWER_BYTES],
        splits=status in _SMALLER_MAY_PASS,
    )


def judge_failure(problem: errors.ReconcilerError, *, endpoint: Endpoint, name: str, note: str = "") -> AnswerVerdict:
    """Judge a request without an answer. `note` describes a known problem of the client certificate."""
    if isinstance(problem, Unanswered):
        # The message begins with the host and port, which `_who` already names.
        words = str(problem).partition(" ")[2]
        return AnswerVerdict(
            False, outage=True, cause=f"{_who(name, endpoint)} {words}: {_advice(problem, endpoint, note)}"
        )
    said = problem.message.removesuffix(".")
    kind = "nothing was sent" if isinstance(problem, Denied) else "the request cannot be made"
    return AnswerVerdict(False, outage=True, cause=f"The destination {name}: {kind}: {said}.")


def retry_after(answer: HttpAnswer, *, now_ms: int) -> float:
    """Return the seconds of a `Retry-After`, at most an hour; 0 if it is unreadable (RFC 9110, 10.2.3)."""
    for header, value in answer.headers:
        if header.lower() == "retry-after":
            return _seconds(value.strip(), now_ms)
    return 0.0


def _seconds(text: str, now_ms: int) -> float:
    if text.isascii() and text.isdigit():
        return clamped_retry(float(text[:12]))
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    at = (date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.fromtimestamp(0, UTC)
    seconds = at.total_seconds() - now_ms / 1000
    return clamped_retry(seconds) if math.isfinite(seconds) else 0.0


def _who(name: str, endpoint: Endpoint) -> str:
    return f"The destination {name} ({endpoint.scheme}://{webhooks.bracketed(endpoint.host)}:{endpoint.port})"


def _advice(problem: Unanswered, endpoint: Endpoint, note: str) -> str:
    if note and problem.cause in _MAY_BE_OUR_CERTIFICATE:
        return note
    advice = _ADVICE[problem.cause].format(timeout=f"{endpoint.timeout:g}")
    if endpoint.scheme != "https" or problem.cause not in _MAY_BE_OUR_CERTIFICATE:
        return advice
    if endpoint.mutual_tls:
        ours = "a client certificate that it does not trust; renew `cert_file` and `key_file`."
    else:
        ours = "a missing client certificate; set `mutual_tls`, `cert_file` and `key_file`."
    return ours if problem.cause is FailureCause.CLIENT else f"{advice.removesuffix('.')}; or {ours}"


_MAY_BE_OUR_CERTIFICATE = frozenset({FailureCause.CLIENT, FailureCause.TLS, FailureCause.ANSWER})

_ADVICE: dict[FailureCause, str] = {
    FailureCause.NAME: "a wrong hostname; check `hostname`.",
    FailureCause.CONNECT: "a wrong hostname or port, or its server is down; check `hostname` and `port`.",
    FailureCause.TLS: "a wrong port or scheme; check `port` and `scheme`.",
    FailureCause.UNTRUSTED: "an untrusted certificate, or one for another name; check `hostname`, or set `ca_file`.",
    FailureCause.CLIENT: "a missing client certificate.",
    FailureCause.TIME: "a wrong hostname or port, or its server is slow: `timeout` is {timeout} s; check them.",
    FailureCause.PROXY: "check the proxy in `outbound.proxy`.",
    FailureCause.ANSWER: "a wrong port or scheme, or its server fails; check `port` and `scheme`.",
}


def _meaning(status: int, endpoint: Endpoint) -> str:
    if 300 <= status < 400:
        return ", a redirect, which is not followed: a wrong hostname, port or path; name where it leads to."
    known = _MEANINGS.get(status)
    if known is not None:
        return known.format(verb=endpoint.verb, content_type=endpoint.content_type)
    if 400 <= status < 500:
        return (
            ": it does not take these records; compare `format`, `content_type` and the records with what it expects."
        )
    return ": its server fails; look at its own logs."


_MEANINGS: dict[int, str] = {
    401: ": a missing, wrong or expired `Authorization` header; renew what `headers` holds.",
    403: ": a missing, wrong or expired `Authorization` header, or no right to post there; renew what `headers` holds.",
    404: ": a wrong hostname, port or path; check `path`.",
    405: ": a wrong path, or it does not take {verb}; check `path` and `verb`.",
    407: ": the proxy in `outbound.proxy` wants a password.",
    408: ": it did not get the request in time; it is overloaded, or the network is slow.",
    413: ": the request is too large for it; it is sent in smaller parts.",
    415: ": it does not take `{content_type}`; check `content_type`.",
    421: ": it does not serve this hostname; check `hostname`.",
    425: ": it does not take the request yet.",
    429: ": it gets too many requests; send less, or raise its limit.",
    503: ": it is overloaded or down for maintenance.",
}
