"""The ssh agent that holds a key with a passphrase."""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import ssh
from reconciler.git.remotes.ssh import SOCKET, Agent
from reconciler.model.errors import Refused, Transient
from reconciler.settings import bounded_io
from tests import needs
from tests.canaries import leaks
from tests.servers import processes
from tests.servers import ssh as servers_ssh
from tests.waiting import is_alive, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
PASSPHRASE = "canary-passphrase"
POLL_SECONDS = 10  # how often ssh-agent looks whether its parent is there


@contextlib.asynccontextmanager
async def running(folder: Path, key: servers_ssh.Key, *, passphrase: str = PASSPHRASE) -> AsyncIterator[Agent]:
    """An agent for a key, not yet ready; its home is `folder/home`."""
    needs.require("ssh-agent")
    home = folder / "home"
    home.mkdir(exist_ok=True, parents=True)
    (folder / "passphrase").write_text(f"{passphrase}\n")
    agent = Agent(home, key=key.private, passphrase=folder / "passphrase")
    try:
        yield agent
    finally:
        await agent.close()
        assert started() == []


others: set[int] = set()


@pytest.fixture(scope="module", autouse=True)
def _others() -> None:
    """What other tests of this process share."""
    others.update(processes.descendants(os.getpid()))


def started() -> list[int]:
    """The processes that came of this one, in these tests."""
    return sorted(set(processes.descendants(os.getpid())) - others)


def told_to(those: list[int]) -> list[bytes]:
    """The arguments and variables of processes."""
    return [Path(f"/proc/{one}/{name}").read_bytes() for one in those for name in ("cmdline", "environ")]


def keys(folder: Path) -> list[str]:
    """The public keys that the agent has, `type base64`."""
    environment = {"PATH": os.environ["PATH"], "SSH_AUTH_SOCK": SOCKET}
    done = subprocess.run(["ssh-add", "-L"], cwd=folder / "home", env=environment, capture_output=True, check=False)
    return [" ".join(line.split()[:2]) for line in done.stdout.decode().splitlines()] if done.returncode == 0 else []


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> servers_ssh.Key:
    return servers_ssh.make_key(tmp_path_factory.mktemp("key") / "key", passphrase=PASSPHRASE)


async def test_holds_the_one_key_until_it_is_closed(tmp_path: Path, key: servers_ssh.Key) -> None:
    async with running(tmp_path, key) as agent:
        await agent.ready()
        assert keys(tmp_path) == [key.public]
        before = started()
        await asyncio.gather(agent.ready(), agent.ready())
        assert (started(), len(before)) == (before, 2)
        assert [leaks(told) for told in told_to(before)] == [[]] * 4
        await agent.close()
        assert started() == []
        assert [path.name for path in (tmp_path / "home").iterdir()] == ["askpass"]
        await agent.ready()
        assert keys(tmp_path) == [key.public]


async def test_lives_in_a_folder_whose_path_is_longer_than_a_sockets_may_be(
    tmp_path: Path, key: servers_ssh.Key
) -> None:
    folder = tmp_path / ("long" * 20) / ("path" * 20)
    async with running(folder, key) as agent:
        await agent.ready()
        assert keys(folder) == [key.public]


async def test_takes_the_new_key_when_the_file_was_replaced(tmp_path: Path) -> None:
    old = servers_ssh.make_key(tmp_path / "key", passphrase=PASSPHRASE)
    async with running(tmp_path, old) as agent:
        await agent.ready()
        new = servers_ssh.make_key(tmp_path / "new", passphrase="canary-other")
        new.private.replace(old.private)
        with pytest.raises(GitFault, match="does not open the key"):
            await agent.ready()
        assert keys(tmp_path) == []
        (tmp_path / "passphrase").write_text("canary-other")
        await agent.ready()
        assert keys(tmp_path) == [new.public]


async def test_says_that_the_passphrase_is_wrong_and_asks_once(tmp_path: Path, key: servers_ssh.Key) -> None:
    async with running(tmp_path, key, passphrase="canary-wrong") as agent:
        with pytest.raises(GitFault) as caught:
            await agent.ready()
        assert caught.value.state is RepositoryState.UNAUTHORIZED
        assert caught.value.message == (
            f"{tmp_path / 'passphrase'}, the file of credentials.sshPassphraseFile, does not open the key"
            f" {key.private}; correct it, or credentials.sshKeyFile"
        )


@pytest.mark.parametrize("which", [0, 1])
async def test_starts_again_after_either_process_was_killed(tmp_path: Path, key: servers_ssh.Key, which: int) -> None:
    async with running(tmp_path, key) as agent:
        await agent.ready()
        before = started()
        os.kill(before[which], signal.SIGKILL)
        await until(lambda: before[which] not in started())
        await agent.ready()
        assert keys(tmp_path) == [key.public]
        assert set(started()).isdisjoint(before)
        assert len(started()) == 2


def shim(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch, *, script: str) -> Path:
    """Have a script run before a program. The answer is the file that it makes by `mark`."""
    real, marker = needs.require(program), folder / f"{program} runs"
    before = folder / "bin" / program
    before.parent.mkdir(exist_ok=True)
    before.write_text(f'#!/bin/sh\nmark() {{ : > "{marker}"; }}\n{script}\nexec {real} "$@"\n')
    before.chmod(0o700)
    monkeypatch.setenv("PATH", f"{before.parent}{os.pathsep}{os.environ['PATH']}")
    return marker


# What runs when the caller goes away, and how long that takes: a little for the agent, which is waited for.
MOMENTS = {
    "the agent is started": ("ssh-agent", "mark; sleep 0.2"),
    "the old keys are removed": ("ssh-add", "mark; sleep 987"),
    "the key is opened": ("ssh-add", '[ "$2" = -D ] || { mark; sleep 987; }'),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_leaves_nothing_behind_when_its_caller_is_cancelled(
    tmp_path: Path, key: servers_ssh.Key, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    program, script = MOMENTS[moment]
    async with running(tmp_path, key) as agent:
        with monkeypatch.context() as patched:
            marker = shim(tmp_path, program, patched, script=script)
            task = asyncio.create_task(agent.ready())
            await until(marker.exists)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len(started()) == (0 if program == "ssh-agent" else 2)
        await agent.ready()
        assert keys(tmp_path) == [key.public]
        assert len(started()) == 2


async def test_says_that_the_key_takes_too_long_to_open(
    tmp_path: Path, key: servers_ssh.Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "ADD_SECONDS", 0.5)
    async with running(tmp_path, key) as agent:
        with monkeypatch.context() as patched:
            shim(tmp_path, "ssh-add", patched, script='[ "$2" = -D ] || sleep 987')
            with pytest.raises(GitFault) as caught:
                await agent.ready()
        assert (caught.value.state, caught.value.transient) == (RepositoryState.UNAUTHORIZED, False)
        assert caught.value.message == (
            f"{key.private}, the file of credentials.sshKeyFile, takes more than 0.5 seconds to open; make the key anew"
            " with fewer rounds (`ssh-keygen -a`)"
        )
        monkeypatch.setattr(ssh, "ADD_SECONDS", 30.0)
        await agent.ready()
        assert keys(tmp_path) == [key.public]


async def test_starts_an_agent_again_that_does_not_answer(
    tmp_path: Path, key: servers_ssh.Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "ADD_SECONDS", 0.5)
    async with running(tmp_path, key) as agent:
        with monkeypatch.context() as patched:
            shim(tmp_path, "ssh-add", patched, script="sleep 987")
            with pytest.raises(Transient, match=r"ssh-agent did not answer within 0\.5 seconds; it is started again"):
                await agent.ready()
        assert started() == []
        monkeypatch.setattr(ssh, "ADD_SECONDS", 30.0)
        await agent.ready()
        assert keys(tmp_path) == [key.public]


@pytest.mark.parametrize("after", [0, 1])
async def test_nothing_stays_of_a_start_that_fails_half_way(
    tmp_path: Path, key: servers_ssh.Key, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    opened: list[int] = []
    real = os.pidfd_open

    def pidfd_open(process: int) -> int:
        if process in started() and len(opened) == after:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        opened.append(process)
        return real(process)

    async with running(tmp_path, key) as agent:
        with monkeypatch.context() as patched:
            patched.setattr(os, "pidfd_open", pidfd_open)
            with pytest.raises(Transient, match=r"ssh-agent cannot be started \(Too many open files\)"):
                await agent.ready()
        assert started() == []
        await agent.ready()
        assert keys(tmp_path) == [key.public]


async def test_says_that_a_program_of_ssh_is_missing(
    tmp_path: Path, key: servers_ssh.Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, key) as agent:
        with monkeypatch.context() as patched:
            patched.setenv("PATH", str(tmp_path))
            with pytest.raises(Refused, match="the program ssh-agent is not on PATH; install it"):
                await agent.ready()


async def test_a_disk_that_hangs_stops_none_but_the_agents_callers(
    tmp_path: Path, key: servers_ssh.Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, real = threading.Event(), bounded_io.file_identity

    def identity(path: Path) -> bounded_io.FileIdentity | None:
        hanging.wait(10)
        return real(path)

    async with running(tmp_path, key) as agent:
        monkeypatch.setattr(bounded_io, "file_identity", identity)
        task = asyncio.create_task(agent.ready())
        await until((tmp_path / "home" / SOCKET).exists)
        assert not task.done()
        hanging.set()
        await task
        assert keys(tmp_path) == [key.public]


OWNER = """\
import asyncio, sys
from pathlib import Path
from reconciler.git.remotes.ssh import Agent

async def main():
    home, key, passphrase = map(Path, sys.argv[1:])
    await Agent(home, key=key, passphrase=passphrase).ready()
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_no_agent_outlives_a_daemon_that_was_killed(tmp_path: Path, key: servers_ssh.Key) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "passphrase").write_text(PASSPHRASE)
    command = [sys.executable, "-c", OWNER, str(tmp_path / "home"), str(key.private), str(tmp_path / "passphrase")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        held = processes.descendants(owner.pid)
        assert len(held) == 2
        owner.kill()
    asyncio.run(until(lambda: not any(map(is_alive, held)), seconds=2 * POLL_SECONDS))
