"""Whether a delivery of a forge is signed with a repository's secret: over the bytes as they came, in constant time.

Belongs here: the forms in which forges sign, and the comparison. Does not: the secret's file (`secret`), deliveries
that came before (`deliveries`), what an answer says.

| who | headers | over |
|---|---|---|
| GitHub, Gitea, Forgejo | `X-Hub-Signature-256: sha256=<hex>` | the body |
| Gitea, Forgejo | `X-Gitea-Signature`, `X-Forgejo-Signature`: `<hex>` | the body |
| GitLab, signing token | `webhook-signature: v1,<base64> ...` | `<webhook-id>.<webhook-timestamp>.<body>` |
| GitLab, secret token | `X-Gitlab-Token`: the secret itself | nothing |

All are HMAC-SHA256. The third is the form of Standard Webhooks 1.0.0, whose key is the base64 behind `whsec_`. SHA-1
(`X-Hub-Signature`) counts for nothing. One right signature suffices: nobody makes one without the secret.

A body is only digested while it arrives: nothing of it is kept, and nothing of it is read.
"""

import base64
import binascii
import contextlib
import hashlib
import hmac
from collections.abc import Iterable
from enum import Enum, auto

STANDARD_PREFIX = b"whsec_"
SECONDS = 300  # that a signed time may be away from ours, either way: what the libraries of Standard Webhooks allow
MOST_SIGNATURES = 8  # in one header, for a sender that changes its key

SIGNATURES = (
    b"x-hub-signature-256",
    b"x-gitea-signature",
    b"x-forgejo-signature",
    b"webhook-signature",
    b"x-gitlab-token",
)
DELIVERIES = (b"webhook-id", b"x-github-delivery", b"x-gitea-delivery", b"x-forgejo-delivery", b"idempotency-key")
_EVENTS = (b"x-github-event", b"x-gitea-event", b"x-forgejo-event")

Headers = dict[bytes, bytes]


class SignatureVerdict(Enum):
    """What became of a delivery's signatures."""

    RIGHT = auto()
    WRONG = auto()
    LATE = auto()  # right, but of another time than now
    NONE = auto()  # there is none in a form that is known


def single_header(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers by their small names; one that is given twice means nothing, and is left out."""
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value.strip())
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def delivery_id(headers: Headers) -> bytes:
    """What the forge calls this delivery, also when it sends it again; empty when it does not say.

    GitLab's `X-Gitlab-Event-UUID` is none: several pushes of one request have it in common.
    """
    return next((headers[name] for name in DELIVERIES if headers.get(name)), b"")


def is_ping(headers: Headers) -> bool:
    """Whether the forge only tries the hook."""
    return any(headers.get(name) == b"ping" for name in _EVENTS)


class SignatureCheck:
    """One delivery while its body arrives. All that is computed depends on the delivery alone, never on the secret."""

    def __init__(self, headers: Headers, *, secret: bytes) -> None:
        """`secret` is never empty: anybody could sign with nothing."""
        self._headers = headers
        self._secret = secret
        self._plain = hmac.new(secret, digestmod="sha256")
        signed = b"%b.%b." % (headers.get(b"webhook-id", b""), headers.get(b"webhook-timestamp", b""))
        self._standard = hmac.new(_standard_key(secret), signed, "sha256")

    def update(self, piece: bytes) -> None:
        """The next bytes of the body."""
        self._plain.update(piece)
        self._standard.update(piece)

    def mark(self) -> bytes:
        """The same for the same body, once all of it was given."""
        return self._plain.digest()

    def verdict(self, *, now: float) -> SignatureVerdict:
        """What the signatures are, once all of the body was given; `now` is in seconds since 1970."""
        # Every comparison is made, whatever the ones before it said.
        is_plain, is_standard = any(self._plain_ones()), any(self._standard_ones())
        if is_plain or (is_standard and self._is_recent(now)):
            return SignatureVerdict.RIGHT
        if is_standard:
            return SignatureVerdict.LATE
        return SignatureVerdict.WRONG if any(self._headers.get(name) for name in SIGNATURES) else SignatureVerdict.NONE

    def _plain_ones(self) -> list[bool]:
        digest = self._plain.hexdigest().encode()
        token = hashlib.sha256(self._headers.get(b"x-gitlab-token", b"")).digest()  # so that no length shows
        return [
            hmac.compare_digest(self._headers.get(b"x-hub-signature-256", b""), b"sha256=" + digest),
            hmac.compare_digest(self._headers.get(b"x-gitea-signature", b""), digest),
            hmac.compare_digest(self._headers.get(b"x-forgejo-signature", b""), digest),
            hmac.compare_digest(token, hashlib.sha256(self._secret).digest()),
        ]

    def _standard_ones(self) -> list[bool]:
        expected = b"v1," + base64.b64encode(self._standard.digest())
        given = self._headers.get(b"webhook-signature", b"").split(b" ", MOST_SIGNATURES)[:MOST_SIGNATURES]
        return [hmac.compare_digest(one, expected) for one in given]

    def _is_recent(self, now: float) -> bool:
        text = self._headers.get(b"webhook-timestamp", b"")
        return text.isdigit() and len(text) <= 12 and abs(now - int(text)) <= SECONDS


def _standard_key(secret: bytes) -> bytes:
    """The key of Standard Webhooks that a secret stands for.

    Of any other secret a key that nobody signs with: were it the secret itself, what was signed in this form, with its
    time, could be sent once more as a body that is signed in another form, without one.
    """
    if secret.startswith(STANDARD_PREFIX):
        with contextlib.suppress(binascii.Error):
            return base64.b64decode(secret.removeprefix(STANDARD_PREFIX), validate=True)
    return hashlib.sha256(STANDARD_PREFIX + secret).digest()
