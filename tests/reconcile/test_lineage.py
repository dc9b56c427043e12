"""Lineage: which commit changed what, as it is told of every resource that came from Git."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import daemons, stores
from tests.daemons import Daemon, Followed, destination, until, watched
from tests.following import Follow
from tests.repositories import Repository

AUTHOR = "Ada Lovelace <ada@example.com>"


def changed_by_in(daemon: Daemon, name: str, project: str = "default") -> str | None:
    """The commit that is told to have changed a Destination, by now."""
    found = daemon.resource("Destination", name, project=project)
    told = None if found is None else found["status"]["source"].get("changedBy")
    return None if told is None else str(told["commit"])


def source_of(followed: Followed, name: str) -> dict[str, Any]:
    found = followed.destination(name)
    assert found is not None
    return dict(found["status"]["source"])


def changed_by(followed: Followed, name: str) -> str | None:
    return changed_by_in(followed.daemon, name, followed.project)


def explained(followed: Followed, *names: str) -> dict[str, str]:
    """The same for these, once it is known of all."""

    def look() -> dict[str, str] | None:
        found = {name: commit for name in names if (commit := changed_by(followed, name)) is not None}
        return found if len(found) == len(names) else None

    return until(look, f"the lineage of {names} is known")


def write(followed: Followed, name: str, description: str = "", *, path: str = "") -> str:
    """A commit that writes one Destination, which nobody has read yet."""
    followed.source.write(path or f"{name}.yaml", destination(name, description))
    return followed.source.commit()


def begun(follow: Follow, source: Repository) -> Followed:
    """A repository of one Destination, which is read, with its lineage."""
    source.write("first.yaml", destination("first"))
    source.commit()
    followed = follow(source, interval="1h")
    followed.head()
    explained(followed, "first")
    return followed


def applied(followed: Followed) -> None:
    """Have the head read, whichever commits lie between, as one run."""
    run = followed.daemon.reconcile(followed.name)
    assert (run["commit"], run["outcome"]) == (followed.source.head(), "succeeded")


def test_of_a_commit_is_told_with_its_author_and_date(follow: Follow, source: Repository) -> None:
    followed = begun(follow, source)
    commit = write(followed, "a")
    applied(followed)
    explained(followed, "a")
    assert source_of(followed, "a") == {
        "type": "git",
        "repository": followed.name,
        "branch": "main",
        "commit": commit,
        "author": AUTHOR,
        "date": "2023-11-14T22:15:20.000Z",
        "changedBy": {"commit": commit, "author": AUTHOR, "date": "2023-11-14T22:15:20.000Z"},
        "path": "a.yaml",
        "line": 1,
    }
    [version] = followed.daemon.history("Destination", "a", project=followed.project)
    assert version["status"]["source"] == source_of(followed, "a")


def several(followed: Followed) -> dict[str, str]:
    told = {name: write(followed, name) for name in "abc"}
    return told | {"b": write(followed, "b", "again")}


def hundred(followed: Followed) -> dict[str, str]:
    return {f"d{number}": write(followed, f"d{number}") for number in range(100)}


def merged(followed: Followed) -> dict[str, str]:
    source = followed.source
    source.git("switch", "--quiet", "--create", "side")
    theirs = write(followed, "theirs")
    source.switch("main")
    ours = write(followed, "ours")
    source.git("merge", "--quiet", "--no-ff", "--no-edit", "side")
    return {"theirs": theirs, "ours": ours}


def squashed(followed: Followed) -> dict[str, str]:
    source = followed.source
    source.git("switch", "--quiet", "--create", "side")
    write(followed, "a")
    write(followed, "b")
    source.switch("main")
    source.git("merge", "--quiet", "--squash", "side")
    commit = source.commit()
    return {"a": commit, "b": commit}


def reverted_between(followed: Followed) -> dict[str, str]:
    first, source = explained(followed, "first"), followed.source
    source.write("first.yaml", destination("first", "for a moment"))
    between = source.prepared(upon=source.head())
    source.write("first.yaml", destination("first"))
    source.lead_to(source.prepared(upon=between))  # at once: a watcher that sees what is between reads it
    return first


@pytest.mark.parametrize(
    "make", [several, pytest.param(hundred, marks=pytest.mark.slow), merged, squashed, reverted_between]
)
def test_names_the_commit_that_changed_each_file(
    follow: Follow, source: Repository, make: Callable[[Followed], dict[str, str]]
) -> None:
    followed = begun(follow, source)
    expected = make(followed)
    applied(followed)
    assert explained(followed, *expected) == expected


def test_of_an_older_version_stays(follow: Follow, source: Repository) -> None:
    followed = begun(follow, source)
    told = []
    for description in ("1", "2"):
        told.append(write(followed, "a", description))
        applied(followed)
        explained(followed, "a")
    versions = followed.daemon.history("Destination", "a", project=followed.project)
    assert [version["status"]["source"]["changedBy"]["commit"] for version in versions] == told[::-1]


def test_stays_that_of_the_version_when_the_file_moves(follow: Follow, source: Repository) -> None:
    followed = begun(follow, source)
    write(followed, "a")
    applied(followed)
    explained(followed, "a")
    before = source_of(followed, "a")
    source.move("a.yaml", "teams/a.yaml")
    source.commit()
    applied(followed)
    assert source_of(followed, "a") == before | {"path": "teams/a.yaml"}


def test_after_a_rewind_is_the_older_commit_that_gave_the_file_what_it_is_again(
    follow: Follow, source: Repository
) -> None:
    followed = begun(follow, source)
    first = write(followed, "a", "1")
    applied(followed)
    write(followed, "a", "2")
    applied(followed)
    source.rewind(first)
    applied(followed)
    assert (source_of(followed, "a")["commit"], explained(followed, "a")) == (first, {"a": first})


def test_of_what_could_not_be_stored_before_is_the_commit_that_wrote_it(follow: Follow, source: Repository) -> None:
    followed = begun(follow, source)
    source.write("a.yaml", destination("a").partition("  type:")[0] + "  type: mine\n")
    wrote = followed.source.commit()
    assert daemons.statuses(followed.daemon.reconcile(followed.name)) == {"a": "invalid"}
    source.write("type.yaml", "apiVersion: service/v1\nkind: DestinationType\nmetadata: {name: mine}\nspec: {}\n")
    gave = source.commit()
    applied(followed)
    assert (source_of(followed, "a")["commit"], explained(followed, "a")) == (gave, {"a": wrote})


def test_of_what_the_api_made_is_told_once_a_repository_holds_it(follow: Follow, source: Repository) -> None:
    followed = begun(follow, source)
    made = {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": "a", "description": ""}}
    followed.daemon.apply(made | {"spec": {"type": "webhook"}}, project=followed.project)
    commit = write(followed, "a")
    write(followed, "b")
    applied(followed)
    assert explained(followed, "a") == {"a": commit}
    [version] = followed.daemon.history("Destination", "a", project=followed.project)
    assert version["metadata"]["version"] == 1


def test_of_a_first_read_is_found_at_the_latest_afterwards(follow: Follow, source: Repository) -> None:
    commits = {}
    for number in range(30):
        source.write(f"d{number % 10}.yaml", destination(f"d{number % 10}", str(number)))
        commits[f"d{number % 10}"] = source.commit()
    followed = follow(source)
    followed.head()
    assert explained(followed, *commits) == commits
    for name in commits:
        [version] = followed.daemon.history("Destination", name, project=followed.project)
        assert version["status"]["source"] == source_of(followed, name)
    assert len(followed.daemon.runs(followed.name)) == 1


def test_of_a_first_read_is_found_of_the_file_as_it_was_although_it_moved_since(tmp_path: Path) -> None:
    """The search is put off by a killed process."""
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    first = source.commit()
    source.write("b.yaml", destination("b"))
    source.commit()
    daemon = Daemon(tmp_path / "daemon", repositories=[watched("telemetry", source.path)])
    try:
        without_search(daemon, source)
        source.move("a.yaml", "c.yaml")
        source.commit()
        daemon.start()
        assert until(lambda: changed_by_in(daemon, "a"), "the lineage is known") == first
        told = daemon.resource("Destination", "a")
        assert told is not None
        assert told["status"]["source"]["path"] == "c.yaml"
    finally:
        daemons.end(daemon)


def without_search(daemon: Daemon, source: Repository) -> None:
    """A first read, and what its search stored taken back, as if the process had ended before."""
    daemon.start()
    daemon.run_of("telemetry", source.head())
    daemon.stop()
    with stores.sql(daemon.state) as store:
        for number, head in store.execute("select id, head from origin"):
            told = json.loads(head + b"}")
            told.pop("changedBy", None)
            columns = "tail, actor, run, request, created_at from origin where id = ?"
            store.execute(f"insert into origin select -id, ?, {columns}", json.dumps(told).encode()[:-1], number)
        store.execute("update version set origin = -origin")
        store.execute("update resource set origin = -origin")


def test_that_was_not_found_before_a_restart_is_found_after_it(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    commits = {}
    for name in "abc":
        source.write(f"{name}.yaml", destination(name))
        commits[name] = source.commit()
    daemon = Daemon(tmp_path / "daemon", repositories=[watched("telemetry", source.path)])
    try:
        without_search(daemon, source)
        daemon.start()

        def found() -> bool:
            return {name: changed_by_in(daemon, name) for name in commits} == commits

        assert until(found, "the lineage is known")
        assert len(daemon.runs("telemetry")) == 1
    finally:
        daemons.end(daemon)


def test_of_what_passes_to_another_repository_stays_that_of_the_version(
    follow: Follow, source: Repository, tmp_path: Path
) -> None:
    first = begun(follow, source)
    write(first, "a")
    applied(first)
    other = Repository.init(tmp_path / "other")
    other.write("deep/a.yaml", destination("a"))
    other.commit()
    other.write("b.yaml", destination("b"))
    other.commit()
    wrote = source.head()
    second = follow(other, interval="1h", project=first.project)
    second.project = first.project
    second.head()
    source.remove("a.yaml")
    source.commit()
    applied(first)
    until(lambda: source_of(second, "a")["repository"] == second.name, "it passes on")
    assert explained(second, "a") == {"a": wrote}
