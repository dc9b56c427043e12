"""What git complains of, as a fault."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, RefHead
from reconciler.git.remotes.errors import explain, explained_fault, of_mirror
from reconciler.git.remotes.mirrors import Mirror
from reconciler.git.remotes.program import GitProgram, Output
from reconciler.git.remotes.sources import Source
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

URL = "ssh://git@git.example/a.git"
ABOUT_THE_MIRROR = (
    "fatal: bad object refs/reconciler/head",
    "error: refs/reconciler/head is broken",
    "error: {mirror}",
)
DAMAGED = f"the mirror of {URL} is damaged; it is built again by itself"


def failed(stderr: str) -> Output:
    """A git that ended with these words."""
    return Output(128, b"", f"{stderr}\n", truncated=False)


@pytest.fixture
async def mirror(tmp_path: Path) -> Mirror:
    """A mirror that holds one commit."""
    origin = Repository.init(tmp_path / "origin")
    origin.write("a.yaml", "kind: Destination")
    origin.commit()
    source = Source(url=str(origin.path))
    mirror = Mirror(tmp_path / "state/mirrors/one.git", GitProgram(tmp_path / "state/git"), url=URL)
    await mirror.ensure()
    await mirror.fetch(source, {HEAD: RefHead("HEAD", origin.head())})
    return mirror


async def of_a_remote(mirror: Mirror, stderr: str) -> GitFault:
    """The fault when git talks to a remote and ends with these words."""
    output = failed(stderr.format(mirror=mirror.path))
    return await explained_fault(Source(url=URL), output, mirror=mirror.path, program=mirror.program)


@pytest.mark.anyio
@pytest.mark.parametrize("stderr", ABOUT_THE_MIRROR)
async def test_a_remote_that_speaks_of_our_mirror_does_not_have_it_made_anew(mirror: Mirror, stderr: str) -> None:
    fault = await of_a_remote(mirror, f"{stderr}\nfatal: Could not read from remote repository.")
    assert fault.state is RepositoryState.UNREACHABLE
    assert fault.message.startswith(f"the connection to {URL} ended before an answer (")


@pytest.mark.anyio
async def test_a_mirror_that_is_named_and_whole_is_not_made_anew(mirror: Mirror) -> None:
    fault = await of_a_remote(mirror, ABOUT_THE_MIRROR[2])
    assert (fault.state, fault.message) == (
        RepositoryState.UNREACHABLE,
        f"{URL} cannot be read ({mirror.path}); mend that, and it is read",
    )


def empty_pack(mirror: Path) -> None:
    [pack] = (mirror / "objects/pack").glob("*.pack")
    pack.chmod(0o600)
    pack.write_bytes(b"")


def garble_blob(mirror: Path) -> None:
    """One byte in the middle, of what no walk through commits and folders reads."""
    [pack] = (mirror / "objects/pack").glob("*.pack")
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    content[-30] ^= 0xFF
    pack.write_bytes(content)


def lose_objects(mirror: Path) -> None:
    for file in (mirror / "objects/pack").iterdir():
        file.unlink()


def garble_ref(mirror: Path) -> None:
    [ref] = (path for path in (mirror / "refs/reconciler").iterdir())
    ref.write_text("no object\n")


def garble_configuration(mirror: Path) -> None:
    (mirror / "config").write_text("[core\n")


@pytest.mark.anyio
@pytest.mark.parametrize("damage", [empty_pack, garble_blob, lose_objects, garble_ref, garble_configuration])
async def test_a_mirror_that_is_damaged_is_found_so_once_git_speaks_of_it(
    mirror: Mirror, damage: Callable[[Path], None]
) -> None:
    damage(mirror.path)
    fault = await of_a_remote(mirror, ABOUT_THE_MIRROR[2])
    assert (fault.state, fault.message) == (RepositoryState.MIRROR_CORRUPT, DAMAGED)


@pytest.mark.anyio
@pytest.mark.parametrize("check", ["for-each-ref", "rev-list", "verify-pack"])
async def test_a_mirror_is_not_damaged_because_a_look_into_it_was_killed(
    mirror: Mirror, shim: Shim, check: str
) -> None:
    shim.kill(check)
    fault = await of_a_remote(mirror, ABOUT_THE_MIRROR[2])
    assert (fault.state, shim.count(check)) == (RepositoryState.UNREACHABLE, 1)


@pytest.mark.anyio
async def test_a_mirror_that_is_damaged_is_not_looked_into_before_git_speaks_of_it(mirror: Mirror) -> None:
    garble_ref(mirror.path)
    fault = await of_a_remote(mirror, "Connection closed by 127.0.0.1 port 22")
    assert fault.state is RepositoryState.UNREACHABLE


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        ("fatal: bad object refs/reconciler/head", DAMAGED),
        ("error: refs/reconciler/head: no", f"the mirror of {URL} has a damaged ref; it is built again by itself"),
        ("error: file /var/m.git/objects/pack/x.pack is far too short to be a packfile", DAMAGED),
        ("fatal: odd", f"the mirror of {URL} cannot be read (odd); it is built again by itself"),
    ],
)
def test_git_is_believed_of_what_it_finds_in_our_own_files(stderr: str, message: str) -> None:
    fault = of_mirror(URL, failed(stderr), mirror=Path("/var/m.git"))
    assert (fault.state, fault.message) == (RepositoryState.MIRROR_CORRUPT, message)


@pytest.mark.parametrize(
    ("stderr", "state", "message"),
    [
        (
            "fatal: mismatched algorithms: client sha1; server sha256\n",
            RepositoryState.UNSUPPORTED_FORMAT,
            "/srv/a uses another object format than SHA-1, which is not supported; convert it to SHA-1",
        ),
        (
            "fatal: unknown repository extension found:\n\trefstorage\nfatal: Could not read from remote repository.\n",
            RepositoryState.UNSUPPORTED_FORMAT,
            "/srv/a keeps its refs as reftable, which the installed git cannot read; migrate its refs to files",
        ),
        (
            f"error: object {'a' * 40}: treeNotSorted: not sorted\nfatal: fsck error in packed object\n",
            RepositoryState.UNSUPPORTED_FORMAT,
            f"/srv/a holds an object that fails Git's integrity checks ({'a' * 40}: treeNotSorted); repair its history",
        ),
        (
            "fatal: '/srv/a' does not appear to be a git repository\n",
            RepositoryState.UNREACHABLE,
            "/srv/a is not a Git repository; make one there, or correct `url`",
        ),
        (
            "fatal: write error: File too large\n",
            RepositoryState.UNREACHABLE,
            "/srv/a sends more than the 512 bytes that one fetch may bring; shorten its history",
        ),
        (
            "fatal: not a git repository: /srv/gone/.git/worktrees/a\n",
            RepositoryState.UNREACHABLE,
            "/srv/a names a Git repository that is gone; put that back, or correct `url`",
        ),
        (
            "fatal: something \x1b[31mnew\n",
            RepositoryState.UNREACHABLE,
            "/srv/a cannot be read (`git fsck` there says why); mend that, and it is read",
        ),
        (
            "",
            RepositoryState.UNREACHABLE,
            "/srv/a cannot be read (git gave no reason); mend that, and it is read",
        ),
    ],
)
def test_says_what_git_complained_of(stderr: str, state: RepositoryState, message: str) -> None:
    fault = explain(Source(url="/srv/a", max_bytes=512), Output(128, b"", stderr, truncated=False))
    assert (fault.state, fault.message) == (state, message)


def test_shows_no_more_than_one_bounded_line() -> None:
    message = explain(Source(url=URL), failed("fatal: \x1b[31m" + "x" * 100_000 + "\nfatal: more")).message
    assert message.startswith(f"{URL} cannot be read (\\x1b[31mxxx")
    assert len(message) < 300
    assert "more" not in message
