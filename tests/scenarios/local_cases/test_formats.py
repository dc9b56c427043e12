"""Other forms of repositories on this machine: each is followed, or its state says exactly why not and what to do."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import needs
from tests.daemons import Followed, destination, statuses, until
from tests.following import Follow
from tests.repositories import Repository
from tests.scenarios.local_cases.expectations import OFTEN, recovers, stays

NOBODY = 65534


def two(repository: Repository) -> Repository:
    """The two resources that each case follows."""
    repository.write("teams/a.yaml", destination("a"))
    repository.write("b.yaml", destination("b"))
    repository.commit()
    return repository


def clone(source: Repository, path: Path, *options: str) -> Repository:
    """A clone as another program makes one, over a protocol."""
    source.git("config", "uploadpack.allowFilter", "true")
    source.git("clone", "--quiet", *options, f"file://{source.path}", str(path))
    return source.at(path)


def is_watched(followed: Followed) -> None:
    """A commit is seen at once, by its event: the next poll is an hour away."""
    followed.write("b.yaml", destination("b", "watched"))
    run = followed.commit()
    assert (run["trigger"], statuses(run)) == ("watch", {"b": "configured"})


# What works


def ordinary(filled: Repository) -> Repository:
    return filled


def worktree(filled: Repository) -> Repository:
    return filled.worktree(filled.path.with_name("linked"), "next")


def worktree_with_relative_links(filled: Repository) -> Repository:
    linked = worktree(filled)
    (linked.path / ".git").write_text("gitdir: ../source/.git/worktrees/linked\n")
    return linked


def submodule(filled: Repository) -> Repository:
    """Its `.git` is a file that names a folder in the repository around it."""
    around = Repository.init(filled.path.with_name("around"))
    around.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(filled.path), "inner")
    return filled.at(around.path / "inner")


def alternates(filled: Repository) -> Repository:
    """It has no objects of its own."""
    filled.git("clone", "--quiet", "--shared", ".", str(filled.path.with_name("sharing")))
    return filled.at(filled.path.with_name("sharing"))


def packed(filled: Repository) -> Repository:
    filled.git("gc", "--quiet", "--prune=now")
    assert (filled.path / ".git/packed-refs").exists()
    return filled


def shallow(filled: Repository) -> Repository:
    filled.commit()
    cut = clone(filled, filled.path.with_name("shallow"), "--depth=1")
    assert (cut.path / ".git/shallow").exists()
    return cut


def partial_with_everything(filled: Repository) -> Repository:
    """Its remote was asked for less, and what is missing was fetched since."""
    part = clone(filled, filled.path.with_name("partial"), "--filter=blob:none", "--no-checkout")
    part.git("fetch", "--quiet", "--refetch", "--no-filter", "origin")
    part.git("checkout", "--quiet", "main")
    return part


def link_to_it(filled: Repository) -> Repository:
    link = filled.path.with_name("link")
    link.symlink_to(filled.path)
    return filled.at(link)


FORMS = [
    worktree,
    shallow,
    *(
        pytest.param(form, marks=pytest.mark.slow)
        for form in (worktree_with_relative_links, submodule, alternates, packed, partial_with_everything, link_to_it)
    ),
]


@pytest.mark.parametrize("form", FORMS)
def test_it_is_followed_from_commit_to_commit(
    form: Callable[[Repository], Repository], filled: Repository, follow: Follow
) -> None:
    source = form(filled)
    followed = follow(source, interval="1h", branch=source.git("symbolic-ref", "--short", "HEAD"))
    assert followed.head()["counts"] == {"created": 2}
    is_watched(followed)
    recovers(followed)


@pytest.mark.slow
def test_a_bare_repository_is_followed_from_push_to_push(filled: Repository, tmp_path: Path, follow: Follow) -> None:
    followed = follow(filled.bare(tmp_path / "bare.git"), interval="1h")
    assert followed.head()["counts"] == {"created": 2}
    filled.remove("b.yaml")
    filled.commit()
    filled.push()
    run = followed.head()
    assert (run["trigger"], run["counts"]) == ("watch", {"deleted": 1})


def test_a_commit_in_the_main_repository_is_seen_where_its_worktree_is_followed(
    filled: Repository, follow: Follow
) -> None:
    linked = worktree(filled)
    followed = follow(linked, interval="1h", branch="main")
    assert followed.daemon.run_of(followed.name, filled.head())["counts"] == {"created": 2}
    filled.write("b.yaml", destination("b", "in the main repository"))
    run = followed.daemon.run_of(followed.name, filled.commit())
    assert (run["trigger"], run["counts"]) == ("watch", {"configured": 1})
    linked.write("b.yaml", destination("b", "in the worktree"))
    commit = linked.commit()
    followed.change(interval="1h", branch="next")
    assert followed.daemon.run_of(followed.name, commit)["counts"] == {"unchanged": 1, "configured": 1}


def test_a_shallow_clone_that_is_deepened_and_pulled_goes_on(filled: Repository, follow: Follow) -> None:
    cut = shallow(filled)
    followed = follow(cut, interval=OFTEN)
    assert followed.head()["counts"] == {"created": 2}
    filled.write("b.yaml", destination("b", "pulled"))
    filled.commit()
    cut.git("pull", "--quiet", "--unshallow")
    run = followed.head()
    assert (run["counts"], run["rewound"], run["outcome"]) == ({"configured": 1}, False, "succeeded")
    recovers(followed)


@pytest.mark.slow
def test_a_shallow_clone_that_leaves_a_gap_goes_on_under_the_budget(filled: Repository, follow: Follow) -> None:
    """The common part of two cut histories is not known, so that it is not said that they have nothing."""
    cut = shallow(filled)
    followed = follow(cut, interval=OFTEN)
    assert followed.head()["counts"] == {"created": 2}
    filled.commit()
    filled.write("b.yaml", destination("b", "beyond the gap"))
    filled.commit()
    cut.git("fetch", "--quiet", "--depth=1", "origin", "main")
    cut.git("reset", "--quiet", "--hard", "FETCH_HEAD")
    run = followed.head()
    assert (run["outcome"], run["counts"]) == ("succeeded", {"configured": 1})
    cut.git("fetch", "--quiet", "--unshallow", "origin")
    recovers(followed)


# What does not


def test_a_partial_clone_that_lacks_files_says_how_to_get_them(filled: Repository, follow: Follow) -> None:
    part = clone(filled, filled.path.with_name("partial"), "--filter=blob:none", "--no-checkout")
    followed = follow(part, interval=OFTEN)
    shown = followed.daemon.state_of(followed.name, "unsupported-format")
    assert shown["message"] == (
        f"{part.path} is a partial clone that lacks objects of its history; "
        "fetch them there with `git fetch --refetch --no-filter`, or clone it whole"
    )
    assert followed.names() == []
    part.git("fetch", "--quiet", "--refetch", "--no-filter", "origin")
    part.git("checkout", "--quiet", "main")
    recovers(followed)


@pytest.mark.slow
def test_a_repository_of_sha256_names_says_that_it_must_be_converted(
    filled: Repository, tmp_path: Path, follow: Follow
) -> None:
    place = tmp_path / "place"
    other = two(Repository.init(place, object_format="sha256"))
    followed = follow(other, interval=OFTEN)
    shown = followed.daemon.state_of(followed.name, "unsupported-format")
    assert shown["message"] == (f"{other.path} uses SHA-256 object names, which are not supported; convert it to SHA-1")
    assert followed.names() == []
    place.rename(tmp_path / "away")
    filled.git("clone", "--quiet", ".", str(place))
    assert followed.head()["counts"] == {"created": 2}
    recovers(followed)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "refStorage",
            "reftable",
            "uses a repository format or extension that the installed git does not know, reftable for instance;"
            " upgrade git",
        ),
        (
            "hovering",
            "true",
            "uses a repository format or extension that the installed git does not know, reftable for instance;"
            " upgrade git",
        ),
    ],
)
@pytest.mark.slow
def test_an_extension_that_the_installed_git_does_not_know_says_so(
    followed: Followed, key: str, value: str, told: str
) -> None:
    source = followed.source
    source.git("config", "core.repositoryFormatVersion", "1")
    source.git("config", f"extensions.{key}", value)
    stays(followed, "unsupported-format", f"{source.path} {told}")
    source.git("config", "--file", ".git/config", "--unset", f"extensions.{key}")
    recovers(followed)


@pytest.mark.slow
def test_an_object_that_fails_the_checks_of_git_is_named(followed: Followed) -> None:
    source = followed.source
    head, blob = source.head(), source.blob(b"x")
    source.commit_tree(source.tree(("100644", b"z", blob), ("100644", b"a", blob)))
    shown = followed.daemon.state_of(followed.name, "unsupported-format")
    assert "treeNotSorted" in shown["message"]
    assert followed.versions() == {"a": 1, "b": 1}
    source.rewind(head)
    recovers(followed)


@pytest.mark.slow
def test_objects_that_the_repository_has_lost_delete_nothing_until_they_are_back(followed: Followed) -> None:
    source = followed.source
    source.write("b.yaml", destination("b", "lost"))
    blob = source.blob((source.path / "b.yaml").read_bytes())
    lost = source.path / ".git/objects" / blob[:2] / blob[2:]
    commit = source.git("commit-tree", "-m", "Change", "-p", "HEAD", staged(source))
    lost.rename(lost.with_name("kept"))
    source.git("update-ref", "refs/heads/main", commit)
    shown = followed.daemon.state_of(followed.name, "unreachable")
    assert shown["message"].startswith(f"{source.path} cannot be read (")
    assert followed.versions() == {"a": 1, "b": 1}
    lost.with_name("kept").rename(lost)
    until(lambda: followed.state()["commit"] == commit, "it is read whole")
    assert followed.versions() == {"a": 1, "b": 2}
    recovers(followed)


def staged(source: Repository) -> str:
    """The tree of what is in the working tree."""
    source.git("add", "--all")
    return source.git("write-tree")


@pytest.mark.slow
def test_a_worktree_whose_main_repository_is_gone_is_told(filled: Repository, follow: Follow) -> None:
    linked = worktree(filled)
    followed = follow(linked, interval=OFTEN, branch="next")
    assert followed.daemon.run_of(followed.name, linked.head())["counts"] == {"created": 2}
    away = filled.path.with_name("away")
    filled.path.rename(away)
    stays(followed, "unreachable", f"{linked.path} is not a Git repository; make one there, or correct `url`")
    away.rename(filled.path)
    recovers(followed)


# A repository of another user


def give_away(*places: Path) -> None:
    """Let them belong to another user."""
    needs.require_root()
    for place in places:
        for path in (place, *place.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.mark.parametrize("form", [ordinary, pytest.param(link_to_it, marks=pytest.mark.slow)])
def test_a_repository_of_another_user_is_followed(
    form: Callable[[Repository], Repository], filled: Repository, follow: Follow
) -> None:
    source, commit = form(filled), filled.head()
    give_away(filled.path, source.path)
    followed = follow(source, interval=OFTEN)
    assert followed.daemon.run_of(followed.name, commit)["counts"] == {"created": 2}


@pytest.mark.slow
def test_a_linked_worktree_of_another_user_says_why_it_is_not_read(filled: Repository, follow: Follow) -> None:
    source = worktree(filled)
    give_away(filled.path, source.path)
    followed = follow(source, interval=OFTEN)
    why = "its .git leads elsewhere, and another user wrote it; let its owner mend that, or correct `url`"
    stays(followed, "unreachable", f"{source.path} is not read, since {why}")


@pytest.mark.slow
def test_a_repository_of_another_user_is_trusted_at_exactly_the_configured_path(
    filled: Repository, follow: Follow
) -> None:
    """Git finds `name.git` where `name` is configured, and that is another folder than the one that is trusted."""
    bare, commit = filled.bare(filled.path.with_name("name.git")), filled.head()
    give_away(bare.path)
    followed = follow(filled.at(filled.path.with_name("name")), interval=OFTEN)
    shown = followed.daemon.state_of(followed.name, "unreachable")
    assert shown["message"] == f"{followed.source.path} does not exist; put it there, or correct `url`"
    assert followed.names() == []
    followed.source = bare
    followed.change(interval=OFTEN)
    assert followed.daemon.run_of(followed.name, commit)["counts"] == {"created": 2}
