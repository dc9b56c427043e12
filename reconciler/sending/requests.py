"""From an endpoint's settings to a request; pure.

Belongs here: the target, which headers a request has and which of two wins. Does not: secrets (`outlet`), the body
(`payloads`), what no header may be (`egress.exchange.check`).

`content_type` wins over a `Content-Type` in `headers`, and what is ours over a header of the same name: a receiver that
tells duplicates by `X-Service-Delivery-Id` must be able to rely on it. A `Host` in `headers` is sent instead of the
one that the URL gives; where the request goes stays as it is.
"""

from functools import lru_cache
from urllib.parse import quote

from reconciler.egress.exchange import CommonHeaders, Headers, HttpRequest, HttpTarget
from reconciler.model.routes import Endpoint

DELIVERY_ID = "X-Service-Delivery-Id"
ATTEMPT = "X-Service-Attempt"
_OURS = frozenset({"content-type", DELIVERY_ID.lower(), ATTEMPT.lower()})


def request_target(endpoint: Endpoint) -> HttpTarget:
    """Where requests go; exactly one slash stands between the port and the path."""
    path, question, query = endpoint.path.partition("?")
    return HttpTarget(
        "http" if endpoint.scheme == "http" else "https",
        endpoint.host,
        endpoint.port,
        "/" + path.lstrip("/") + question + query,
    )


def request_headers(endpoint: Endpoint, resolved: Headers) -> Headers:
    """What every request to the endpoint has; `resolved` are its headers with the secrets in their values."""
    own = tuple((name, value) for name, value in resolved if name.lower() not in _OURS)
    return (("Content-Type", endpoint.content_type), *own)


def make_request(
    endpoint: Endpoint, *, to: HttpTarget, common: CommonHeaders, body: bytes, delivery: str, attempt: int
) -> HttpRequest:
    """One request. `attempt` counts from 1."""
    method = endpoint.verb
    assert method in ("POST", "PUT", "PATCH")
    named = ((DELIVERY_ID, delivery), (ATTEMPT, str(attempt)))
    return HttpRequest(to, method, named, body, common)  # type: ignore[arg-type]


def endpoint_origin(*, project: str, destination: str, at: int) -> str:
    """What the delivery ids of one queue begin with. `at`, when its first batch of a request came, in Unix ms, keeps a
    queue apart from one that had the same name, and its numbers, before.
    """
    return f"{_quoted(project)}/{_quoted(destination)}/{at:x}"


@lru_cache(maxsize=1024)
def _quoted(name: str) -> str:
    return quote(name, safe="")
