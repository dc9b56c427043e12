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

# Whether a delivery of a forge is signed with a repository's secret: over the bytes as they came, in constant time.
#
# | who | headers | over |
# |---|---|---|
# | GitHub, Gitea, Forgejo | `X-Hub-Signature-256: sha256=<hex>` | the body |
# | Gitea, Forgejo | `X-Gitea-Signature`, `X-Forgejo-Signature`: `<hex>` | the body |
# | GitLab, signing token | `webhook-signature: v1,<base64> ...` | `<webhook-id>.<webhook-timestamp>.<body>` |
# | GitLab, secret token | `X-Gitlab-Token`: the secret itself | nothing |
#
# All are HMAC-SHA256. The third is the form of Standard Webhooks 1.0.0, whose key is the base64 behind `whsec_`. SHA-1
# (`X-Hub-Signature`) counts for nothing. One right signature suffices: nobody makes one without the secret.
#
# A body is only digested while it arrives: nothing of it is kept, and nothing of it is read.

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
    """The verdict on a delivery's signatures."""

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
    """Return what the forge calls this delivery, also when it sends it again; empty when it does not say.

    GitLab's `X-Gitlab-Event-UUID` is none: several pushes of one request have it in common.
    """
    return next((headers[name] for name in DELIVERIES if headers.get(name)), b"")


def is_ping(headers: Headers) -> bool:
    """Return whether the forge only tries the hook."""
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
        """Return what the signatures are, once all of the body was given; `now` is in seconds since 1970."""
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


# The file with the secret that a forge signs its deliveries with: read for each delivery, so that a new one counts at
# once.

MOST_BYTES = 64 * 1024
FEWEST_CHARACTERS = 16  # whoever sees one delivery can try out shorter ones at home


def read_secret(path: Path) -> bytes:
    """Return what the file holds, without one line end behind it. Raises UnusableFile."""
    data = credentials.file_content(path, limit=MOST_BYTES)
    secret = data.removesuffix(b"\n").removesuffix(b"\r") if data.endswith(b"\n") else data
    if len(secret.removeprefix(STANDARD_PREFIX)) < FEWEST_CHARACTERS:
        raise UnusableFile(f"holds fewer than {FEWEST_CHARACTERS} characters")
    if b"\n" in secret:
        raise UnusableFile("holds more than one line")
    return secret


# Which deliveries have come before. The time is an argument.
#
# Each has two marks: the id that its forge gave it, and the digest of its body. The id says that a forge tries again.
# But most forges do not sign it, so that whoever saw a delivery could send it with one id after another: a body that
# came before is the same delivery, whatever it is called.
#
# They are in memory alone, and of the last hour: after a restart, or an hour, a delivery that is sent again costs one
# look at the repository, which changes nothing that a poll would not.

DELIVERY_SECONDS = 3_600.0  # a forge that tries again by itself does so within minutes
MOST = 10_000  # the oldest go first
DIGEST_BYTES = 16  # whatever the length of what is remembered


class RecentDeliveries:
    """The deliveries of the last hour, by repository."""

    def __init__(self) -> None:
        self._until: OrderedDict[bytes, float] = OrderedDict()  # in the order in which they came, so in that of time

    def is_new(self, repository: str, *marks: bytes, now: float) -> bool:
        """Return whether nothing with one of these marks has come before, and remember them. An empty one is none.

        `now` is any clock in seconds that does not go back. Two repositories may get the same id for one push.
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


# How often the log tells of deliveries that were refused: anybody may send as many as they like. The time is an
# argument. What the log says is elsewhere.

REFUSAL_SECONDS = 60.0  # between two lines about one repository
REFUSAL_MOST = 1_000  # repositories kept; of more, the longest quiet may get a line too many


@dataclass(slots=True)
class _Told:
    at: float
    since: int = 0  # refused, and not told


class LoggedRefusals:
    """When each repository was last told of. All that are unknown share one name, whatever they are called."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, _Told] = OrderedDict()

    def due(self, repository: str, *, now: float) -> int | None:
        """Count one more. None: the log is to keep quiet; else how many it kept quiet about since its last line.

        `now` is any clock in seconds that does not go back.
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


# What is remembered between deliveries, all of it bounded and in memory alone.


@dataclass(frozen=True, slots=True)
class HookMemory:
    """One for the whole service."""

    deliveries: RecentDeliveries = field(default_factory=RecentDeliveries)
    refusals: LoggedRefusals = field(default_factory=LoggedRefusals)
