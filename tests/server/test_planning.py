"""A daemon says what merging a branch would do, and forgets its plans when it ends."""

from pathlib import Path

from tests import daemons
from tests.daemons import destination, watched
from tests.repositories import Repository

TOPIC = "refs/heads/topic"


def test_a_daemon_plans_and_forgets_its_plans_at_a_restart(tmp_path: Path, source: Repository) -> None:
    base = source.head()
    source.branch("topic")
    source.switch("topic")
    source.write("a.yaml", destination("a", "edited"))
    source.write("c.yaml", destination("c"))
    source.remove("b.yaml")
    head = source.commit()
    source.switch("main")
    settings = [watched("telemetry", source.path, prune={"maxPercent": 100})]
    with daemons.running(tmp_path / "daemon", repositories=settings) as daemon:
        assert daemon.run_of("telemetry", base)["outcome"] == "succeeded"
        answer = daemon.post("/v1/plan", {"repository": "telemetry", "head": TOPIC})
        assert answer.status == 200
        plan = answer.body["plan"]
        assert [(one["status"], one["name"]) for one in plan["statuses"]] == [
            ("deleted", "b"),
            ("configured", "a"),
            ("created", "c"),
        ]
        assert (plan["base"]["commit"], plan["head"]) == (base, {"ref": TOPIC, "commit": head})
        assert daemon.get(f"/v1/plans/{plan['id']}").body["plan"] == plan
        daemon.restart()
        assert daemon.get(f"/v1/plans/{plan['id']}").status == 404
        again = daemon.post("/v1/plan", {"repository": "telemetry", "head": TOPIC}).body["plan"]
        assert (again["digest"], again["statuses"]) == (plan["digest"], plan["statuses"])
        source.git("merge", "--quiet", "--no-ff", "-m", "Merge", "topic")
        assert daemon.run_of("telemetry", source.head())["counts"] == {
            key: count for key, count in plan["counts"].items() if key != "unchanged"
        }
