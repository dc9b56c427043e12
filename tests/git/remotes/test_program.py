"""The git program, as the service runs it."""

import asyncio
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import errors
from reconciler.git.remotes.program import GitProgram, Limits, Output
from reconciler.git.remotes.sources import MAX_MEMORY_BYTES, Source
from tests.canaries import leaks
from tests.git.remotes.shims import Shim
from tests.repositories import Repository
from tests.waiting import ended, until

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
    for setting in ("core.hookspath=/dev/null", "fetch.fsckobjects=true"):
        assert setting in listed
    variables = set(program.environment())
    assert variables.isdisjoint({"GIT_DIR", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT"})


async def test_speaks_to_local_files_only(program: GitProgram) -> None:
    for url in ("ext::touch /tmp/never", "https://localhost/a", "git://localhost/a", "ssh://localhost/a"):
        output = await program.run("ls-remote", "--", url, limits=LIMITS)
        assert output.status == 128
        assert "not allowed" in output.stderr


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("/srv/a.git", "file"),
        ("file:///srv/a.git", "file"),
        ("https://git.example/a.git", "https"),
        ("http://localhost/a.git", "http"),
        ("git://localhost/a.git", "git"),
        ("ssh://git@git.example/a.git", "ssh"),
    ],
)
async def test_speaks_to_a_remote_by_the_protocol_of_its_url_alone(tmp_path: Path, url: str, protocol: str) -> None:
    program = GitProgram(tmp_path / "home", url=url)
    others = ["ext::true", "https://[::1]:1/a", "http://[::1]:1/a", "git://[::1]:1/a", "ssh://[::1]:1/a", "/none/"]
    for other in others:
        output = await program.run("ls-remote", "--", other, limits=LIMITS, remote=True)
        is_own = (other.partition("://")[0] if "://" in other else "file" if other[0] == "/" else "ext") == protocol
        assert (output.status, "not allowed" in output.stderr) == (128, not is_own), other


async def test_gives_a_remote_nothing_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSH_AUTH_SOCK", "SSH_ASKPASS", "GIT_ASKPASS", "https_proxy", "GIT_PROXY_COMMAND", "SERVICE_API_KEY"):
        monkeypatch.setenv(name, "canary-environment")
    for url in ("https://git.example/a", "ssh://git.example/a", "/srv/a"):
        program = GitProgram(tmp_path / "home", url=url)
        output = await program.run("-c", "alias.show=!env", "show", limits=LIMITS, remote=True)
        found = {line.partition(b"=")[0].decode() for line in output.stdout.splitlines()}
        assert not {"SSH_AUTH_SOCK", "SSH_ASKPASS", "GIT_ASKPASS", "https_proxy", "GIT_PROXY_COMMAND"} & found
        assert not leaks(output.stdout)


@pytest.mark.parametrize("bare", [True, False])
async def test_reads_another_users_repository_only_when_it_is_trusted(tmp_path: Path, bare: bool) -> None:
    folder = tmp_path / 'with "quote" and \\ and space'
    Repository.init(folder, bare=bare)

    def listed(program: GitProgram) -> int:
        # Git's own switch for its tests, so that no other user is needed.
        environment = {**program.environment(), "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
        command = ["git", "ls-remote", "--", str(folder)]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=False).returncode

    expected = {(): 128, (tmp_path / "other",): 128, (tmp_path / "other", folder): 0}
    for trusted, status in expected.items():
        program = GitProgram(tmp_path / "home", safe_directories=trusted)
        await program.run("version", limits=LIMITS)
        assert listed(program) == status


async def test_trusts_no_pattern(tmp_path: Path) -> None:
    state, is_transient, message = await fault(GitProgram(tmp_path / "home", safe_directories=[Path("/srv/*")]))
    assert (state, is_transient, "cannot be trusted" in message) == (RepositoryState.UNREACHABLE, False, True)


async def test_keeps_its_folder_to_itself(program: GitProgram) -> None:
    await program.run("version", limits=LIMITS)
    assert program.home.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in program.home.iterdir()] == ["gitconfig"]


async def test_stops_at_the_output_limit(program: GitProgram) -> None:
    limits = Limits(seconds=10, output_bytes=100)
    output = await program.run("-c", "alias.talk=!yes", "talk", limits=limits)
    assert output.truncated
    assert output.stdout == b"y\n" * 50


@pytest.mark.parametrize("end", ["", "result\n"])
async def test_keeps_the_end_of_a_long_complaint_in_whole_lines(program: GitProgram, end: str) -> None:
    last = "echo; echo result" if end else "true"
    alias = f"alias.talk=!{{ echo cause; head -c 3000000 /dev/zero; {last}; }} >&2"
    output = await program.run("-c", alias, "talk", limits=LIMITS)
    assert (output.status, output.truncated) == (0, False)
    assert output.stderr == end  # of a part of a line nobody could tell whose words it is


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


async def fault(program: GitProgram) -> tuple[RepositoryState, bool, str]:
    """The fault of a run: its state, whether it may pass by itself, and what is said."""
    with pytest.raises(GitFault) as caught:
        await program.run("version", limits=LIMITS)
    return caught.value.state, caught.value.transient, caught.value.message


async def test_says_that_a_person_must_install_git(
    program: GitProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = "the program git is not on PATH; install it"
    assert await fault(program) == (RepositoryState.UNREACHABLE, False, said)


async def test_makes_its_folder_again_when_that_is_gone(program: GitProgram) -> None:
    await program.run("version", limits=LIMITS)
    shutil.rmtree(program.home)
    listed = await program.run("config", "--list", limits=LIMITS)
    assert b"core.hookspath=/dev/null\n" in listed.stdout


async def test_says_that_its_folder_cannot_be_made_and_makes_it_later(tmp_path: Path) -> None:
    program = GitProgram(tmp_path / "file/home")
    (tmp_path / "file").touch()
    said = f"the folder {tmp_path}/file/home cannot be written (Not a directory); mend that, and it is made"
    assert await fault(program) == (RepositoryState.UNREACHABLE, True, said)
    (tmp_path / "file").unlink()
    assert (await program.run("version", limits=LIMITS)).status == 0


async def test_says_that_git_cannot_be_started_now(
    program: GitProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text("#!/bin/sh\n")  # that may not be executed
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    said = "the program git cannot be started (Permission denied); it is tried again"
    assert await fault(program) == (RepositoryState.UNREACHABLE, True, said)


async def test_a_disk_that_hangs_stops_none_but_its_own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, real = threading.Event(), Path.replace

    def replace(path: Path, target: Path) -> Path:
        hanging.wait(10)
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    program = GitProgram(tmp_path / "home")
    runs = [asyncio.create_task(program.run("version", limits=LIMITS)) for _ in range(2)]
    await until((tmp_path / "home/gitconfig.new").exists)
    assert not any(run.done() for run in runs)
    hanging.set()
    assert [output.status for output in await asyncio.gather(*runs)] == [0, 0]


@pytest.mark.parametrize("name", ["KILL", "SEGV"])
async def test_says_that_a_signal_ended_git(program: GitProgram, name: str) -> None:
    # The shell that runs an alias is a child of git.
    output = await program.run("-c", f"alias.end=!kill -{name} $PPID", "end", limits=LIMITS)
    assert (output.stderr, output.notes) == ("", ("a signal ended git",))
    said = errors.explain(Source(url="/srv/a"), output).message
    assert said == "/srv/a cannot be read (a signal ended git); mend that, and it is read"


async def test_gives_a_remote_no_more_memory_than_its_limit(tmp_path: Path) -> None:
    origin = Repository.init(tmp_path / "origin")
    origin.write("big.txt", "x" * (20 << 20))  # git holds the whole of what is no larger than bigFileThreshold
    origin.commit()
    program = GitProgram(tmp_path / "home", url=str(origin.path))
    mirror = tmp_path / "mirror.git"
    await program.run("init", "--quiet", "--bare", "--", str(mirror), limits=LIMITS)
    fetch = (f"--git-dir={mirror}", "fetch", "--", str(origin.path), "+HEAD:refs/reconciler/head")
    output = await program.run(*fetch, limits=Limits(seconds=10, memory_bytes=24 << 20), remote=True)
    assert output.status != 0
    assert "fatal: Out of memory, malloc failed" in output.stderr
    assert (await program.run(*fetch, limits=LIMITS, remote=True)).status == 0


async def test_a_look_is_under_the_limit_of_memory_with_all_that_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = Shim(tmp_path / "shim", monkeypatch)
    shim.act("ulimit -d >&2")
    program = GitProgram(tmp_path / "home", url="/none")
    told = await program.run("version", limits=LIMITS, remote=True)
    assert told.stderr == f"{MAX_MEMORY_BYTES // 1024}\n"
    assert (await program.run("version", limits=LIMITS)).stderr == "unlimited\n"


def test_says_that_a_remote_takes_too_much_memory() -> None:
    url = "https://a.example/x"
    said = "fatal: Out of memory, malloc failed (tried to allocate 8589934593 bytes)\nfatal: index-pack died\n"
    fault = errors.explain(Source(url=url), Output(128, b"", said, truncated=False))
    assert (fault.state, fault.lasting, fault.message) == (
        RepositoryState.UNREACHABLE,
        True,
        f"{url} takes more than 1.5 GiB of memory to look at or fetch; delete refs, or shorten its history",
    )
