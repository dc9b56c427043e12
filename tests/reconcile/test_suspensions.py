"""A suspended repository does nothing, an admin may change what it owns, and a resume overwrites that."""

import json
import os
import signal
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from tests import daemons, stores
from tests.daemons import Followed, destination, until
from tests.following import Follow, holding
from tests.repositories import Repository

REASON = "the edge drops logs"
STOPS_THE_READER = True


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    """A repository of which three resources are stored."""
    return holding(source, follow, *"abc")


def suspend(followed: Followed, **more: str) -> dict[str, Any]:
    answer = followed.daemon.post(f"/v1/repositories/{followed.name}/suspend", {"reason": REASON, **more})
    assert answer.status == 200, answer
    return dict(answer.body["repository"])


def resume(followed: Followed) -> dict[str, Any]:
    answer = followed.daemon.post(f"/v1/repositories/{followed.name}/resume", {})
    assert answer.status == 202, answer
    return followed.daemon.finished(answer.body["run"])


def document(name: str, description: str = "") -> dict[str, Any]:
    """Return what `destination` says, for the API."""
    metadata = {"name": name, "description": description}
    return {"apiVersion": "service/v1", "kind": "Destination", "metadata": metadata, "spec": {"type": "otlp"}}


def write(followed: Followed, name: str, description: str) -> str:
    """Apply it through the API; the status."""
    (update,) = followed.daemon.apply(document(name, description), project=followed.project)
    return str(update["status"])


def remove(followed: Followed, name: str) -> int:
    return followed.daemon.delete(f"/v1/resources/Destination/{name}", project=followed.project).status


def stored(followed: Followed, name: str) -> dict[str, Any]:
    found = followed.destination(name)
    assert found is not None
    return found


def test_it_says_who_suspended_it_and_why(followed: Followed) -> None:
    before = followed.state()
    shown = suspend(followed, expiry="2h")
    message = (
        f"Suspended by key:SERVICE_API_KEY until {shown['suspension']['until']} ({REASON}): nothing is looked at, and "
        f"admins may change what it owns; `reconciler resume {followed.name}` ends it."
    )
    since, end = (datetime.fromisoformat(shown["suspension"][key]) for key in ("since", "until"))
    assert abs(end - since - timedelta(hours=2)) < timedelta(seconds=1)
    assert shown == followed.state()
    assert shown == {
        **before,
        "state": "suspended",
        "message": message,
        "since": shown["suspension"]["since"],
        "suspension": {**shown["suspension"], "reason": REASON, "actor": "key:SERVICE_API_KEY"},
        "drift": 0,
    }


def test_a_dry_run_says_of_a_secret_what_the_call_says_of_a_change(source: Repository, follow: Follow) -> None:
    def webhook(secret: str) -> dict[str, Any]:
        headers = {"name": "headers", "value": {"Authorization": secret}}
        spec = {"type": "webhook", "parameters": [{"name": "hostname", "value": "h"}, headers]}
        return {**document("w"), "spec": spec}

    source.write("w.json", json.dumps(webhook("right")))
    source.commit()
    holder = follow(source)
    assert holder.head()["counts"] == {"created": 1}

    def told(secret: str, query: str = "?dryRun=true") -> str:
        (update,) = holder.daemon.apply(webhook(secret), query=query, project=holder.project)
        return str(update["status"])

    assert [told("right"), told("wrong"), told("(sensitive)")] == ["forbidden", "forbidden", "unchanged"]
    suspend(holder)
    assert [told("right"), told("wrong"), told("(sensitive)")] == ["configured", "configured", "unchanged"]
    assert [told("right", ""), told("wrong", "")] == ["unchanged", "configured"]


def test_nothing_is_polled_and_a_resume_catches_up(followed: Followed) -> None:
    suspend(followed)
    followed.source.remove("b.yaml")
    commit = followed.source.commit()
    time.sleep(0.3)
    assert (followed.names(), followed.state()["head"] == commit) == (["a", "b", "c"], False)
    run = resume(followed)
    assert (run["commit"], run["trigger"], run["counts"]) == (commit, "request", {"unchanged": 2, "deleted": 1})
    state = followed.state()
    assert (state["state"], state["message"], state["suspension"], state["drift"]) == ("ready", None, None, None)


def test_an_admin_writes_what_git_owns_and_the_resume_overwrites_it(followed: Followed) -> None:
    first = stored(followed, "a")
    assert write(followed, "a", "by hand") == "forbidden"
    suspend(followed)
    assert (write(followed, "a", "by hand"), remove(followed, "b")) == ("configured", 204)
    drifted = stored(followed, "a")
    assert drifted["metadata"]["version"] == 2
    assert drifted["status"]["drift"] == {"repository": followed.name, "path": "a.yaml", "line": 1}
    assert drifted["status"]["source"]["type"] == "api"
    assert followed.state()["drift"] == 2
    run = resume(followed)
    assert run["counts"] == {"unchanged": 1, "configured": 1, "created": 1}
    assert followed.versions() == {"a": 3, "b": 2, "c": 1}
    again = stored(followed, "a")
    assert "description" not in again["metadata"]  # an empty one is none
    first["status"]["source"].pop("changedBy", None)  # it may be found out a moment later
    again["status"]["source"].pop("changedBy", None)
    assert again["status"] == first["status"]
    assert (write(followed, "a", "by hand"), remove(followed, "b")) == ("forbidden", 403)


def test_what_git_holds_by_the_time_of_the_resume_is_taken_over_as_it_is(followed: Followed) -> None:
    suspend(followed)
    assert write(followed, "a", "mended by hand") == "configured"
    followed.source.write("a.yaml", destination("a", "mended by hand"))
    commit = followed.source.commit()
    run = resume(followed)
    assert (run["outcome"], run["counts"]) == ("succeeded", {"unchanged": 3})
    status = stored(followed, "a")["status"]
    assert followed.versions() == {"a": 2, "b": 1, "c": 1}
    assert ("drift" in status, status["source"]["type"], status["source"]["commit"]) == (False, "git", commit)


def test_what_is_put_back_by_hand_is_no_drift(followed: Followed) -> None:
    suspend(followed)
    assert [write(followed, "a", text) for text in ("by hand", "")] == ["configured", "configured"]
    assert ("drift" in stored(followed, "a")["status"], followed.state()["drift"]) == (False, 0)
    resume(followed)
    assert followed.versions() == {"a": 3, "b": 1, "c": 1}


def test_it_stays_suspended_through_a_restart_and_a_resume_after_a_crash_is_whole(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    commit = source.commit()
    repositories = [daemons.watched("telemetry", source.path)]
    with daemons.running(tmp_path / "daemon", repositories=repositories, has_real_reader=True) as daemon:
        daemon.run_of("telemetry", commit)
        daemon.post("/v1/repositories/telemetry/suspend", {"reason": REASON, "expiry": "2h"})
        daemon.apply(document("a", "by hand"))
        until(lambda: daemon.repository("telemetry")["applied"], "the facts of the commit are known")
        before = daemon.repository("telemetry")
        daemon.restart()
        # The facts of a commit are read a moment after the start.
        until(lambda: daemon.repository("telemetry") == before, "the repository is as before")
        # The worker stands still, so that the run of the resume is under way when the daemon is killed.
        os.kill(daemon.reader(), signal.SIGSTOP)
        assert daemon.post("/v1/repositories/telemetry/resume", {}).status == 202
        reader = daemon.reader()
        daemon.kill()
        os.kill(reader, signal.SIGKILL)
        daemon.start()
        until(lambda: daemon.repository("telemetry")["message"] is None, "the head is read again")
        assert daemon.history("Destination", "a")[0]["metadata"]["version"] == 3


def test_it_resumes_by_itself_when_its_time_is_over(followed: Followed) -> None:
    suspend(followed, expiry="2s")
    write(followed, "a", "by hand")
    state = followed.daemon.state_of(followed.name, "ready")
    until(lambda: followed.versions() == {"a": 3, "b": 1, "c": 1}, "what drifted is overwritten")
    last = followed.daemon.finished(followed.state()["lastRun"])
    assert (state["suspension"], last["actor"]) == (None, "system")
    assert last["trigger"] in {"resume", "poll"}  # a poll may begin a moment before, and find that the time is over


@pytest.mark.slow
def test_it_resumes_at_the_start_when_its_time_was_over_while_the_service_stood_still(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    commit = source.commit()
    with daemons.running(tmp_path / "daemon", repositories=[daemons.watched("telemetry", source.path)]) as daemon:
        daemon.run_of("telemetry", commit)
        daemon.post("/v1/repositories/telemetry/suspend", {"reason": REASON, "expiry": "1500ms"})
        (update,) = daemon.apply(document("a", "by hand"))
        assert update["status"] == "configured"
        daemon.stop()
        time.sleep(1.5)
        daemon.start()
        until(lambda: daemon.repository("telemetry")["message"] is None, "the head is read again")
        assert daemon.history("Destination", "a")[0]["metadata"]["version"] == 3


def test_suspending_again_replaces_reason_and_expiry(followed: Followed) -> None:
    first = suspend(followed, expiry="1h")
    answer = followed.daemon.post(f"/v1/repositories/{followed.name}/suspend", {"reason": "it still does"})
    shown = answer.body["repository"]
    assert shown["suspension"] == {**first["suspension"], "reason": "it still does", "until": None}
    assert shown["since"] == first["since"]


def test_a_run_is_refused_with_a_sentence(followed: Followed) -> None:
    message = suspend(followed)["message"]
    answer = followed.daemon.post(f"/v1/repositories/{followed.name}/reconcile")
    sentence = f"There is no run of {followed.name} while it is suspended. {message}"
    assert (answer.status, answer.body) == (409, {"errors": [sentence], "codes": ANY})


def test_a_run_under_way_is_cancelled_and_whoever_waits_for_it_is_told(followed: Followed) -> None:
    daemon = followed.daemon
    os.kill(daemon.reader(), signal.SIGSTOP)
    try:
        ask = f"/v1/repositories/{followed.name}/reconcile"
        running = daemon.post(ask).body["run"]
        until(lambda: daemon.run(running)["phase"] == "running" or None, "the run has begun")
        queued = daemon.post(ask).body["run"]
        followed.source.write("a.yaml", destination("a", "new"))
        followed.source.commit()
        message = suspend(followed)["message"]
    finally:
        os.kill(daemon.reader(), signal.SIGCONT)
    assert running != queued
    for told in map(daemon.finished, (running, queued)):
        assert (told["outcome"], told["message"], told["counts"]) == ("refused", message, {})
    assert followed.versions() == {"a": 1, "b": 1, "c": 1}
    assert resume(followed)["counts"] == {"unchanged": 2, "configured": 1}


def test_a_resume_of_what_is_not_suspended_is_a_run(followed: Followed) -> None:
    assert resume(followed)["outcome"] == "succeeded"


def test_what_a_setting_suspends_only_the_settings_resume(followed: Followed) -> None:
    followed.change(suspend=True)
    state = followed.daemon.state_of(followed.name, "suspended")
    assert (state["suspension"], state["drift"]) == (None, None)
    answer = followed.daemon.post(f"/v1/repositories/{followed.name}/resume", {})
    sentence = (
        f"{followed.name} is suspended by its setting `suspend: true`, which the API does not change; set it to false, "
        "and reload the settings."
    )
    assert (answer.status, answer.body) == (409, {"errors": [sentence], "codes": ANY})
    assert write(followed, "a", "by hand") == "forbidden"


def test_a_change_of_the_settings_does_not_end_it(followed: Followed) -> None:
    shown = suspend(followed)
    followed.change(interval="7m")
    assert followed.state() == shown
    assert write(followed, "a", "by hand") == "configured"


def test_a_repository_that_leaves_the_settings_and_comes_back_is_still_suspended(followed: Followed) -> None:
    before = suspend(followed)["suspension"]
    write(followed, "a", "by hand")
    daemon = followed.daemon
    mine = daemon.repositories[followed.name]
    daemon.follow_nothing()
    assert "drift" not in stored(followed, "a")["status"]  # what it owned is the API's
    daemon.follow(mine)
    shown = daemon.state_of(followed.name, "suspended")
    assert (shown["suspension"], REASON in shown["message"]) == (before, True)
    assert stored(followed, "a")["metadata"]["description"] == "by hand"
    assert resume(followed)["counts"] == {"unchanged": 2, "configured": 1}
    assert (followed.state()["state"], followed.state()["suspension"]) == ("ready", None)


def test_it_is_told_in_the_audit(followed: Followed) -> None:
    suspend(followed)
    resume(followed)
    assert audit(followed) == [
        ("created", "Repository", "settings", None),
        ("suspended", "Repository", "key:SERVICE_API_KEY", REASON),
        ("resumed", "Repository", "key:SERVICE_API_KEY", REASON),
    ]


def audit(followed: Followed) -> list[tuple[str, ...]]:
    """Return what is written of the repository."""
    with stores.sql(followed.daemon.state) as store:
        events = "select action, kind, actor, detail from audit where kind = 'Repository' and name = ? order by id"
        return store.execute(events, followed.name)
