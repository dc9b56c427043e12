"""The git program, as the service runs it."""

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import Refused
from reconciler.git.program import GitProgram, Limits
from tests.repositories import Repository

pytestmark = pytest.mark.anyio
LIMITS = Limits(seconds=10)


@pytest.fixture
def program(tmp_path: Path) -> GitProgram:
    return GitProgram(tmp_path / "home")


async def test_gives_the_status_and_both_outputs(program: GitProgram) -> None:
    output = await program.run("rev-parse", "--nonsense", limits=LIMITS)
    assert output.status == 128
    assert output.stdout == b""
    assert output.stderr.startswith("fatal: not a git repository")
    assert not output.truncated


async def test_sees_no_configuration_but_its_own(
    program: GitProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text("[user]\n\tname = somebody\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(foreign))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "somebody")
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_SSH_COMMAND", "false")
    listed = (await program.run("config", "--list", "--show-origin", limits=LIMITS)).stdout.decode()
    assert {line.partition("\t")[0] for line in listed.splitlines()} == {f"file:{program.configuration}"}
    for setting in ("core.hookspath=/dev/null", "fetch.fsckobjects=true", "gc.auto=0", "protocol.ext.allow=never"):
        assert setting in listed
    variables = set(program.environment())
    assert variables.isdisjoint({"GIT_DIR", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT"})


async def test_speaks_to_local_files_only(program: GitProgram) -> None:
    for url in ("ext::touch /tmp/never", "https://localhost/a", "git://localhost/a", "ssh://localhost/a"):
        output = await program.run("ls-remote", "--", url, limits=LIMITS)
        assert output.status == 128
        assert "not allowed" in output.stderr


@pytest.mark.parametrize("bare", [True, False])
async def test_reads_another_users_repository_only_when_it_is_trusted(
    program: GitProgram, tmp_path: Path, bare: bool
) -> None:
    folder = tmp_path / 'with "quote" and \\ and space'
    Repository.init(folder, bare=bare)

    def listed() -> int:
        # Git's own switch for its tests, so that no other user is needed.
        environment = {**program.environment(), "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
        command = ["git", "ls-remote", "--", str(folder)]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=False).returncode

    assert listed() == 128
    program.trust([tmp_path / "other"])
    assert listed() == 128
    program.trust([tmp_path / "other", folder])
    assert listed() == 0
    program.trust([])
    assert listed() == 128


@pytest.mark.parametrize("folder", ["*", "relative", "/srv/*", "/srv/a\n[core]"])
def test_trusts_no_pattern(tmp_path: Path, folder: str) -> None:
    with pytest.raises(Refused):
        GitProgram(tmp_path, safe_directories=[Path(folder)])


def test_keeps_its_folder_to_itself(tmp_path: Path) -> None:
    program = GitProgram(tmp_path / "home")
    assert program.home.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in program.home.iterdir()] == ["gitconfig"]


async def test_stops_at_the_output_limit(program: GitProgram) -> None:
    limits = Limits(seconds=10, output_bytes=100)
    output = await program.run("-c", "alias.talk=!yes", "talk", limits=limits)
    assert output.truncated
    assert output.stdout == b"y\n" * 50


async def test_throws_away_most_of_a_long_complaint(program: GitProgram) -> None:
    output = await program.run("-c", "alias.talk=!head -c 3000000 /dev/zero >&2", "talk", limits=LIMITS)
    assert (output.status, len(output.stderr), output.truncated) == (0, 64 * 1024, False)


async def test_ends_all_its_processes_when_it_takes_too_long(program: GitProgram, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        await program.run(
            "-c", f"alias.hang=!sleep 987 & echo $! > {tmp_path}/child; wait", "hang", limits=Limits(seconds=0.3)
        )
    assert time.monotonic() - started < 2
    await ended(int((tmp_path / "child").read_text()))


async def test_ends_all_its_processes_when_its_caller_is_cancelled(program: GitProgram, tmp_path: Path) -> None:
    alias = f"alias.hang=!sleep 987 & echo $! > {tmp_path}/child; wait"
    task = asyncio.create_task(program.run("-c", alias, "hang", limits=LIMITS))
    await until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended(int((tmp_path / "child").read_text()))


async def test_refuses_to_start_without_git(
    program: GitProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="the program git is not on PATH"):
        await program.run("version", limits=LIMITS)


async def ended(process: int) -> None:
    """Wait until a process is gone, or is only waiting to be reaped."""
    await until(lambda: not alive(process))


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(2):
        while not holds():  # noqa: ASYNC110 - what happens is in another process, which can set no event
            await asyncio.sleep(0.01)
