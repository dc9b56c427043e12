"""docs/prune-safety.md: its session is what the program says, its table has every state, its arithmetic is right."""

import re
import shlex
from collections.abc import Iterator

import pytest

from reconciler.model.repository_rules import PruneBudget
from reconciler.planner.pruning import PruneHold
from reconciler.settings.repositories import Prune
from tests import daemons
from tests.cli.conftest import Program
from tests.docs import pages
from tests.repositories import Repository

PAGE = pages.read(pages.ROOT / "docs/prune-safety.md")
FLEET = "apiVersion: service/v1\nkind: Fleet\nmetadata: {{name: {}}}\n"
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The program, and a service that follows the repository of the page."""
    source = Repository.init(tmp_path_factory.mktemp("source"))
    for path in ("shop/web", "shop/mail", "shop/db", "edge/edge1", "edge/edge2", "edge/edge3", "edge/edge4"):
        source.write(f"{path}.yaml", FLEET.format(path.rpartition("/")[2]))
    first = source.commit()
    watched = [daemons.watched("telemetry", source.path)]
    with daemons.running(tmp_path_factory.mktemp("daemon"), repositories=watched) as daemon:
        daemon.run_of("telemetry", first)
        source.remove("edge")
        daemon.run_of("telemetry", source.commit())
        daemon.state_of("telemetry", "prune-held")
        address = f"http://127.0.0.1:{daemon.port}"
        yield Program(tmp_path_factory.mktemp("page"), {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key})


@pytest.mark.slow
def test_the_session_is_what_the_program_says(program: Program) -> None:
    told = "".join(pages.blocks(PAGE, "console"))
    found = ""
    for command in re.findall(r"^\$ reconciler (.+)$", told, re.MULTILINE):
        outcome = program(*shlex.split(command))
        found += f"$ reconciler {command}\n{outcome.out}{outcome.err}"
    assert MOMENT.sub("then", found) == MOMENT.sub("then", told)


def test_every_state_that_a_guard_gives_is_in_the_table() -> None:
    states = {row["state"] for row in pages.table(pages.section(PAGE, "What holds deletions"))}
    assert states >= {f"`{hold}`" for hold in PruneHold}


def test_the_arithmetic_is_that_of_the_budget() -> None:
    budget = PruneBudget(Prune().min_count, Prune().max_percent)
    rows = pages.table(pages.section(PAGE, "The budget"))
    assert len(rows) > 4
    for row in rows:
        deletions = int(row["deleted within 24 hours"]) + int(row["would go now"])
        assert budget.covers(deletions, owned=int(row["owned"])) == row[""].startswith("goes")
