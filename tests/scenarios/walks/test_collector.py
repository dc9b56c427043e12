"""docs/how-to/collector.md: a collector's configuration is fetched, and fetched again when it changed."""

from pathlib import Path

import yaml

from tests import daemons
from tests.daemons import Daemon
from tests.docs import pages
from tests.scenarios.walks import following
from tests.scenarios.walks.conftest import BIN
from tests.scenarios.walks.following import Walk

PAGE = pages.read(pages.ROOT / "docs/how-to/collector.md")


def ready(walk: Walk, daemon: Daemon) -> None:
    """Somebody who may everything in that service."""
    walk.environment = {
        **walk.environment,
        "PATH": f"{BIN}:{walk.environment['PATH']}",
        "SERVICE_SERVER": f"http://127.0.0.1:{daemon.port}",
        "SERVICE_API_KEY": daemon.key,
    }
    walk.instead = {**walk.instead, "https://reconciler.example.com": walk.environment["SERVICE_SERVER"]}


def test_a_collector_gets_what_is_applied_and_what_changes(tmp_path: Path, walk: Walk) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        ready(walk, daemon)
        walk.follow(PAGE)
        wanted, terminal = walk.folder / "edge.yaml", walk.terminal(following.MAIN)
        raw = yaml.safe_load(wanted.read_text())["spec"]["raw"]
        assert (walk.folder / "collector.yaml").read_text() == raw
        wanted.write_text(wanted.read_text().replace("4317", "4319"))
        assert terminal.run("reconciler apply -f edge.yaml").code == 0
        assert terminal.run("bash fetch.sh").text == "changed\n"
        assert (walk.folder / "collector.yaml").read_text() == raw.replace("4317", "4319")
        # What fails leaves the file that is there.
        assert terminal.run("reconciler delete configuration edge").code == 0
        assert terminal.run("bash fetch.sh").code == 1
        assert (walk.folder / "collector.yaml").read_text() == raw.replace("4317", "4319")
