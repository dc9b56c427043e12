"""The program against a real daemon: what is wrong is told by every command that could tell it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model import names
from tests import daemons
from tests.cli.conftest import Program, Scene
from tests.repositories import Repository

ROOT = Path(__file__).parents[2]
BAD = "apiVersion: service/v1\nkind: Destination\nmetadata: {name: web}\nspec: {type: 3}\n"
INVALID = "web.yaml:4:14: /spec/type: is not a string"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The repository holds a good and a bad document."""
    folder = tmp_path_factory.mktemp("scene")
    source = Repository.init(folder / "source")
    source.write("api.yaml", daemons.destination("api1"))
    source.write("web.yaml", BAD)
    commit = source.commit()
    with daemons.running(folder / "daemon", repositories=[daemons.watched("telemetry", source.path)]) as daemon:
        daemon.run_of("telemetry", commit)
        address = f"http://127.0.0.1:{daemon.port}"
        program = Program(folder, {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key})
        yield Scene(daemon, source, program)


@pytest.mark.parametrize("command", [["status"], ["runs", "--last", "telemetry"], ["reconcile", "telemetry", "--wait"]])
def test_what_is_invalid_is_told_with_its_place(scene: Scene, command: list[str]) -> None:
    outcome = scene(*command)
    assert outcome.err == ""
    assert outcome.code == (3 if "--wait" in command else 0)
    assert INVALID in outcome.out.splitlines()
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["invalid", "Destination", "web", "web.yaml:1"] in rows


def test_the_list_of_runs_leads_to_a_run(scene: Scene) -> None:
    (first, *_) = json.loads(scene("runs", "-o", "json").out)["runs"]
    assert scene("runs").out.splitlines()[1].split()[:3] == [first["id"], "telemetry", "partial"]
    assert scene("runs", first["id"]) == scene("runs", "--last", "telemetry")


def test_the_status_holds_the_last_run(scene: Scene) -> None:
    (repository,) = json.loads(scene("status", "-o", "json").out)["repositories"]
    assert repository["lastRun"] == scene.daemon.run(repository["lastRun"]["id"])


def test_what_git_owns_says_whose_it_is(scene: Scene) -> None:
    changed = daemons.destination("api1", "changed")
    managed = "managed by the repository telemetry; change it there"
    outcome = scene("apply", "-f", "-", stdin=changed)
    assert outcome == (3, f"Destination/api1 forbidden (<stdin>:1): {managed}\n", "1 forbidden\n")
    for dry in ([], ["--dry-run"]):
        outcome = scene("delete", "destination/api1", *dry)
        remark = " (dry run)" if dry else ""
        assert outcome == (3, f"Destination/api1 forbidden{remark}: {managed}\n", f"1 forbidden{remark}\n")
    outcome = scene("apply", "--atomic", "-f", "-", stdin="apiVersion: service/v1\nkind: Nope\n---\n" + changed)
    item, owned, end = outcome.err.splitlines()
    assert item.startswith("<stdin>:1: invalid: /kind: is not a kind")
    assert owned == f"<stdin>:4: Destination api1: forbidden: {managed}"
    assert (outcome.code, outcome.out, end) == (3, "", "error: nothing was stored")


def test_a_duplicate_names_the_other_place(scene: Scene) -> None:
    twice = daemons.destination("two") + "---\n" + daemons.destination("two", "other")
    reason = "  Destination two is given more than once, also at <stdin>:{}; keep one of them\n"
    assert scene("apply", "-f", "-", stdin=twice) == (
        3,
        f"Destination/two invalid (<stdin>:1)\n{reason.format(8)}Destination/two invalid (<stdin>:8)\n"
        + reason.format(1),
        "2 invalid\n",
    )


def test_resources_come_and_go_by_their_names(scene: Scene) -> None:
    assert scene("apply", "-f", "-", stdin="---\n".join(map(daemons.destination, ("a", "b")))).code == 0
    outcome = scene("get", "destination/a", "destination/b", "destination/c", "-o", "name")
    assert outcome == (1, "Destination/a\nDestination/b\n", "error: there is no Destination c\n")
    assert scene("delete", "destination", "a", "b", "--dry-run").code == 0
    assert scene("delete", "destination", "a", "b", "c") == (
        3,
        "Destination/a deleted\nDestination/b deleted\nDestination/c not-found\n",
        "2 deleted, 1 not-found\n",
    )


def test_a_wide_table_says_who_owns_what(scene: Scene) -> None:
    assert scene("apply", "-f", "-", stdin=daemons.destination("hand")).code == 0
    header, *rows = [line.split("   ") for line in scene("get", "destinations", "-o", "wide").out.splitlines()]
    names, owners = header.index("NAME"), [cell.strip() for cell in header if cell.strip()].index("OWNER")
    found = {row[names].strip(): [cell.strip() for cell in row if cell.strip()][owners] for row in rows}
    assert found == {"api1": "telemetry", "hand": "api"}


def test_what_is_built_in_is_listed_and_a_selector_leaves_what_matches(scene: Scene) -> None:
    queue = "Extension/file_storage_persistent_queue\n"
    assert scene("get", "extensions", "-o", "name") == (0, queue, "")
    assert scene("get", "extensions", "-l", "!team", "-o", "name") == (0, queue, "")
    assert scene("get", "extensions", "-l", "team in (a, b)") == (0, "", "no extensions found\n")
    assert scene("get", "extensions").out.splitlines()[1].split()[-1] == "builtin"


def test_an_unknown_project_is_the_same_error_everywhere(scene: Scene) -> None:
    commands = (("status",), ("runs",), ("get", "fleets"), ("get", "fleet", "a", "b"), ("history", "fleet", "a"))
    outcomes = {scene(*command, "--project", "nope") for command in commands}
    (outcome,) = outcomes
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "error: there is no project nope, or you have no role in it; `reconciler project list` shows yours\n"
    )


def test_the_loop_of_the_example_makes_a_schema_for_every_kind(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "repo" / "README.md").read_text(encoding="utf-8")
    script = text.partition("```sh\n")[2].partition("```")[0]
    program = tmp_path / ".venv" / "bin" / "reconciler"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$1 $2"\n')
    program.chmod(0o755)
    subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, check=True, timeout=30)
    made = {path.name: path.read_text() for path in (tmp_path / ".schemas").iterdir()}
    assert made == {f"{kind.name}.json": f"schema {kind.name}\n" for kind in names.KINDS}
