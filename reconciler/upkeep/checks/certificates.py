"""Whether certificates can be used, and how long: the listener's, and those of the authorities that are trusted.

What is told of the listener's is what a client would see in a handshake, which is made in memory.
"""

import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from reconciler.model.errors import Refused
from reconciler.upkeep.findings import DoctorFinding, error, ok, warning

NAME = "certificates"
SOON = timedelta(days=14)
ROUNDS = 10  # a handshake takes three
EXPIRED, NOT_YET = 10, 9  # OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID


class ShownCertificate(NamedTuple):
    """The listener's: `fault` when the files cannot be used, what a handshake has against it, and its end."""

    chain: Path
    fault: str = ""
    refused: int = 0  # OpenSSL's number; 0: nothing
    until: datetime | None = None


class TrustedFile(NamedTuple):
    """A file of authorities: the setting that names it, what is wrong with it, and when each of them ends."""

    setting: str
    path: Path
    fault: str
    ends: tuple[datetime, ...]


def shown_certificate(chain: Path, read: Callable[[], ssl.SSLContext]) -> ShownCertificate:
    """Look at the listener's. `read` is how the service reads it, and raises Refused."""
    try:
        server = read()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # it is trusted itself, whoever signed it
        client.load_verify_locations(chain)
        return ShownCertificate(chain, until=_until(server, client))
    except Refused as problem:
        return ShownCertificate(chain, fault=problem.message)
    except ssl.SSLCertVerificationError as problem:
        return ShownCertificate(chain, refused=problem.verify_code)


def judge_shown(facts: ShownCertificate, *, now: datetime) -> list[DoctorFinding]:
    """What is wrong with the listener's."""
    renew = "renew it, and `systemctl reload reconciler`"
    if facts.fault:
        return [error(NAME, facts.fault.rstrip("."), "")]
    if facts.refused == EXPIRED:
        return [error(NAME, f"{facts.chain} has expired, so that no client connects", renew)]
    if facts.refused == NOT_YET:
        return [error(NAME, f"{facts.chain} is not valid yet", "look at the clock, or wait")]
    if facts.refused or facts.until is None:
        return [warning(NAME, f"{facts.chain} was read, and its end could not be", "look with `openssl x509 -text`")]
    if facts.until <= now + SOON:
        return [warning(NAME, f"{facts.chain} ends {facts.until:%Y-%m-%dT%H:%M:%SZ}", renew)]
    return [ok(NAME, f"{facts.chain} fits its key, and is good until {facts.until:%Y-%m-%d}")]


def trusted_files(setting: str, path: Path) -> TrustedFile:
    """Look at a file of authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        return TrustedFile(setting, path, "holds no certificate (PEM)", ())
    except OSError as problem:
        return TrustedFile(setting, path, f"cannot be read ({problem.strerror})", ())
    ends = [_instant(str(one["notAfter"])) for one in context.get_ca_certs()]
    return TrustedFile(setting, path, "", tuple(sorted(ends)))


def judge_trusted(facts: Sequence[TrustedFile], *, now: datetime) -> list[DoctorFinding]:
    """What is wrong with them."""
    return [finding for each in facts for finding in _of_file(each, now)]


def _of_file(facts: TrustedFile, now: datetime) -> list[DoctorFinding]:
    what = f"{facts.path}, the file of `{facts.setting}`,"
    if facts.fault:
        return [error(NAME, f"{what} {facts.fault}", "put the authorities' certificates into it")]
    ended = [end for end in facts.ends if end <= now]
    if facts.ends and len(ended) == len(facts.ends):
        return [error(NAME, f"{what} holds only authorities that have expired", "put the present ones into it")]
    soon = [end for end in facts.ends if end <= now + SOON]
    if soon:
        told = (
            f"{what} holds {len(soon)} of {len(facts.ends)} authorities that have expired, or will in {SOON.days} days"
        )
        return [warning(NAME, told, "put the present ones into it")]
    return [ok(NAME, f"{what} can be used")]


def _until(server: ssl.SSLContext, client: ssl.SSLContext) -> datetime | None:
    """When the certificate ends that a handshake shows. Raises SSLCertVerificationError."""
    pipes = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(pipes[0], pipes[1], server_side=False)
    answering = server.wrap_bio(pipes[1], pipes[0], server_side=True)
    for _ in range(ROUNDS):
        if _goes_on(asking):
            return _instant(str((asking.getpeercert() or {})["notAfter"]))
        _goes_on(answering)
    return None


def _goes_on(end: ssl.SSLObject) -> bool:
    """Whether the handshake is over for one end. Raises SSLError."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _instant(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)
