"""Forty repositories in error: how often each asks its server in a minute, the first and the fullest.

A server that answers every request with 500, one that refuses every password, one whose repositories lack the branch,
and one whose heads fail Git's checks: half of the repositories of each is polled every second, the others every minute.
What a server is asked is counted as it sees it, request by request.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure
from tests import daemons
from tests.repositories import Repository
from tests.servers import https
from tests.servers.certificates import Authority
from tests.servers.https import Refusal, Server

REPOSITORIES = 40
INTERVALS = ("1s", "60s")
LIMIT = 10  # requests a minute of one repository: fewer than these
MINUTE = 60.0
PASSWORD = "canary-password"  # noqa: S105 - of servers that end with this
STEP_SECONDS = 0.1


def measure(*, seconds: float) -> list[Figure]:
    """Over so many seconds from the start of the daemon, at least a minute."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        servers = stack.enter_context(_servers(folder))
        asked: dict[str, list[float]] = {}
        with daemons.running(folder / "daemon", repositories=_repositories(folder, servers), is_started=True):
            begun = time.monotonic()
            known = [0] * len(servers)
            while time.monotonic() - begun < seconds:
                time.sleep(STEP_SECONDS)
                now = time.monotonic() - begun
                for number, server in enumerate(servers):
                    fresh = server.requests[known[number] :]
                    known[number] += len(fresh)
                    for request in fresh:
                        asked.setdefault(request.path.split("/")[1], []).append(now)
    if len(asked) != REPOSITORIES:
        raise RuntimeError(f"{len(asked)} repositories asked")
    first = max(sum(when < times[0] + MINUTE for when in times) for times in asked.values())
    fullest = max(sum(begin <= when < begin + MINUTE for when in times) for times in asked.values() for begin in times)
    return [_figure("first", first, seconds), _figure("fullest", fullest, seconds)]


@contextlib.contextmanager
def _servers(folder: Path) -> Iterator[list[Server]]:
    certificate = Authority.make(folder / "authority").issue()
    for name, make in (("lacking", _lacking), ("unfit", _unfit)):
        for number in range(REPOSITORIES):
            make(Repository.init(folder / name / f"r{number}.git", bare=True))
    with (
        https.serving(folder, certificate=certificate) as broken,
        https.serving(folder, certificate=certificate, basic=("ada", "canary-other")) as closed,
        https.serving(folder / "lacking", certificate=certificate, basic=("ada", PASSWORD)) as lacking,
        https.serving(folder / "unfit", certificate=certificate, basic=("ada", PASSWORD)) as unfit,
    ):
        broken.refusal = Refusal(500)
        yield [broken, closed, lacking, unfit]


def _lacking(repository: Repository) -> None:
    repository.commit_tree(repository.tree(), branch="other")
    repository.git("symbolic-ref", "HEAD", "refs/heads/other")


def _unfit(repository: Repository) -> None:
    blob = repository.blob(b"x")
    repository.commit_tree(repository.tree(("100644", b"a.yaml", blob), ("100644", b"a.yaml", blob)))


def _repositories(folder: Path, servers: list[Server]) -> list[dict[str, object]]:
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    credentials = {
        "username": "ada",
        "passwordFile": str(password),
        "caFile": str(folder / "authority" / "authority.pem"),
    }
    return [
        {
            "name": f"r{number}",
            "url": servers[number % len(servers)].url(f"r{number}.git"),
            "branch": "main",
            "interval": INTERVALS[number // len(servers) % 2],
            "credentials": credentials,
        }
        for number in range(REPOSITORIES)
    ]


def _figure(which: str, requests: int, seconds: float) -> Figure:
    return Figure(
        f"{REPOSITORIES} repositories in error, requests of each in the {which} minute of {seconds:.0f} s",
        f"{requests}",
        f"limit {LIMIT - 1}",
        f"{requests / (LIMIT - 1):.2f}",
    )
