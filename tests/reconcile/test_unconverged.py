"""Documents of the head that are not stored: every run reports them, until they are corrected or let in."""

import os
import signal
from pathlib import Path
from unittest.mock import ANY

import pytest

from tests import daemons, stores
from tests.daemons import Followed, destination, statuses, until
from tests.following import Follow, holding
from tests.repositories import Repository

INVALID = destination("bad").replace("type: otlp", "type: 5")
STOPS_THE_READER = True
NOT_STORED = "Not stored as the head says: 1 invalid; the run names them."


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    """One valid and one invalid resource."""
    source.write("good.yaml", destination("good"))
    source.write("bad.yaml", INVALID)
    source.commit()
    followed = follow(source)
    run = followed.head()
    assert (run["outcome"], run["counts"], run["message"]) == ("partial", {"created": 1, "invalid": 1}, NOT_STORED)
    return followed


def test_a_run_that_somebody_asks_for_tells_it_again(followed: Followed) -> None:
    run = followed.daemon.reconcile(followed.name)
    assert (run["outcome"], run["counts"]) == ("partial", {"invalid": 1})
    assert statuses(run) == {"bad": "invalid"}
    assert "bad.yaml:" in run["statuses"][0]["reason"]
    assert (followed.state()["state"], followed.state()["message"]) == ("ready", NOT_STORED)


def test_a_commit_that_does_not_touch_it_tells_it_again(followed: Followed) -> None:
    followed.source.write("notes.txt", "nothing of ours")
    run = followed.commit()
    assert (run["outcome"], run["counts"], run["message"]) == ("partial", {"invalid": 1}, NOT_STORED)
    followed.write("good.yaml", destination("good", "edited"))
    assert followed.commit()["counts"] == {"configured": 1, "invalid": 1}


def test_mending_it_ends_it(followed: Followed) -> None:
    followed.write("bad.yaml", destination("bad"))
    run = followed.commit()
    assert (run["outcome"], run["counts"], run["message"]) == ("succeeded", {"created": 1}, None)
    assert followed.state()["message"] is None


def test_a_refused_commit_stays_refused_however_often_one_asks(source: Repository, follow: Follow) -> None:
    source.write("good.yaml", destination("good"))
    first = source.commit()
    followed = follow(source, atomic=True)
    followed.head()
    source.write("bad.yaml", INVALID)
    source.write("good.yaml", destination("good", "edited"))
    message = "The commit is refused as a whole, since the repository is atomic: 1 invalid; nothing of it was stored."
    run = followed.commit()
    for told in (run, followed.daemon.reconcile(followed.name)):
        assert (told["outcome"], told["message"], statuses(told)["bad"]) == ("refused", message, "invalid")
    state = followed.state()
    assert (state["state"], state["commit"], state["message"]) == ("ready", first, message)
    assert followed.versions() == {"good": 1}


@pytest.mark.parametrize("description", ["", "differs"])
def test_what_one_repository_gives_up_another_that_holds_it_takes_over(
    tmp_path: Path, source: Repository, follow: Follow, description: str
) -> None:
    source.write("a.yaml", destination("a"))
    source.write("shared.yaml", destination("shared"))
    source.commit()
    first = follow(source)
    first.head()
    other = Repository.init(tmp_path / "other")
    other.write("shared.yaml", destination("shared", description))
    other.commit()
    second = follow(other, project=first.project)
    second.head()
    source.remove("shared.yaml")
    assert first.commit()["counts"] == {"unchanged": 1}
    until(lambda: second.state()["message"] is None, "the other repository has nothing to tell any more")
    stored = first.destination("shared")
    assert stored is not None
    assert (stored["metadata"].get("description", ""), stored["status"]["source"]["repository"]) == (
        description,
        second.name,
    )


def test_a_change_that_lets_nothing_in_makes_no_run(tmp_path: Path, source: Repository, follow: Follow) -> None:
    source.write("shared.yaml", destination("shared"))
    source.commit()
    first = follow(source)
    first.head()
    other = Repository.init(tmp_path / "other")
    other.write("shared.yaml", destination("shared", "differs"))
    other.commit()
    second = follow(other, project=first.project)
    assert second.head()["counts"] == {"forbidden": 1}
    before = second.state()
    first.daemon.apply(
        {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {}}, project=first.project
    )
    first.write("mine.yaml", destination("mine"))
    assert first.commit()["counts"] == {"created": 1}
    asked = second.daemon.reconcile(second.name)
    assert [run["id"] for run in second.daemon.runs(second.name)] == [asked["id"], before["lastRun"]]


def test_an_id_that_is_free_again_lets_in_who_waited_for_it(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a")
    holder = {
        "apiVersion": "service/v1",
        "kind": "Fleet",
        "metadata": {"name": "holder", "id": "shared-id"},
        "spec": {},
    }
    followed.daemon.apply(holder, project=followed.project)
    source.write("b.yaml", destination("b", id="shared-id"))
    assert statuses(followed.commit()) == {"b": "invalid"}
    assert followed.daemon.delete("/v1/resources/Fleet/holder", project=followed.project).status == 204
    until(lambda: "b" in followed.names() or None, "b has its id")


def test_what_was_dropped_while_nothing_was_polled_gets_its_next_owner_at_the_start(tmp_path: Path) -> None:
    """The daemon ends between the commit that deletes and the run that would become the owner."""
    first, other = Repository.init(tmp_path / "first"), Repository.init(tmp_path / "other")
    for repository in (first, other):
        repository.write("shared.yaml", destination("shared"))
        repository.write(f"{repository.path.name}.yaml", destination(repository.path.name))
        repository.commit()
    entries = [daemons.watched(one.path.name, one.path, interval="1h") for one in (first, other)]
    with daemons.running(tmp_path / "daemon", repositories=entries[:1]) as daemon:
        daemon.run_of("first", first.head())
        daemon.follow(entries[1])
        daemon.run_of("other", other.head())
        daemon.kill()
        # As after the crash: what `first` owned is gone, and `other` has not run yet.
        with stores.sql(daemon.state) as store:
            store.execute("delete from resource where name = 'shared'")
            store.count_revision()
        daemon.start()
        until(lambda: daemon.resource("Destination", "shared"), "the other repository has it")
        stored = daemon.resource("Destination", "shared")
        assert stored is not None
        assert stored["status"]["source"]["repository"] == "other"


def test_a_repository_that_leaves_lets_in_who_waited(tmp_path: Path, source: Repository, follow: Follow) -> None:
    source.write("shared.yaml", destination("shared"))
    source.commit()
    first = follow(source)
    first.head()
    other = Repository.init(tmp_path / "other")
    other.write("shared.yaml", destination("shared", "differs"))
    other.commit()
    second = follow(other, project=first.project)
    assert second.head()["counts"] == {"forbidden": 1}
    daemon = first.daemon
    daemon.configure([entry for name, entry in daemon.repositories.items() if name != first.name])
    daemon.reload()
    until(lambda: first.versions() == {"shared": 2} or None, "the other repository has changed it")
    assert second.state()["message"] is None


def test_a_run_that_was_promised_is_made_under_the_new_settings(followed: Followed) -> None:
    daemon = followed.daemon
    os.kill(daemon.reader(), signal.SIGSTOP)
    try:
        ask = f"/v1/repositories/{followed.name}/reconcile"
        first = daemon.post(ask).body["run"]
        until(lambda: daemon.run(first)["phase"] == "running" or None, "the first run has begun")
        second = daemon.post(ask).body["run"]
        followed.change(interval="7m")
    finally:
        os.kill(daemon.reader(), signal.SIGCONT)
    assert first != second
    assert [daemon.finished(run)["outcome"] for run in (first, second)] == ["partial", "partial"]


def test_a_suspended_repository_is_a_state_and_no_run(followed: Followed) -> None:
    before = followed.state()["lastRun"]
    followed.change(suspend=True)
    state = followed.daemon.state_of(followed.name, "suspended")
    assert state["message"] == "The setting `suspend` is on: nothing is looked at, and what it owns stays as it is."
    assert state["lastRun"] == before
    answer = followed.daemon.post(f"/v1/repositories/{followed.name}/reconcile")
    why = f"There is no run of {followed.name} while it is suspended. {state['message']}"
    assert (answer.status, answer.body) == (409, {"errors": [why], "codes": ANY})
    assert followed.state()["lastRun"] == before
    followed.change(suspend=False)
    until(lambda: followed.state()["state"] == "ready" or None, "it goes on")
