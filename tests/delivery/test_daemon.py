"""A daemon finds out by itself that a secret came, and gives none away."""

import json
from pathlib import Path
from typing import Any

from reconciler.model import type_checks
from tests import daemons
from tests.daemons import Daemon, until
from tests.delivery.folders import write
from tests.repositories import Repository

VARIABLE = "DESTINATION_DEFAULT__TOKEN"
CANARY = "canary-5d1e"


def hook(name: str, value: str) -> str:
    headers = {"name": "headers", "value": {"Authorization": value}}
    spec = {"type": "webhook", "parameters": [{"name": "hostname", "value": "h.example"}, headers]}
    return json.dumps({"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": name}, "spec": spec})


def told(run: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: f"{one['status']} {one.get('reason', '')}".rstrip() for one in run["statuses"]}


def newest(daemon: Daemon, other_than: str) -> dict[str, Any]:
    """The next finished run."""

    def found() -> str | None:
        ended = [run for run in daemon.runs("a") if run["phase"] == "finished"]
        return str(ended[0]["id"]) if ended and ended[0]["id"] != other_than else None

    return daemon.finished(until(found, "another run"))


def test_a_secret_that_comes_later_makes_valid_what_waits_for_it(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("env.json", hook("env", f"Bearer ${{env:{VARIABLE}}}"))
    source.write("file.json", hook("file", "Bearer ${file:team/token}"))
    source.write("key.json", hook("key", "Bearer ${env:SERVICE_API_KEY}"))
    commit = source.commit()
    repository = daemons.watched("a", source.path, interval="100ms")
    with daemons.running(tmp_path / "daemon", repositories=[repository], environment={VARIABLE: CANARY}) as daemon:
        first = daemon.run_of("a", commit)
        line = f"/spec/parameters/1/value/Authorization: {type_checks.BROKEN_REFERENCE}"
        assert [(name, *text.split(": ", 1)) for name, text in told(first).items()] == [
            ("env", "created"),
            ("file", f"invalid file.json:1:{first['statuses'][1]['reason'].split(':')[2]}", line),
            ("key", f"invalid key.json:1:{first['statuses'][2]['reason'].split(':')[2]}", line),
        ]
        folder = daemon.state / "secrets" / "default" / "team"
        folder.mkdir(parents=True)
        (folder / "token").symlink_to(write(tmp_path / "outside", CANARY))
        write(folder / ".new", CANARY).rename(folder / "token")
        second = newest(daemon, first["id"])
        assert {name: text.split()[0] for name, text in told(second).items()} == {"file": "created", "key": "invalid"}
        # Another value under the same name is no reason to look at anything.
        write(folder / ".new", "rotated").rename(folder / "token")
        asked = daemon.reconcile("a")
        assert told(asked).keys() == {"key"}
        assert [run["id"] for run in daemon.runs("a")] == [asked["id"], second["id"], first["id"]]
        (folder / "token").unlink()
        gone = newest(daemon, asked["id"])
        assert {name: text.split()[0] for name, text in told(gone).items()} == {"file": "invalid", "key": "invalid"}
        stored = daemon.resource("Destination", "file")
        assert stored is not None
        assert stored["status"]["incomplete"] == [line]
        environment = Path(f"/proc/{daemon.reader()}/environ").read_bytes()
        assert (CANARY.encode() in environment, CANARY in daemon.output()) == (False, False)
    assert [path for path in daemon.state.rglob("store.db*") if CANARY.encode() in path.read_bytes()] == []
