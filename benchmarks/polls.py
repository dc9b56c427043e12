"""A poll with nothing new: the CPU time of the daemon and of all that it starts, beside a bare `git ls-remote`.

One repository, polled five times a second; what the same daemon uses while it waits for an hour is taken off. The
daemon says of each look at the level `debug` that there was nothing new, by which looks are counted.
"""

import base64
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import corpus, processes
from benchmarks.figures import Figure
from tests import daemons
from tests.daemons import Daemon, until
from tests.servers import https, ssh
from tests.servers.certificates import Authority

OFTEN = "200ms"
IDLE_SECONDS = 5.0
FILE_LIMIT_MS = 10.0
REMOTE_LIMIT_MS = 60.0
PASSWORD = "canary-password-of-the-benchmark"  # noqa: S105 - of a server that lives for a minute
SAME_KEY_EXCHANGE = "KexAlgorithms=-sntrup761*"  # which costs older versions of ssh more than all the rest
NOTHING_NEW = "bench: nothing new."


@dataclass(frozen=True, slots=True)
class Case:
    """One transport: what the daemon is told, and what `git` by hand needs."""

    name: str
    limit_ms: float
    url: str
    credentials: Mapping[str, str] = field(default_factory=dict)
    configuration: tuple[str, ...] = ()  # for git by hand: what spares it a question, and says whom to trust


def measure(*, polls: int) -> list[Figure]:
    """Over file, https with a password and a private CA, and ssh."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        served = folder / "served"
        served.mkdir()
        corpus.make(served / "telemetry.git", files=10)
        found = []
        for number, case in enumerate(stack.enter_context(_cases(folder, served))):
            found.append(_figure(case, folder / str(number), polls=polls))
        return found


@contextlib.contextmanager
def _cases(folder: Path, served: Path) -> Iterator[list[Case]]:
    authority = Authority.make(folder / "authority")
    password = _secret(folder / "password", PASSWORD)
    key = ssh.make_key(folder / "keys" / "key")
    web = https.serving(served, certificate=authority.issue(), basic=("ada", PASSWORD))
    with web as secure, ssh.serving(folder / "sshd", authorized=[key]) as shell:
        hosts = shell.known_hosts(folder / "known_hosts")
        repository = served / "telemetry.git"
        client = f"ssh -F none -o BatchMode=yes -i {key.private} -o UserKnownHostsFile={hosts} -o {SAME_KEY_EXCHANGE}"
        shown = base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
        nobody = folder / "nobody"  # no other authorities: reading the system's would cost half of the time
        nobody.mkdir()
        header = f"http.extraHeader=Authorization: Basic {shown}"
        trusted = (f"http.sslCAInfo={authority.bundle}", "-c", f"http.sslCAPath={nobody}")
        named = {"username": "ada", "passwordFile": str(password), "caFile": str(authority.bundle)}
        keyed = {"sshKeyFile": str(key.private), "knownHostsFile": str(hosts)}
        yield [
            Case("file", FILE_LIMIT_MS, str(repository)),
            Case("https", REMOTE_LIMIT_MS, secure.url(), named, ("-c", header, "-c", *trusted)),
            Case("ssh", REMOTE_LIMIT_MS, shell.url(repository), keyed, ("-c", f"core.sshCommand={client}")),
        ]


def _figure(case: Case, folder: Path, *, polls: int) -> Figure:
    ours = _daemon(case, folder, polls=polls)
    environment = {"PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    command = ["git", *case.configuration, "ls-remote", "--symref", "--", case.url, "refs/heads/main"]
    floor = processes.cpu_seconds_of(command, times=polls, environment=environment)
    return Figure(
        f"a poll with nothing new, {case.name}, CPU with its children, mean of {polls}",
        f"{ours * 1000:.1f} ms",
        f"limit {case.limit_ms:.0f} ms; bare `git ls-remote` {floor * 1000:.1f} ms",
        f"{ours * 1000 / case.limit_ms:.2f}",
    )


def _daemon(case: Case, folder: Path, *, polls: int) -> float:
    """CPU seconds of one poll."""
    settings = {"log": {"level": "debug"}}
    with daemons.running(folder, repositories=[_watched(case, "1h")], settings=settings, is_started=True) as running:
        running.state_of("bench", "ready")
        idle = _idle(running)
        running.follow(_watched(case, OFTEN))
        until(lambda: _looks(running) > 1, "it is polled")
        before, cpu, begun = _looks(running), processes.cpu_seconds(running.process.pid), time.monotonic()
        looked = until(lambda: _enough(running, before + polls), f"{polls} polls", seconds=polls * 2.0)
        used = processes.cpu_seconds(running.process.pid) - cpu
        return (used - idle * (time.monotonic() - begun)) / (looked - before)


def _watched(case: Case, interval: str) -> dict[str, object]:
    """One entry of the settings."""
    credentials = {"credentials": dict(case.credentials)} if case.credentials else {}
    return {"name": "bench", "url": case.url, "branch": "main", "interval": interval, **credentials}


def _idle(running: Daemon) -> float:
    """CPU seconds in a second of waiting."""
    time.sleep(2)  # until what followed the first read is done
    before = processes.cpu_seconds(running.process.pid)
    time.sleep(IDLE_SECONDS)
    return (processes.cpu_seconds(running.process.pid) - before) / IDLE_SECONDS


def _enough(running: Daemon, wanted: int) -> int | None:
    time.sleep(0.5)  # reading the log takes time on the processors of the daemon
    looks = _looks(running)
    return looks if looks >= wanted else None


def _looks(running: Daemon) -> int:
    return running.log.read_text().count(NOTHING_NEW)


def _secret(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path
