"""Changes of a head: branches that vanish, folders that move away, rewritten history, other settings."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests import daemons
from tests.daemons import Daemon, Followed, destination, statuses, until
from tests.following import Follow
from tests.repositories import Repository


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    """Two resources, polled often, so that nothing waits."""
    source.write("teams/a.yaml", destination("a"))
    source.write("b.yaml", destination("b"))
    source.commit()
    followed = follow(source, interval="200ms")
    assert followed.head()["counts"] == {"created": 2}
    return followed


def stays(followed: Followed, state: str, message: str, *, outcome: str = "failed") -> None:
    """The repository comes into this state, says why, and everything stays."""

    def told() -> dict[str, Any] | None:
        shown = followed.state()
        return shown if shown["message"] == message else None

    # A poll that was under way may see the change half, and say something else until the next one.
    shown = until(told, message)
    assert (shown["state"], shown["commit"] is not None) == (state, True)
    assert followed.versions() == {"a": 1, "b": 1}
    [newest, *_] = followed.daemon.runs(followed.name)
    assert (newest["outcome"], newest["message"], newest["counts"]) == (outcome, message, {})


def test_a_branch_that_vanishes_deletes_nothing_until_it_is_back(followed: Followed) -> None:
    source = followed.source
    source.branch("kept")
    source.delete_branch("main")
    stays(followed, "branch-missing", f"{source.path} has no branch main; name another with `branch`")
    before = len(followed.daemon.runs(followed.name))
    time.sleep(0.6)  # three polls
    assert len(followed.daemon.runs(followed.name)) == before  # the same fault again is no news
    source.git("update-ref", "refs/heads/main", "kept")
    followed.daemon.state_of(followed.name, "ready")
    source.write("b.yaml", destination("b", "edited"))
    assert followed.commit()["counts"] == {"configured": 1}


def test_a_folder_that_is_gone_deletes_nothing_until_it_is_back(followed: Followed) -> None:
    path = followed.source.path
    away = path.with_name("away")
    path.rename(away)
    stays(followed, "unreachable", f"{path} does not exist; put it there, or correct `url`")
    away.rename(path)
    followed.daemon.state_of(followed.name, "ready")
    followed.source.remove("b.yaml")
    assert followed.commit()["counts"] == {"deleted": 1}


def test_a_folder_that_is_no_repository_any_more_deletes_nothing(followed: Followed) -> None:
    path = followed.source.path
    shutil.rmtree(path / ".git")
    stays(followed, "unreachable", f"{path} is not a Git repository; make one there, or correct `url`")


def test_a_repository_without_commits_is_empty_and_deletes_nothing(followed: Followed) -> None:
    path = followed.source.path
    shutil.rmtree(path)
    fresh = Repository.init(path)
    stays(followed, "empty", f"{path} has no commit yet; commit something to it")
    fresh.write("b.yaml", destination("b", "anew"))
    run = followed.daemon.run_of(followed.name, fresh.commit())
    # Whatever begins there is another history.
    assert (run["counts"], run["outcome"], run["rewound"]) == ({"configured": 1}, "refused", True)
    assert followed.versions() == {"a": 1, "b": 1}
    assert followed.approve()["counts"] == {"configured": 1, "deleted": 1}
    assert followed.versions() == {"b": 2}


def test_a_path_that_is_missing_deletes_nothing_until_it_is_there(followed: Followed) -> None:
    head = followed.source.head()
    followed.change(interval="200ms", path="elsewhere")
    message = f"there is no folder elsewhere in the commit {head[:12]}; add it, or correct `path`"
    stays(followed, "path-missing", f"{message}. Until then nothing is deleted (2 would go).", outcome="partial")
    followed.write("elsewhere/c.yaml", destination("c"))
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("succeeded", {"created": 1, "deleted": 2})
    assert followed.names() == ["c"]


def test_another_path_reads_everything_again(followed: Followed) -> None:
    followed.change(path="teams")
    daemons.until(lambda: len(followed.daemon.runs(followed.name)) == 2, "the folder alone is read")
    run = followed.head()
    assert (run["trigger"], run["outcome"], run["counts"]) == ("reload", "succeeded", {"unchanged": 1, "deleted": 1})
    followed.source.write("b.yaml", "outside: [")
    followed.source.write("teams/c.yaml", destination("c"))
    assert followed.commit()["counts"] == {"created": 1}
    assert followed.names() == ["a", "c"]


def test_only_files_that_are_included_and_not_excluded_count(source: Repository, follow: Follow) -> None:
    for path in ("c/a.yaml", "c/web/b.yaml", "c/web/drafts/d.yaml", "e.yaml"):
        source.write(path, destination(path.removesuffix(".yaml").replace("/", "-")))
    source.write("c/broken.yaml", "nobody reads: [this")
    source.commit()
    followed = follow(source, path="c", include=["/web/"], exclude=["drafts/"], interval="200ms")
    assert statuses(followed.head()) == {"c-web-b": "created"}
    followed.change(path="c", include=["/web/", "/a.yaml"], exclude=["b.yaml"], interval="200ms")
    run = followed.daemon.finished(followed.daemon.reconcile(followed.name)["id"])
    assert (run["outcome"], followed.names()) == ("succeeded", ["c-a", "c-web-drafts-d"])


def test_a_link_in_place_of_an_included_folder_deletes_nothing(source: Repository, follow: Follow) -> None:
    source.write("web/a.yaml", destination("a"))
    source.write("b.yaml", destination("b"))
    source.commit()
    followed = follow(source, include=["/web/*.yaml", "b.yaml"])
    assert followed.head()["counts"] == {"created": 2}
    shutil.move(source.path / "web", source.path / "elsewhere")
    source.link("web", "elsewhere")
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("partial", {})
    assert followed.state()["state"] == "prune-held"
    assert followed.names() == ["a", "b"]


def test_another_branch_is_followed(followed: Followed) -> None:
    source = followed.source
    source.branch("next")
    source.switch("next")
    source.write("b.yaml", destination("b", "next"))
    commit = source.commit()
    followed.change(branch="next")
    run = followed.daemon.run_of(followed.name, commit)
    assert (run["counts"], run["rewound"]) == ({"unchanged": 1, "configured": 1}, False)
    stored = followed.destination("b")
    assert stored is not None
    assert stored["status"]["source"]["branch"] == "next"


def test_another_project_gets_everything_and_the_former_one_is_free(followed: Followed) -> None:
    daemon, former = followed.daemon, followed.project
    followed.change(project=f"{former}-other")
    followed.project = f"{former}-other"
    daemons.until(lambda: followed.versions() == {"a": 1, "b": 1}, "the other project has everything")
    assert daemon.delete("/v1/resources/Destination/a", project=former).status == 204
    assert followed.versions() == {"a": 1, "b": 1}


def test_history_that_was_rewritten_is_told_and_followed(followed: Followed) -> None:
    source = followed.source
    first = source.head()
    source.write("c.yaml", destination("c"))
    assert followed.commit()["rewound"] is False
    source.rewind(first)
    run = daemons.until(lambda: _newest(followed, first), "the first commit is read again")
    assert (run["rewound"], statuses(run)) == (True, {"c": "deleted"})
    source.restart()
    source.write("b.yaml", destination("b", "unrelated"))
    run = followed.commit()
    assert (run["rewound"], run["outcome"], run["counts"]) == (True, "refused", {"configured": 1})
    assert followed.versions() == {"a": 1, "b": 1}
    run = followed.approve()
    assert (run["rewound"], run["outcome"], statuses(run)) == (True, "succeeded", {"b": "configured"})
    assert followed.versions() == {"a": 1, "b": 2}


def _newest(followed: Followed, commit: str) -> dict[str, object] | None:
    [newest, *_] = followed.daemon.runs(followed.name)
    return followed.daemon.run(newest["id"]) if newest["commit"] == commit else None


def test_a_bare_repository_that_is_pushed_to_is_followed(source: Repository, tmp_path: Path, follow: Follow) -> None:
    source.write("a.yaml", destination("a"))
    source.commit()
    bare = source.bare(tmp_path / "bare.git")
    followed = follow(bare)
    assert followed.head()["counts"] == {"created": 1}
    source.write("a.yaml", destination("a", "pushed"))
    source.commit()
    source.push()
    run = followed.head()
    assert (run["trigger"], run["counts"]) == ("watch", {"configured": 1})


def test_a_suspended_repository_is_not_polled(followed: Followed) -> None:
    followed.change(suspend=True)
    followed.daemon.state_of(followed.name, "suspended")
    followed.source.remove("b.yaml")
    commit = followed.source.commit()
    time.sleep(0.3)
    assert followed.names() == ["a", "b"]
    followed.change(suspend=False)
    assert followed.daemon.run_of(followed.name, commit)["counts"] == {"deleted": 1}


def test_a_restart_does_no_work_and_makes_no_run(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    source.write("bad.yaml", "a: [")
    commit = source.commit()
    repositories = [daemons.watched("telemetry", source.path, interval="100ms")]
    with daemons.running(tmp_path / "daemon", repositories=repositories) as daemon:
        daemon.run_of("telemetry", commit)
        until(lambda: "changedBy" in daemon.resources("Destination")[0]["status"]["source"], "the change is known")
        until(lambda: daemon.repository("telemetry")["applied"], "the facts of the commit are known")
        before = _everything(daemon)
        daemon.restart()
        time.sleep(0.3)
        # The facts of a commit are read a moment after the start.
        until(lambda: _everything(daemon) == before, "everything is as before")


def _everything(daemon: Daemon) -> list[object]:
    return [daemon.runs(), daemon.resources("Destination"), daemon.repository("telemetry")]


def test_a_branch_that_was_gone_with_all_others_is_ready_again_when_it_is_back(
    source: Repository, follow: Follow
) -> None:
    source.write("a.yaml", destination("a"))
    head = source.commit()
    followed = follow(source, interval="100ms")
    followed.head()
    source.git("update-ref", "-d", "refs/heads/main")
    followed.daemon.state_of(followed.name, "empty")
    source.git("update-ref", "refs/heads/main", head)
    assert followed.daemon.state_of(followed.name, "ready")["message"] is None
