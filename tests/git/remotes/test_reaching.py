"""What a repository on this machine may lead git to."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.git.remotes.local_repositories import MOST_IN_STORE, MOST_STORES, Astray, NoRepository, RepositoryReach
from tests import needs
from tests.repositories import Repository

NOBODY = 65534
SOMEBODY = 4242  # whose the service is, where the files are a stranger's
FILE, FOLDER = Path("/etc/passwd"), Path("/etc")  # root's, on every machine
FOREIGN = "its {} leads to nothing, or to what does not belong to the owner of the repository"
BRANCH = "refs/heads/main"
NAMES = [
    "config",
    "config.worktree",
    "packed-refs",
    "shallow",
    "commondir",
    "info/grafts",
    "reftable/tables.list",
    BRANCH,
    "info/alternates",
    "info/commit-graph",
    "pack/multi-pack-index",
]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository.init(tmp_path / "repository")
    repository.commit()
    return repository


def replace(git: Path, name: str, make: Callable[[Path], object]) -> None:
    """Put something else where git looks for this."""
    path = git / ("objects" if name.startswith(("info/a", "info/c", "pack/")) else "") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    make(path)


def of_a_stranger(path: Path, *, state: Path | None = None) -> None:
    """Judge a repository whose files, links included, are not the service's own."""
    needs.require_root()
    for place in (path.parent, *path.parent.rglob("*")):
        os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
    RepositoryReach(reader=SOMEBODY, state=state).judge(path, [BRANCH])


def of_a_friend(path: Path, *, state: Path | None = None) -> None:
    """Judge a repository of the service's own user."""
    RepositoryReach(reader=os.geteuid(), state=state).judge(path, [BRANCH])


def why(judge: Callable[..., None], path: Path, *, state: Path | None = None) -> str:
    with pytest.raises(Astray) as astray:
        judge(path, state=state)
    return str(astray.value)


# A stranger's links lead to what is the stranger's


@pytest.mark.parametrize("target", [FILE, Path("/nonexistent")])
@pytest.mark.parametrize("name", NAMES)
def test_a_strangers_link_leads_to_no_file_of_others(repository: Repository, name: str, target: Path) -> None:
    replace(repository.path / ".git", name, lambda path: path.symlink_to(target))
    assert why(of_a_stranger, repository.path) == FOREIGN.format(name)


@pytest.mark.parametrize("name", ["objects", "refs", "refs/heads", "objects/ab", "pack", "info"])
def test_a_strangers_link_leads_to_no_folder_of_others(repository: Repository, name: str) -> None:
    place = repository.path / ".git" / ("objects/pack" if name == "pack" else name)
    if place.is_dir():
        place.rename(place.with_name("kept"))
    if name in {"objects", "refs"}:  # so that git takes it for a repository
        place.symlink_to("/")
    else:
        place.symlink_to(FOLDER)
    told = FOREIGN.format({"objects/ab": "ab"}.get(name, name))
    assert why(of_a_stranger, repository.path) == told


@pytest.mark.parametrize("name", NAMES)
def test_a_strangers_link_leads_to_a_file_of_the_same_stranger(repository: Repository, name: str) -> None:
    own = repository.path.with_name("own")
    own.write_text(str(repository.path / ".git") if name == "commondir" else "")
    replace(repository.path / ".git", name, lambda path: path.symlink_to(own))
    of_a_stranger(repository.path)


def gitfile(repository: Repository) -> None:
    (repository.path / ".git").rename(repository.path / "away")
    (repository.path / ".git").write_text(f"gitdir: {FOLDER}\n")


def linked_git(repository: Repository) -> None:
    (repository.path / ".git").rename(repository.path / "away")
    (repository.path / ".git").symlink_to(FOLDER)


def commondir(repository: Repository) -> None:
    (repository.path / ".git/commondir").write_text(f"{FOLDER}\n")


def alternates(repository: Repository) -> None:
    (repository.path / ".git/objects/info/alternates").write_text(f"# one\n\n{FOLDER}\n")


def alternates_of_alternates(repository: Repository) -> None:
    second = repository.path.with_name("second")
    (second / "info").mkdir(parents=True)
    (second / "info/alternates").write_text(f"../../../../../../../../../../../..{FOLDER}\n")
    (repository.path / ".git/objects/info/alternates").write_text(f"{second}\n")


def symbolic(repository: Repository) -> None:
    """Git takes any name for one of a ref that a ref names."""
    (repository.path / ".git" / BRANCH).write_text("ref: elsewhere/it\n")
    (repository.path / ".git/elsewhere").symlink_to(FOLDER)


def by_a_link_of_old(repository: Repository) -> None:
    branch = repository.path / ".git" / BRANCH
    branch.unlink()
    branch.symlink_to("refs/heads/other")
    (repository.path / ".git/refs/heads/other").symlink_to(FILE)


def by_the_path(repository: Repository) -> None:
    repository.path.rename(repository.path.with_name("away"))
    repository.path.symlink_to(FOLDER)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (gitfile, "its .git"),
        (linked_git, "its .git"),
        (commondir, "its commondir"),
        (alternates, "its objects/info/alternates"),
        (alternates_of_alternates, "its objects/info/alternates"),
        (symbolic, "its elsewhere"),
        (by_a_link_of_old, "its refs/heads/other"),
        (by_the_path, "its path"),
    ],
)
def test_a_stranger_leads_git_nowhere_else(
    repository: Repository, change: Callable[[Repository], None], what: str
) -> None:
    change(repository)
    told = why(of_a_stranger, repository.path)
    assert told == f"{what} leads to nothing, or to what does not belong to the owner of the repository"


def test_a_folder_beside_it_is_not_taken_for_it(repository: Repository) -> None:
    """Git would find `name.git` where `name` is none, and read it as the service's own."""
    (repository.path / ".git").rename(repository.path.with_name("repository.git"))
    with pytest.raises(NoRepository):
        of_a_stranger(repository.path)
    (repository.path / ".git").mkdir()
    with pytest.raises(NoRepository):
        of_a_stranger(repository.path)


@pytest.mark.parametrize("name", ["../../x", "refs/heads/../../x", "/etc/passwd"])
def test_a_ref_names_nothing_outside(repository: Repository, name: str) -> None:
    (repository.path / ".git" / BRANCH).write_text(f"ref: {name}\n")
    assert why(of_a_friend, repository.path) == "its HEAD, or a ref that is followed, names what is no ref"


# The service's own links lead anywhere but into the state directory


@pytest.mark.parametrize("name", NAMES)
def test_a_link_leads_to_nothing_in_the_state_directory(repository: Repository, tmp_path: Path, name: str) -> None:
    (tmp_path / "state").mkdir()
    secret = tmp_path / "state/it"
    secret.write_text("")
    replace(repository.path / ".git", name, lambda path: path.symlink_to(secret))
    assert why(of_a_friend, repository.path, state=tmp_path / "state") == f"its {name} leads into `stateDir`"


@pytest.mark.parametrize("way", ["alternates", "gitfile", "commondir", "path", "link to it"])
def test_nothing_names_a_mirror(repository: Repository, tmp_path: Path, way: str) -> None:
    (tmp_path / "state/mirrors").mkdir(parents=True)
    mirror = repository.bare(tmp_path / "state/mirrors/one.git").path
    (tmp_path / "here").symlink_to(tmp_path / "state")  # the same folder by another name
    git, path, what = repository.path / ".git", repository.path, f"its {way}"
    match way:
        case "alternates":
            (git / "objects/info/alternates").write_text(f"{tmp_path}/here/mirrors/one.git/objects\n")
            what = "its objects/info/alternates"
        case "gitfile":
            git.rename(git.with_name("away"))
            git.write_text(f"gitdir: {mirror}\n")
            what = "its .git"
        case "commondir":
            (git / "commondir").write_text(f"{mirror}\n")
        case "path":
            path = mirror
        case _:
            path = tmp_path / "here/mirrors/one.git"
            what = "its path"
    assert why(of_a_friend, path, state=tmp_path / "here") == f"{what} leads into `stateDir`"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "commondir"])
def test_an_own_link_leads_anywhere_else(repository: Repository, tmp_path: Path, name: str) -> None:
    replace(repository.path / ".git", name, lambda path: path.symlink_to(FILE if name != BRANCH else "/nonexistent"))
    of_a_friend(repository.path, state=tmp_path / "state")


# What is neither a file nor a folder is not opened


@pytest.mark.parametrize("name", ["HEAD", ".git", *NAMES])
def test_a_pipe_is_not_waited_for(repository: Repository, name: str) -> None:
    git = repository.path / ".git"
    if name == ".git":
        git.rename(git.with_name("away"))
        os.mkfifo(git)
    else:
        replace(git, name, os.mkfifo)
    told = "is not a file" if name == "HEAD" else "is neither a file nor a folder"
    assert why(of_a_stranger, repository.path) == f"its {name} {told}"


@pytest.mark.parametrize("name", ["HEAD", "commondir", BRANCH, "info/alternates"])
def test_a_file_without_end_is_not_read(repository: Repository, name: str) -> None:
    replace(repository.path / ".git", name, lambda path: path.write_bytes(b"x" * (1 << 20)))
    assert why(of_a_friend, repository.path) == f"its {Path(name).name} is larger than 65536 bytes"


def test_more_than_a_repository_has_is_not_gone_through(repository: Repository, tmp_path: Path) -> None:
    stores = [tmp_path / f"store{number}" for number in range(MOST_STORES)]
    for store in stores:
        store.mkdir()
    (repository.path / ".git/objects/info/alternates").write_text("".join(f"{store}\n" for store in stores))
    assert why(of_a_friend, repository.path) == f"it has more than {MOST_STORES - 1} alternates"
    (repository.path / ".git/objects/info/alternates").unlink()
    for number in range(MOST_IN_STORE):
        (repository.path / f".git/objects/x{number}").touch()
    assert why(of_a_friend, repository.path) == f"its objects have more than {MOST_IN_STORE} entries"


# What is good


def worktree(repository: Repository) -> Path:
    return repository.worktree(repository.path.with_name("linked"), "next").path


def submodule(repository: Repository) -> Path:
    around = Repository.init(repository.path.with_name("around"))
    around.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository.path), "inner")
    return around.path / "inner"


def sharing(repository: Repository) -> Path:
    repository.git("clone", "--quiet", "--shared", ".", str(repository.path.with_name("sharing")))
    return repository.path.with_name("sharing")


def circular(repository: Repository) -> Path:
    """Each has the other's objects too."""
    other = sharing(repository)
    (repository.path / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    return other


def link(repository: Repository) -> Path:
    repository.path.with_name("link").symlink_to("repository")
    return repository.path.with_name("link")


def bare(repository: Repository) -> Path:
    return repository.bare(repository.path.with_name("bare.git")).path


def linked_head(repository: Repository) -> Path:
    """As git wrote it long ago."""
    head = repository.path / ".git/HEAD"
    head.unlink()
    head.symlink_to(BRANCH)
    return repository.path


def new_workdir(repository: Repository) -> Path:
    """As git's own `git-new-workdir` makes it."""
    place = repository.path.with_name("workdir")
    (place / ".git").mkdir(parents=True)
    shutil.copy(repository.path / ".git/HEAD", place / ".git/HEAD")
    for name in ("config", "refs", "objects", "info", "packed-refs"):
        (place / ".git" / name).symlink_to(repository.path / ".git" / name)
    (repository.path / ".git/packed-refs").touch()
    return place


@pytest.mark.parametrize("judge", [of_a_stranger, of_a_friend])
@pytest.mark.parametrize(
    "form",
    [worktree, submodule, sharing, circular, link, bare, linked_head, new_workdir],
    ids=lambda form: form.__name__,
)
def test_what_git_makes_is_good(
    repository: Repository, form: Callable[[Repository], Path], judge: Callable[..., None], tmp_path: Path
) -> None:
    judge(form(repository), state=tmp_path / "state")
