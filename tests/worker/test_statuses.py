"""A commit becomes statuses: what the run tells, what is stored, and what is seen through the API."""

import json
import time
from typing import Any

from tests import daemons
from tests.daemons import Daemon, Followed, destination, statuses
from tests.following import Follow, holding
from tests.repositories import ADDRESS, AUTHOR, Repository

SEEN_SECONDS = 1.0  # from the end of `git commit` to the answer of the API


def settled(followed: Followed, name: str) -> dict[str, Any]:
    """A Destination, once it says which commit made it what it is: of a first read that comes a moment later."""

    def look() -> dict[str, Any] | None:
        found = followed.destination(name)
        return found if found is not None and "changedBy" in found["status"]["source"] else None

    return daemons.until(look, f"{name} says who changed it")


def test_a_commit_creates_what_it_holds_and_says_where_it_came_from(source: Repository, follow: Follow) -> None:
    source.write("teams/a.yaml", destination("a") + "---\n" + destination("b"))
    commit = source.commit()
    followed = follow(source)
    run = followed.head()
    assert {key: run[key] for key in ("trigger", "phase", "outcome", "counts", "message", "rewound", "statuses")} == {
        "trigger": "reload",
        "phase": "finished",
        "outcome": "succeeded",
        "counts": {"created": 2},
        "message": None,
        "rewound": False,
        "statuses": [
            {"kind": "Destination", "name": "a", "status": "created", "path": "teams/a.yaml", "line": 1},
            {"kind": "Destination", "name": "b", "status": "created", "path": "teams/a.yaml", "line": 8},
        ],
    }
    stored = settled(followed, "b")
    head = {"commit": commit, "author": f"{AUTHOR} <{ADDRESS}>", "date": "2023-11-14T22:14:20.000Z"}
    assert (stored["metadata"]["version"], stored["spec"]) == (1, {"type": "otlp"})
    assert stored["status"] == {
        "latest": True,
        "source": {
            "type": "git",
            "repository": followed.name,
            "branch": "main",
            **head,
            "changedBy": head,
            "path": "teams/a.yaml",
            "line": 8,
        },
    }
    state = followed.state()
    assert (state["state"], state["message"], state["commit"], state["head"]) == ("ready", None, commit, commit)
    assert state["lastRun"] == run["id"]


def test_a_committed_edit_is_readable_through_the_api_within_a_second(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a", "b")

    def seconds(text: str) -> float:
        def is_shown() -> bool:
            found = followed.destination("a")
            return found is not None and found["metadata"].get("description") == text

        source.write("a.yaml", destination("a", text))
        commit = source.commit()
        begun = time.monotonic()
        daemons.until(is_shown, "the edit is seen")
        passed = time.monotonic() - begun
        run = followed.head()
        assert (run["commit"], run["trigger"], run["counts"]) == (commit, "watch", {"configured": 1})
        return passed

    # The best of some: what else the machine does says nothing about this.
    assert any(seconds(f"edited {number}") < SEEN_SECONDS for number in range(5))
    assert followed.versions()["b"] == 1


def test_what_a_commit_deletes_is_gone_and_its_history_stays(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a", "b")
    source.remove("a.yaml")
    run = followed.commit()
    assert run["counts"] == {"deleted": 1}
    assert run["statuses"] == [
        {"kind": "Destination", "name": "a", "status": "deleted", "path": "a.yaml", "line": 1},
    ]
    assert followed.names() == ["b"]
    history = followed.daemon.history("Destination", "a", project=followed.project)
    assert [version["metadata"]["version"] for version in history] == [1]
    followed.write("again.yaml", destination("a"))
    assert followed.commit()["counts"] == {"created": 1}
    assert followed.versions() == {"a": 2, "b": 1}


def test_a_file_that_moves_changes_no_version_and_the_source_follows(source: Repository, follow: Follow) -> None:
    source.write("old/a.yaml", destination("a"))
    source.write("b.yaml", destination("b"))
    first = source.commit()
    followed = follow(source)
    followed.head()
    before = settled(followed, "a")
    source.move("old/a.yaml", "new/a.yaml")
    run = followed.commit()
    assert (run["counts"], run["statuses"]) == ({"unchanged": 1}, [])
    after = settled(followed, "a")
    assert after["metadata"] == before["metadata"]
    source_then = before["status"]["source"]
    assert source_then["path"] == "old/a.yaml"
    # Commit, author and date are those of the version, which is the same.
    assert after["status"]["source"] == {**source_then, "path": "new/a.yaml", "commit": first}


def test_a_look_that_finds_nothing_new_writes_no_run(source: Repository, follow: Follow, daemon: Daemon) -> None:
    source.write("a.yaml", destination("a"))
    source.commit()
    followed = follow(source, interval="50ms")
    followed.head()
    time.sleep(0.3)  # some looks
    assert len(daemon.runs(followed.name)) == 1


def test_a_run_that_somebody_asks_for_is_served_until_it_is_finished(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a")
    commit = source.head()
    answer = followed.daemon.post(f"/v1/repositories/{followed.name}/reconcile")
    assert (answer.status, list(answer.body)) == (202, ["run"])
    first = followed.daemon.run(answer.body["run"])
    assert first["phase"] in ("queued", "running", "finished")
    assert (first["trigger"], first["repository"], first["project"]) == ("request", followed.name, followed.project)
    run = followed.daemon.finished(answer.body["run"])
    assert (run["outcome"], run["commit"], run["counts"], run["statuses"]) == ("succeeded", commit, {}, [])
    assert first.keys() == run.keys()


def test_a_commit_that_changes_nothing_of_ours_is_no_run(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a")
    source.write("README.md", "Read me.")
    state = followed.daemon.applied(followed.name, source.commit())
    [run] = followed.daemon.runs(followed.name)
    assert (state["state"], state["lastRun"], run["counts"]) == ("ready", run["id"], {"created": 1})
    source.write("a.yaml", "# a comment alone\n" + destination("a"))
    run = followed.commit()
    assert (run["counts"], followed.versions()) == ({"unchanged": 1}, {"a": 1})


def test_every_violation_of_a_document_is_told_and_its_stored_version_stays(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a", "b")
    source.write("a.yaml", destination("a").replace("type: otlp", "typ: 5\n  disabled: perhaps"))
    source.write("c.yaml", destination("c"))
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("partial", {"created": 1, "invalid": 1})
    [told] = [status for status in run["statuses"] if status["status"] == "invalid"]
    reasons = told["reason"].splitlines()
    assert [line.split(": ")[:2] for line in reasons] == [
        ["a.yaml:6:3", "/spec/typ"],
        ["a.yaml:7:13", "/spec/disabled"],
        ["a.yaml:6:3", "/spec/type"],
    ]
    assert followed.versions() == {"a": 1, "b": 1, "c": 1}
    assert followed.state()["state"] == "ready"
    source.write("a.yaml", destination("a", "mended"))
    assert followed.commit()["counts"] == {"configured": 1}


def test_an_invalid_document_that_leaves_takes_its_stored_version_along(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a", "b")
    source.write("a.yaml", destination("a").replace("type", "typ"))
    assert followed.commit()["counts"] == {"invalid": 1}
    source.remove("a.yaml")
    assert followed.commit()["counts"] == {"deleted": 1}
    assert followed.names() == ["b"]


def test_a_duplicate_is_invalid_in_both_files_until_one_is_removed(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a", "other")
    source.write("z.yaml", destination("a", "another"))
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("partial", {"invalid": 2})
    reasons = {status["path"]: status["reason"] for status in run["statuses"]}
    given = "Destination a is given more than once, also at"
    assert reasons == {
        "a.yaml": f"a.yaml:1:1: {given} z.yaml:1:1; keep one of them",
        "z.yaml": f"z.yaml:1:1: {given} a.yaml:1:1; keep one of them",
    }
    assert followed.versions() == {"a": 1, "other": 1}
    source.remove("a.yaml")
    assert followed.commit()["counts"] == {"configured": 1}
    stored = followed.destination("a")
    assert stored is not None
    assert (stored["metadata"]["description"], stored["status"]["source"]["path"]) == ("another", "z.yaml")
    assert followed.versions() == {"a": 2, "other": 1}


def test_documents_of_others_are_skipped(source: Repository, follow: Follow) -> None:
    foreign = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2}\n"
    source.write("web.yaml", foreign)
    source.write("values.yaml", "replicas: 2\n")
    source.write("list.json", "[1, 2, 3]")
    source.write("both.yaml", foreign + "---\n" + destination("a"))
    source.write(".hidden/b.yaml", destination("hidden"))
    source.commit()
    followed = follow(source)
    run = followed.head()
    assert (run["outcome"], run["counts"], run["message"]) == ("succeeded", {"created": 1}, None)
    assert followed.names() == ["a"]


def test_serviceignore_leaves_files_out_and_what_they_gave_is_deleted(source: Repository, follow: Follow) -> None:
    source.write("a.yaml", destination("a"))
    source.write("drafts/b.yaml", destination("b"))
    source.write("drafts/broken.yaml", "a: [\n")
    source.commit()
    followed = follow(source)
    assert followed.head()["outcome"] == "partial"
    source.write(".serviceignore", "drafts/\n")
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("succeeded", {"unchanged": 1, "deleted": 1})
    source.remove(".serviceignore")
    source.remove("drafts/broken.yaml")
    assert statuses(followed.commit()) == {"b": "created"}
    assert followed.versions() == {"a": 1, "b": 2}


def test_a_deprecated_resource_is_stored_from_git_and_not_created_by_the_api(
    source: Repository, follow: Follow, daemon: Daemon
) -> None:
    source.write("a.yaml", destination("a", deprecated=True))
    source.commit()
    followed = follow(source)
    run = followed.head()
    assert (run["outcome"], run["counts"], statuses(run)) == ("succeeded", {"deprecated": 1}, {"a": "deprecated"})
    assert followed.names() == ["a"]
    asked = {
        "apiVersion": "service/v1",
        "kind": "Destination",
        "metadata": {"name": "b", "deprecated": True},
        "spec": {"type": "otlp"},
    }
    [update] = daemon.apply(asked, project=followed.project)
    assert update["status"] == "deprecated"
    assert followed.names() == ["a"]


def test_an_id_is_kept_and_nobody_gets_one_that_is_taken(source: Repository, follow: Follow) -> None:
    source.write("a.yaml", destination("a", id="one"))
    source.commit()
    followed = follow(source)
    followed.head()
    stored = followed.destination("a")
    assert stored is not None
    assert stored["metadata"]["id"] == "one"
    source.write("b.yaml", destination("b", id="one"))
    run = followed.commit()
    assert run["outcome"] == "partial"
    assert [(status["name"], status["status"], status["reason"]) for status in run["statuses"]] == [
        ("b", "invalid", "b.yaml:1:1: /metadata/id: another resource of the project has this id; leave it out")
    ]
    assert followed.names() == ["a"]


def test_a_resource_that_is_renamed_keeps_its_id(source: Repository, follow: Follow) -> None:
    source.write("a.yaml", destination("before", id="one"))
    source.write("b.yaml", destination("b"))
    source.commit()
    followed = follow(source)
    followed.head()
    source.write("a.yaml", destination("after", id="one"))
    assert statuses(followed.commit()) == {"after": "created", "before": "deleted"}
    assert followed.names() == ["after", "b"]
    stored = followed.destination("after")
    assert stored is not None
    assert stored["metadata"]["id"] == "one"


def test_of_two_new_resources_with_one_id_none_is_stored(source: Repository, follow: Follow) -> None:
    source.write("a.yaml", destination("a", id="same"))
    source.write("b.yaml", destination("b", id="same"))
    source.commit()
    followed = follow(source)
    assert statuses(followed.head()) == {"a": "invalid", "b": "invalid"}
    assert followed.names() == []


def test_sensitive_values_never_leave_the_service(source: Repository, follow: Follow) -> None:
    secret = "canary-hunter2-is-the-secret"
    text = destination("a") + (
        "  parameters:\n"
        f"    - {{name: hostname, value: {secret}, sensitive: true}}\n"
        f"    - {{name: headers, value: {{Authorization: {secret}}}}}\n"
    )
    source.write("a.yaml", text)
    source.commit()
    followed = follow(source)
    followed.head()
    source.write("a.yaml", text.replace(secret, secret + "-changed"))
    assert followed.commit()["counts"] == {"configured": 1}
    source.write("a.yaml", text.replace("type: otlp", "typo: otlp"))
    run = followed.commit()
    assert run["counts"] == {"invalid": 1}
    history = followed.daemon.history("Destination", "a", project=followed.project)
    assert [len(history), secret in json.dumps([history, run])] == [2, False]
    assert secret not in followed.daemon.output()


def test_a_commit_of_many_megabytes_is_applied(source: Repository, follow: Follow) -> None:
    raw = "x" * 4_500_000
    for number in range(8):
        source.write(
            f"{number}.yaml",
            f"apiVersion: service/v1\nkind: Configuration\nmetadata: {{name: c{number}}}\nspec: {{raw: {raw}}}\n",
        )
    source.commit()
    assert follow(source).head()["counts"] == {"created": 8}
