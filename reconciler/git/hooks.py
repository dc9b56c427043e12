"""Deliveries of forges: signatures, replays and refusals."""

import base64
import binascii
import contextlib
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from reconciler.git.remotes import credentials
from reconciler.git.remotes.credentials import UnusableFile

# The check of signatures: a forge signs the bytes of its delivery with a repository's secret. It takes constant time.
#
# | forge | headers | signed bytes |
# |---|---|---|
# | GitHub, Gitea, Forgejo | `X-Hub-Signature-256: sha256=<hex>` | the body |
# | Gitea, Forgejo | `X-Gitea-Signature`, `X-Forgejo-Signature`: `<hex>` | the body |
# | GitLab, signing token | `webhook-signature: v1,<base64> ...` | `<webhook-id>.<webhook-timestamp>.<body>` |
# | GitLab, secret token | `X-Gitlab-Token`: the secret itself | nothing |
#
# All are HMAC-SHA256. The third is the form of Standard Webhooks 1.0.0, whose key is the base64 text after `whsec_`.
# SHA-1 (`X-Hub-Signature`) is ignored. One right signature is enough, because it needs the secret.
#
# The body is digested while it arrives. It is neither kept nor parsed.

STANDARD_PREFIX = b"whsec_"
SECONDS = 300  # between a signed time and ours, in both directions: as in the libraries of Standard Webhooks
MOST_SIGNATURES = 8  # in one header: a sender that changes its key sends several

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
    """The verdict on a delivery's signatures."""

    RIGHT = auto()
    WRONG = auto()
    LATE = auto()  # right, but its time is not now
    NONE = auto()  # there is no signature in a known form


def single_header(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers by names in lower case, without headers that occur twice."""
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value.strip())
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def delivery_id(headers: Headers) -> bytes:
    """Return the forge's id of this delivery, which is the same if it sends it again; empty if there is none.

    GitLab's `X-Gitlab-Event-UUID` does not count: several pushes of one request share it.
    """
    return next((headers[name] for name in DELIVERIES if headers.get(name)), b"")


def is_ping(headers: Headers) -> bool:
    """Return True if the forge only tests the hook."""
    return any(headers.get(name) == b"ping" for name in _EVENTS)


class SignatureCheck:
    """Checks one delivery while its body arrives. The time depends only on the delivery, never on the secret."""

    def __init__(self, headers: Headers, *, secret: bytes) -> None:
        """Begin the check. `secret` must not be empty, because anybody can sign with an empty one."""
        self._headers = headers
        self._secret = secret
        self._plain = hmac.new(secret, digestmod="sha256")
        signed = b"%b.%b." % (headers.get(b"webhook-id", b""), headers.get(b"webhook-timestamp", b""))
        self._standard = hmac.new(_standard_key(secret), signed, "sha256")

    def update(self, piece: bytes) -> None:
        """Add the next bytes of the body."""
        self._plain.update(piece)
        self._standard.update(piece)

    def mark(self) -> bytes:
        """Return a digest of the complete body."""
        return self._plain.digest()

    def verdict(self, *, now: float) -> SignatureVerdict:
        """Return the verdict on the signatures of the complete body; `now` is in seconds since 1970."""
        # Make every comparison, so that the time does not reveal the results.
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
    """Return the key of Standard Webhooks in a secret.

    For a secret of another form, return an unusable key. With the secret itself as the key, a message signed in this
    form could be sent again as the body of another form, which has no time.
    """
    if secret.startswith(STANDARD_PREFIX):
        with contextlib.suppress(binascii.Error):
            return base64.b64decode(secret.removeprefix(STANDARD_PREFIX), validate=True)
    return hashlib.sha256(STANDARD_PREFIX + secret).digest()


# The file with the secret of a hook. It is read for each delivery, so a new secret is in use at once.

MOST_BYTES = 64 * 1024
FEWEST_CHARACTERS = 16  # whoever sees one delivery can try out shorter ones at home


def read_secret(path: Path) -> bytes:
    """Return the content of the file without the newline at its end. Raises UnusableFile."""
    data = credentials.file_content(path, limit=MOST_BYTES)
    secret = data.removesuffix(b"\n").removesuffix(b"\r") if data.endswith(b"\n") else data
    if len(secret.removeprefix(STANDARD_PREFIX)) < FEWEST_CHARACTERS:
        raise UnusableFile(f"holds fewer than {FEWEST_CHARACTERS} characters")
    if b"\n" in secret:
        raise UnusableFile("holds more than one line")
    return secret


# Recent deliveries, to recognise repetitions. The time is an argument.
#
# Each has two marks: the id from its forge, and the digest of its body. The id shows that a forge sends it again. Most
# forges do not sign the id, so an attacker could send a delivery again with another one. Therefore a known body counts
# as a repetition too.
#
# They are only in memory, for an hour. A repetition after that, or after a restart, costs one harmless poll.

DELIVERY_SECONDS = 3_600.0  # a forge repeats a delivery within minutes
MOST = 10_000  # then the oldest are forgotten
DIGEST_BYTES = 16  # of a mark


class RecentDeliveries:
    """The deliveries of the last hour, by repository."""

    def __init__(self) -> None:
        self._until: OrderedDict[bytes, float] = OrderedDict()  # in the order of arrival

    def is_new(self, repository: str, *marks: bytes, now: float) -> bool:
        """Return True if no delivery with one of these marks came before, and remember them. Empty marks do not count.

        `now` is a monotonic clock in seconds. Two repositories may get the same id for one push.
        """
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        keys = [_key(repository, mark) for mark in marks if mark]
        is_new = not any(key in self._until for key in keys)
        for key in keys:
            self._until.setdefault(key, now + DELIVERY_SECONDS)
        while len(self._until) > MOST:
            self._until.popitem(last=False)
        return is_new

    def __len__(self) -> int:
        return len(self._until)


def _key(repository: str, mark: bytes) -> bytes:
    return hashlib.blake2b(repository.encode() + b"\0" + mark, digest_size=DIGEST_BYTES).digest()


# A limit on log lines about refused deliveries, since anybody may send them. The time is an argument.

REFUSAL_SECONDS = 60.0  # between two lines about one repository
REFUSAL_MOST = 1_000  # repositories; with more, one that was forgotten may get a line too early


@dataclass(slots=True)
class _Told:
    at: float
    since: int = 0  # refused deliveries since the last line


class LoggedRefusals:
    """The last log line about each repository. All unknown repositories share one name."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, _Told] = OrderedDict()

    def due(self, repository: str, *, now: float) -> int | None:
        """Count a refused delivery. Return None if it should not be logged, otherwise the number of deliveries that
        were not logged since the last line. `now` is a monotonic clock in seconds.
        """
        told = self._told.get(repository)
        if told is not None and now - told.at < REFUSAL_SECONDS:
            told.since += 1
            return None
        self._told[repository] = _Told(now)
        self._told.move_to_end(repository)
        if len(self._told) > REFUSAL_MOST:
            self._told.popitem(last=False)
        return 0 if told is None else told.since

    def __len__(self) -> int:
        return len(self._told)


@dataclass(frozen=True, slots=True)
class HookMemory:
    """The memory of the whole service between deliveries. It is bounded, and lost at a restart."""

    deliveries: RecentDeliveries = field(default_factory=RecentDeliveries)
    refusals: LoggedRefusals = field(default_factory=LoggedRefusals)
