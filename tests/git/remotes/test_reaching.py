"""The places to which a repository on this machine may lead git."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.git.remotes.local_repositories import MOST_IN_STORE, MOST_STORES, Astray, LocalRepository, NoRepository
from tests import needs
from tests.repositories import Repository

NOBODY = 65534
SOMEBODY = 4242  # whose the service is, where the files are a stranger's
FOLDER = Path("/etc")  # root's, on every machine
BRANCH = "refs/heads/main"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository.init(tmp_path / "repository")
    repository.commit()
    return repository


def of_a_stranger(path: Path, *, state: Path | None = None) -> None:
    """Judge a repository whose files, links included, are not the service's own."""
    needs.require_root()
    for place in (path.parent, *path.parent.rglob("*")):
        os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
    LocalRepository(path, reader=SOMEBODY, state=state).folders()


def of_a_friend(path: Path, *, state: Path | None = None) -> None:
    """Judge a repository of the service's own user."""
    LocalRepository(path, reader=os.geteuid(), state=state).folders()


def why(judge: Callable[..., None], path: Path, *, state: Path | None = None) -> str:
    with pytest.raises(Astray) as astray:
        judge(path, state=state)
    return str(astray.value)


# What a stranger wrote leads nowhere


def gitfile(repository: Repository) -> None:
    (repository.path / ".git").rename(repository.path / "away")
    (repository.path / ".git").write_text(f"gitdir: {repository.path}/away\n")


def linked_git(repository: Repository) -> None:
    (repository.path / ".git").rename(repository.path / "away")
    (repository.path / ".git").symlink_to("away")


def commondir(repository: Repository) -> None:
    (repository.path / ".git/commondir").write_text(f"{FOLDER}\n")


def alternates(repository: Repository) -> None:
    (repository.path / ".git/objects/info/alternates").write_text(f"# one\n\n{FOLDER}\n")


def linked_alternates(repository: Repository) -> None:
    (repository.path / ".git/objects/info/alternates").symlink_to("/nonexistent")


def linked(name: str) -> Callable[[Repository], None]:
    def change(repository: Repository) -> None:
        place = repository.path / ".git" / name
        if place.is_dir():
            place.rename(repository.path / "kept")
        place.symlink_to(repository.path / "kept")

    return change


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (gitfile, ".git"),
        (linked_git, ".git"),
        (commondir, "commondir"),
        (alternates, "alternates"),
        (linked_alternates, "alternates"),
        (linked("objects"), "objects"),
        (linked("objects/pack"), "pack"),
        (linked("objects/info"), "info"),
        (linked("objects/ab"), "ab"),
    ],
)
def test_a_stranger_leads_git_nowhere_else(
    repository: Repository, change: Callable[[Repository], None], what: str
) -> None:
    change(repository)
    assert why(of_a_stranger, repository.path) == f"its {what} leads elsewhere, and another user wrote it"


def test_a_strangers_file_in_a_repository_of_ones_own_leads_nowhere_either(repository: Repository) -> None:
    needs.require_root()
    alternates(repository)
    os.chown(repository.path / ".git/objects/info/alternates", NOBODY, NOBODY)
    assert why(of_a_friend, repository.path) == "its alternates leads elsewhere, and another user wrote it"


def link_beside(place: Path, target: str) -> Path:
    place.symlink_to(target)
    return place


def test_a_path_goes_through_links_of_the_owner_of_what_they_lead_to(repository: Repository) -> None:
    link = link_beside(repository.path.with_name("link"), "repository")
    of_a_friend(link)
    of_a_stranger(link)
    of_a_stranger(link_beside(repository.path.with_name("second"), "link"))
    of_a_friend(link)  # of another user, to what belongs to that user


def test_a_path_through_a_link_of_another_user_leads_to_nothing_else(repository: Repository, tmp_path: Path) -> None:
    """Else any user could name the repository of another one, and have it read."""
    needs.require_root()
    (tmp_path / "folder").mkdir()
    link = link_beside(tmp_path / "folder/link", str(repository.path))
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    told = "its path goes through a link to what does not belong to the owner of the link"
    assert why(of_a_friend, link) == told
    assert why(of_a_friend, link_beside(tmp_path / "by", "folder/link")) == told
    assert why(of_a_friend, link_beside(tmp_path / "over", "folder") / "link") == told
    assert why(of_a_friend, tmp_path / "folder/../folder/link") == told


def test_a_path_of_many_links_is_judged_at_once(repository: Repository, tmp_path: Path) -> None:
    """Each of them leads through all that come before it."""
    path = tmp_path / "links"
    path.mkdir()
    for number in range(20):
        path = link_beside(path / f"link{number}", ".")
    (tmp_path / "links/it").symlink_to(repository.path)
    of_a_friend(path / "it")


def test_a_path_of_links_in_a_circle_leads_nowhere(tmp_path: Path) -> None:
    link_beside(tmp_path / "one", "two")
    link_beside(tmp_path / "two", "one")
    with pytest.raises(OSError, match="symbolic links"):
        of_a_friend(tmp_path / "one")


def test_a_folder_beside_it_is_not_taken_for_it(repository: Repository) -> None:
    """Git would find `name.git` where `name` is none, and read it as the service's own."""
    (repository.path / ".git").rename(repository.path.with_name("repository.git"))
    with pytest.raises(NoRepository):
        of_a_stranger(repository.path)
    (repository.path / ".git").mkdir()
    with pytest.raises(NoRepository):
        of_a_stranger(repository.path)
    shutil.copytree(repository.path.with_name("repository.git"), repository.path / ".git", dirs_exist_ok=True)
    (repository.path / ".git/HEAD").write_text("nonsense")
    with pytest.raises(NoRepository):
        of_a_stranger(repository.path)


# The service's own links lead anywhere but into the state directory


@pytest.mark.parametrize("way", ["alternates", "gitfile", "commondir", "objects", "path", "link to it"])
def test_nothing_names_a_mirror(repository: Repository, tmp_path: Path, way: str) -> None:
    (tmp_path / "state/mirrors").mkdir(parents=True)
    mirror = repository.bare(tmp_path / "state/mirrors/one.git").path
    (tmp_path / "here").symlink_to(tmp_path / "state")  # the same folder by another name
    git, path = repository.path / ".git", repository.path
    match way:
        case "alternates":
            (git / "objects/info/alternates").write_text(f"{tmp_path}/here/mirrors/one.git/objects\n")
        case "gitfile":
            git.rename(git.with_name("away"))
            git.write_text(f"gitdir: {mirror}\n")
        case "commondir":
            (git / "commondir").write_text(f"{mirror}\n")
        case "objects":
            shutil.rmtree(git / "objects")
            (git / "objects").symlink_to(mirror / "objects")
        case "path":
            path = mirror
        case _:
            path = tmp_path / "here/mirrors/one.git"
    assert why(of_a_friend, path, state=tmp_path / "here") == "its objects are in `stateDir`"


# What is neither a file nor a folder is not opened


@pytest.mark.parametrize("name", [".git", "HEAD", "commondir", "objects/info/alternates"])
def test_a_pipe_is_not_waited_for(repository: Repository, name: str) -> None:
    git = repository.path / ".git"
    place = git if name == ".git" else git / name
    if name == ".git":
        git.rename(git.with_name("away"))
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    assert why(of_a_friend, repository.path) == f"its {place.name} is not a file"


@pytest.mark.parametrize("name", ["HEAD", "commondir", "objects/info/alternates"])
def test_a_file_without_end_is_not_read(repository: Repository, name: str) -> None:
    (repository.path / ".git" / name).write_bytes(b"x" * (1 << 20))
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


def bare(repository: Repository) -> Path:
    return repository.bare(repository.path.with_name("bare.git")).path


def new_workdir(repository: Repository) -> Path:
    """As git's own `git-new-workdir` makes it."""
    place = repository.path.with_name("workdir")
    (place / ".git").mkdir(parents=True)
    shutil.copy(repository.path / ".git/HEAD", place / ".git/HEAD")
    for name in ("config", "refs", "objects", "info", "packed-refs"):
        (place / ".git" / name).symlink_to(repository.path / ".git" / name)
    (repository.path / ".git/packed-refs").touch()
    return place


@pytest.mark.parametrize(
    "form", [worktree, submodule, sharing, circular, bare, new_workdir], ids=lambda form: form.__name__
)
def test_what_git_makes_is_good(repository: Repository, form: Callable[[Repository], Path], tmp_path: Path) -> None:
    of_a_friend(form(repository), state=tmp_path / "state")


@pytest.mark.parametrize("form", [lambda repository: repository.path, bare], ids=["ordinary", "bare"])
def test_what_leads_nowhere_is_good_of_a_stranger(
    repository: Repository, form: Callable[[Repository], Path], tmp_path: Path
) -> None:
    of_a_stranger(form(repository), state=tmp_path / "state")
