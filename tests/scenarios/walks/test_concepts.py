"""docs/concepts.md: its commands say what the page says, beside a service that follows a repository."""

import re
from pathlib import Path

from reconciler.cli.main import ENTRIES
from tests import daemons
from tests.docs import pages
from tests.repositories import Repository
from tests.scenarios.walks.conftest import BIN
from tests.scenarios.walks.following import Walk

PAGE = pages.read(pages.ROOT / "docs/concepts.md")


def test_its_commands_say_what_the_page_says(tmp_path: Path, walk: Walk) -> None:
    source = Repository.init(tmp_path / "telemetry")
    source.write("desk.yaml", daemons.destination("desk"))
    first = source.commit()
    with daemons.running(tmp_path / "daemon", repositories=[daemons.watched("telemetry", source.path)]) as daemon:
        daemon.run_of("telemetry", first)
        walk.environment = {
            **walk.environment,
            "PATH": f"{BIN}:{walk.environment['PATH']}",
            "SERVICE_SERVER": f"http://127.0.0.1:{daemon.port}",
            "SERVICE_API_KEY": daemon.key,
        }
        walk.follow(PAGE)
    assert len(walk.ran) == PAGE.count("\n$ ") > 0


def test_the_commands_that_it_names_in_passing_are_there() -> None:
    named = re.findall(r"`reconciler (\w+)", PAGE)
    assert [name for name in named if name not in ENTRIES] == []
