"""Checks of the listener, programs, repositories, the clock and certificates."""

import asyncio
import errno
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.git.refs import RefHead
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.remote import RemotePlace
from reconciler.git.remotes.sources import Source
from reconciler.model.errors import ReconcilerError, Refused
from reconciler.ops.doctor import DoctorFinding, error, ok, warning
from reconciler.settings.models import Settings
from reconciler.settings.scalars import Address
from reconciler.worker import sandbox
from reconciler.worker.sandbox import Protections

# Whether the service runs and listens where the settings say; whether it could, when it does not run.

NAME = "listener"
SECONDS = 3.0
ANY_PORT = 0


class ListeningFacts(NamedTuple):
    """A setting and its address, the process that runs, and what came of a connection, or of listening there."""

    setting: str
    address: Address
    process: int | None
    errno: int = 0


def gather_listening(setting: str, address: Address, *, process: int | None) -> ListeningFacts:
    """Connect to a service that runs, else listen for a moment."""
    if address.port == ANY_PORT:
        return ListeningFacts(setting, address, process)
    try:
        if process is None:
            _listen(address)
        else:
            socket.create_connection((_reached(address.host), address.port), timeout=SECONDS).close()
    except TimeoutError:
        return ListeningFacts(setting, address, process, errno.ETIMEDOUT)
    except OSError as problem:
        return ListeningFacts(setting, address, process, problem.errno or errno.EADDRNOTAVAIL)
    return ListeningFacts(setting, address, process)


def judge_listening(facts: ListeningFacts) -> list[DoctorFinding]:
    """What is in the way."""
    where = f"`{facts.setting}`, {facts.address},"
    if facts.process is not None and facts.errno:
        told = f"the service runs (process {facts.process}) and does not answer at {where[:-1]} ({_why(facts.errno)})"
        return [warning(NAME, told, "look into its log: it starts, hangs, or has other settings")]
    if facts.process is not None:
        return [ok(NAME, f"the service runs (process {facts.process}); {where} is its listener")]
    if facts.errno == errno.EADDRINUSE:
        return [error(NAME, f"{where} is in use by another program", "end that, or choose another port")]
    if facts.errno == errno.EACCES:
        return [error(NAME, f"{where} is a port for root alone", "choose one from 1024 on, and put a proxy before it")]
    if facts.errno:
        return [error(NAME, f"{where} cannot be listened at ({_why(facts.errno)})", "correct it")]
    return [ok(NAME, f"the service does not run; {where} is free")]


def _listen(address: Address) -> None:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen()


def _reached(host: str) -> str:
    """An address of a listener at all addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - where others listen


def _why(number: int) -> str:
    return os.strerror(number).lower()


# Whether the kernel confines the process that reads what others wrote.

SANDBOX_NAME = "sandbox"


def gather_protections() -> Protections | None:
    """Ask a process that is confined in the same way; None when it could not be started."""
    try:
        return sandbox.probe()
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return None


def judge_protections(found: Protections | None) -> list[DoctorFinding]:
    """Which of landlock and seccomp are active, and why not all."""
    if found is None:
        told = "the reader child could not be started, or could not be confined"
        return [error(SANDBOX_NAME, told, "look into the log of the service, which tries the same")]
    if found.missing:
        told = f"the reader child is confined less than it could be: {', and '.join(found.missing)}"
        todo = "all works as it is; use a kernel that has landlock and seccomp, and let a container allow both"
        return [warning(SANDBOX_NAME, told, todo)]
    active = f"landlock (version {found.landlock} of its rules) and seccomp"
    return [ok(SANDBOX_NAME, f"a reader child that is started from here is confined by {active}")]


# Whether the programs that the settings need are there, and git is one that is known to work.

PROGRAM_NAME = "programs"
OLDEST_GIT = (2, 39)  # that is tested
PROGRAM_SECONDS = 10.0
HTTPS = "git-remote-https"


class ProgramFacts(NamedTuple):
    """What `git version` said, empty without git, and which of the needed programs are not there."""

    git: str
    missing: tuple[str, ...]


def needed_programs(settings: Settings) -> tuple[str, ...]:
    """The programs beside git, sorted."""
    found: set[str] = set()
    for repository in settings.repositories:
        if repository.url.startswith("https:"):
            found.add(HTTPS)
        if repository.url.startswith("ssh:"):
            found.add("ssh")
        if repository.credentials.ssh_passphrase_file is not None:
            found.update(("ssh-agent", "ssh-add"))
        if repository.verify.signers_file is not None:
            found.add("ssh-keygen")
    return tuple(sorted(found))


def gather_programs(needed: tuple[str, ...]) -> ProgramFacts:
    """Look for them. Raises OSError."""
    if shutil.which("git") is None:
        return ProgramFacts("", tuple(name for name in needed if name != HTTPS and shutil.which(name) is None))
    folder = Path(_said("--exec-path").strip())
    missing = [name for name in needed if shutil.which(name) is None and not (folder / name).exists()]
    return ProgramFacts(_said("version").strip() or "git", tuple(missing))


def judge_programs(facts: ProgramFacts) -> list[DoctorFinding]:
    """What is missing."""
    return [*_of_git(facts.git), *(_missing(name) for name in facts.missing)]


def _of_git(said: str) -> Iterator[DoctorFinding]:
    if not said:
        yield error(PROGRAM_NAME, "there is no program git", "install it, or put its folder into PATH")
        return
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        yield warning(
            PROGRAM_NAME,
            f"git says that it is `{said}`, and {oldest} is the oldest that is tested",
            "install a later one",
        )
    else:
        yield ok(PROGRAM_NAME, said)


def _missing(name: str) -> DoctorFinding:
    package = "the package of git that has it" if name == HTTPS else "openssh-client, or what has it here"
    return error(
        PROGRAM_NAME, f"there is no program {name}, which a repository of the settings needs", f"install {package}"
    )


def _said(argument: str) -> str:
    try:
        done = subprocess.run(["git", argument], capture_output=True, timeout=PROGRAM_SECONDS, check=False, cwd="/")
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout[:1000].decode("utf-8", "replace")


# Whether each repository can be reached and has what is followed: one look, by the service's own code and limits.
#
# Nothing is fetched, and mirrors of the service are not touched: the look has a folder of its own, which goes with it.
# It is where a program may be run, since git asks for a password by one: `/tmp` of a container seldom is.

REPOSITORY_NAME = "repositories"
REPOSITORY_SECONDS = 30.0  # for one, however long `timeout` lets a git go on
SHOWN = 12  # characters of a commit


class NamedRepository(NamedTuple):
    """A repository of the settings; of a suspended one nothing is asked."""

    name: str
    source: Source
    is_suspended: bool


class RepositoryFacts(NamedTuple):
    """One of them: where it is, or what is wrong with it."""

    named: NamedRepository
    head: RefHead | None
    fault: str


async def gather_repositories(repositories: Sequence[NamedRepository], *, state: Path) -> list[RepositoryFacts]:
    """Look at all of them at once. `state` is the state directory, where no repository may lead."""
    above = state if _runs_no_programs(tempfile.gettempdir()) and _is_ours(state) else None
    with tempfile.TemporaryDirectory(prefix=".reconciler-doctor-", dir=above, ignore_cleanup_errors=True) as folder:

        def place(_: Source) -> RemotePlace:
            number = len(list(Path(folder).iterdir()))
            home = Path(folder, str(number))
            home.mkdir()
            return RemotePlace(home / "mirror.git", home / "git", state)

        remotes = Remotes(place, clock=time.monotonic)
        try:
            return list(await asyncio.gather(*(_one(each, remotes) for each in repositories)))
        finally:
            await remotes.close()


def judge_repositories(facts: Sequence[RepositoryFacts]) -> list[DoctorFinding]:
    """What is wrong with them."""
    return [_of_one(each) for each in facts] or [ok(REPOSITORY_NAME, "the settings name none, so nothing is watched")]


def _of_one(facts: RepositoryFacts) -> DoctorFinding:
    name = facts.named.name
    if facts.named.is_suspended:
        return ok(REPOSITORY_NAME, f"{name} is suspended in the settings, and nobody looked")
    if facts.head is None:
        return error(REPOSITORY_NAME, f"{name}: {facts.fault.rstrip('.')}", "")
    return ok(REPOSITORY_NAME, f"{name}: {facts.head.ref or 'HEAD'} is at {facts.head.commit[:SHOWN]}")


def _runs_no_programs(folder: str) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)


def _is_ours(folder: Path) -> bool:
    return folder.is_dir() and folder.stat().st_uid == os.geteuid()


async def _one(named: NamedRepository, remotes: Remotes) -> RepositoryFacts:
    if named.is_suspended:
        return RepositoryFacts(named, None, "")
    try:
        async with asyncio.timeout(REPOSITORY_SECONDS):
            return RepositoryFacts(named, await remotes.follow(named.source).poll(insists=True), "")
    except ReconcilerError as fault:
        return RepositoryFacts(named, None, fault.message)
    except TimeoutError:
        return RepositoryFacts(
            named, None, f"no answer within {REPOSITORY_SECONDS:g} seconds; look at the network, or at the server"
        )


# Whether the clock can be right: nothing that was written before is later than now. Who sets it is not looked at.

CLOCK_NAME = "clock"
SLACK = timedelta(minutes=2)
MOST_ENTRIES = 1000


class ClockFacts(NamedTuple):
    """The time, and the latest file with its time; None when there is none."""

    now: datetime
    path: Path | None
    written: datetime | None


def gather_clocks(now: datetime, folders: Iterable[Path]) -> ClockFacts:
    """Look at the files of these folders, and the files that are named. Raises OSError."""
    paths: list[Path] = []
    for folder in folders:
        paths += sorted(folder.iterdir())[:MOST_ENTRIES] if folder.is_dir() else []
    times = [(path.lstat().st_mtime, path) for path in paths]
    if not times:
        return ClockFacts(now, None, None)
    written, path = max(times)
    return ClockFacts(now, path, datetime.fromtimestamp(written, UTC))


def judge_clocks(facts: ClockFacts) -> list[DoctorFinding]:
    """Whether the clock goes after the files."""
    if facts.written is None or facts.written <= facts.now + SLACK:
        return [ok(CLOCK_NAME, f"{facts.now:%Y-%m-%dT%H:%M:%SZ}, later than every file; who sets it is not looked at")]
    told = f"it is {facts.now:%Y-%m-%dT%H:%M:%SZ}, and {facts.path} was written {facts.written:%Y-%m-%dT%H:%M:%SZ}"
    todo = "set the clock, by NTP for instance: expiries, signatures and certificates depend on it"
    return [error(CLOCK_NAME, told, todo)]


# Whether certificates can be used, and how long: the listener's, and those of the authorities that are trusted.
#
# What is told of the listener's is what a client would see in a handshake, which is made in memory.

CERTIFICATE_NAME = "certificates"
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
        return [error(CERTIFICATE_NAME, facts.fault.rstrip("."), "")]
    if facts.refused == EXPIRED:
        return [error(CERTIFICATE_NAME, f"{facts.chain} has expired, so that no client connects", renew)]
    if facts.refused == NOT_YET:
        return [error(CERTIFICATE_NAME, f"{facts.chain} is not valid yet", "look at the clock, or wait")]
    if facts.refused or facts.until is None:
        return [
            warning(
                CERTIFICATE_NAME, f"{facts.chain} was read, and its end could not be", "look with `openssl x509 -text`"
            )
        ]
    if facts.until <= now + SOON:
        return [warning(CERTIFICATE_NAME, f"{facts.chain} ends {facts.until:%Y-%m-%dT%H:%M:%SZ}", renew)]
    return [ok(CERTIFICATE_NAME, f"{facts.chain} fits its key, and is good until {facts.until:%Y-%m-%d}")]


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
        return [error(CERTIFICATE_NAME, f"{what} {facts.fault}", "put the authorities' certificates into it")]
    ended = [end for end in facts.ends if end <= now]
    if facts.ends and len(ended) == len(facts.ends):
        return [
            error(CERTIFICATE_NAME, f"{what} holds only authorities that have expired", "put the present ones into it")
        ]
    soon = [end for end in facts.ends if end <= now + SOON]
    if soon:
        told = (
            f"{what} holds {len(soon)} of {len(facts.ends)} authorities that have expired, or will in {SOON.days} days"
        )
        return [warning(CERTIFICATE_NAME, told, "put the present ones into it")]
    return [ok(CERTIFICATE_NAME, f"{what} can be used")]


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
