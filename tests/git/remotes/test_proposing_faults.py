"""Proposals to remotes that fail, ask to wait or are slow: nothing of it is the following's."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.following import PROPOSED_OF_ONE_HOST, Following, Remotes
from reconciler.git.remotes.sources import Source
from tests.git.remotes.followings import brought, place, until
from tests.git.remotes.proposals import PULL, files_of, followed, fork, propose
from tests.git.remotes.shims import Shim
from tests.repositories import Repository
from tests.servers import gitd, https
from tests.servers.certificates import Authority

pytestmark = pytest.mark.anyio


@dataclass
class Watch:
    """A clock that stands still."""

    now: float = 100.0


@dataclass
class Forge:
    """A bare repository with one proposal, as a server has it."""

    repository: Repository
    head: str
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.repository.path.parent


@pytest.fixture
def forge(served: Path, tmp_path: Path) -> Forge:
    repository = Repository(served / "telemetry.git")
    return Forge(repository, propose(fork(repository, tmp_path / "fork"), repository))


@contextlib.asynccontextmanager
async def at(watch: Watch, folder: Path) -> AsyncIterator[Remotes]:
    remotes = Remotes(lambda source: place(folder / "state", source), clock=lambda: watch.now)
    yield remotes
    await remotes.close()


async def told(following: Following, named: str = PULL) -> GitFault:
    with pytest.raises(GitFault) as found:
        await following.propose(named)
    return found.value


async def test_the_credentials_are_those_of_the_repository(remotes: Remotes, forge: Forge, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    password = tmp_path / "password"
    password.write_text("canary-password")
    with https.serving(forge.folder, certificate=authority.issue(), basic=("ada", "canary-password")) as server:
        credentials = Credentials(username="ada", password_file=password, ca_file=authority.bundle)
        following = remotes.follow(Source(url=server.url(), credentials=credentials, timeout=30))
        await brought(following)
        for named in (PULL, forge.head):
            found = await following.propose(named)
            assert (found.head, files_of(found)) == (forge.head, ["a.yaml", "b.yaml"])
        password.write_text("canary-another")
        assert (await told(following)).state is RepositoryState.UNAUTHORIZED


async def test_over_git_too(remotes: Remotes, forge: Forge, tmp_path: Path) -> None:
    with gitd.serving(forge.folder, log=tmp_path / "log") as server:
        following = await followed(remotes, server.url())
        assert (await following.propose(forge.head)).head == forge.head


@pytest.mark.parametrize("is_of_proposal", [True, False])
async def test_a_remote_that_asks_to_wait_is_left_alone(forge: Forge, tmp_path: Path, is_of_proposal: bool) -> None:
    watch = Watch()
    async with at(watch, tmp_path) as remotes:
        with https.serving(forge.folder) as server:
            following = await followed(remotes, server.url())
            server.refusal = https.too_many(seconds=90)
            with pytest.raises(GitFault, match="HTTP 429"):
                await (following.propose(PULL) if is_of_proposal else following.poll())
            server.refusal = None
            watch.now += 80
            asked = len(server.requests)
            fault = await told(following)
            assert (fault.retry_after, len(server.requests)) == (10, asked)
            if is_of_proposal:
                await following.poll()
            watch.now += 11
            assert (await following.propose(PULL)).head == forge.head


async def test_a_commit_that_is_here_needs_no_remote(remotes: Remotes, forge: Forge) -> None:
    with https.serving(forge.folder) as server:
        following = await followed(remotes, server.url())
        await following.propose(PULL)
        server.refusal = https.Refusal(503)
        base = forge.repository.head("main")
        assert (await following.propose(forge.head, base=base)).head == forge.head
        assert (
            await told(following, forge.head)
        ).state is RepositoryState.UNREACHABLE  # where the base is now, only it knows


async def test_a_folder_that_was_gone_is_found_at_once(remotes: Remotes, origin: Repository) -> None:
    following = await followed(remotes, origin.path)
    away = origin.path.rename(origin.path.with_name("away"))
    assert (await told(following)).state is RepositoryState.UNREACHABLE
    with pytest.raises(GitFault):
        await following.poll()
    away.rename(origin.path)
    assert (await following.propose("refs/heads/main")).head == origin.head()


async def test_a_repository_on_this_machine_leads_nowhere_else(
    remotes: Remotes, origin: Repository, tmp_path: Path
) -> None:
    following = await followed(remotes, origin.path)
    (origin.path / ".git/objects/info/alternates").write_text(f"{tmp_path}/state\n")
    fault = await told(following, "refs/heads/main")
    assert "is not read, since" in fault.message


@pytest.mark.parametrize("command", ["ls-remote", "fetch"])
async def test_a_slow_proposal_ends_in_time_and_delays_nothing_that_is_followed(
    remotes: Remotes, origin: Repository, tmp_path: Path, shim: Shim, command: str
) -> None:
    following = await followed(remotes, origin.path, timeout=3)
    copy = fork(origin, tmp_path / "fork")
    head = propose(copy, origin)
    shim.act_on(command, "exec sleep 987")
    began, before = time.monotonic(), shim.count(command)
    asking = asyncio.create_task(following.propose(PULL))
    await until(lambda: shim.count(command) > before)
    shim.act("")
    new = origin.commit()
    assert (await brought(following)).commit == new
    with pytest.raises(GitFault, match="within 3 seconds") as found:
        await asking
    assert (found.value.state, 2.9 < time.monotonic() - began < 20) == (RepositoryState.UNREACHABLE, True)
    assert (await following.propose(PULL)).head == head


async def test_slow_proposals_take_no_slot_of_what_is_followed(
    remotes: Remotes, forge: Forge, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.git.remotes.following.AT_ONCE", 1)
    with https.serving(forge.folder) as server:
        followed = [
            remotes.follow(Source(url=server.url(), credentials=Credentials(username=f"u{number}")))
            for number in range(PROPOSED_OF_ONE_HOST + 2)
        ]
        shim.act('case " $* " in *" ls-remote "*) exec sleep 987;; esac')
        stuck = [asyncio.create_task(one.propose(PULL)) for one in followed]
        await until(lambda: shim.count("ls-remote") == PROPOSED_OF_ONE_HOST)
        shim.act("")
        for one in followed:
            assert (await one.poll()).ref == "refs/heads/main"
        assert shim.count("ls-remote") == PROPOSED_OF_ONE_HOST + len(followed)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
