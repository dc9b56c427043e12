"""`diff`, `apply --dry-run`, `history` and `runs` show fields, against a real daemon."""

import json
from collections.abc import Iterator

import pytest

from tests import daemons
from tests.cli.conftest import Program, Scene
from tests.repositories import Repository


def webhook(name: str, port: int, token: str = "") -> str:
    headers = [{"name": "headers", "value": {"Authorization": token}}] if token else []
    parameters = [{"name": "hostname", "value": "logs.example.org"}, {"name": "port", "value": port}, *headers]
    spec = {"type": "webhook", "parameters": parameters}
    return json.dumps({"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The repository was changed once; a destination of the API, too."""
    folder = tmp_path_factory.mktemp("scene")
    source = Repository.init(folder / "source")
    source.write("git.json", webhook("of-git", 443))
    first = source.commit()
    with daemons.running(folder / "daemon", repositories=[daemons.watched("telemetry", source.path)]) as daemon:
        daemon.run_of("telemetry", first)
        source.write("git.json", webhook("of-git", 8443))
        daemon.run_of("telemetry", source.commit())
        program = Program(folder, {"SERVICE_SERVER": f"http://127.0.0.1:{daemon.port}", "SERVICE_API_KEY": daemon.key})
        for port, token in ((443, "canary-old"), (8443, "canary-new")):
            assert program("apply", "-f", "-", stdin=webhook("of-api", port, token)).code == 0
        yield Scene(daemon, source, program)


def test_history_shows_one_version_and_the_fields_between_two(scene: Scene) -> None:
    version = scene("history", "destination/of-api", "--version", "1").out
    assert "value: 443" in version
    assert "version: 1" in version
    assert (
        json.loads(scene("history", "destination/of-api", "--version", "1", "-o", "json").out)["kind"] == "Destination"
    )
    fields = """Destination/of-api version 1 -> 2
  ~ spec.parameters[port].value: 443 -> 8443
  ~ spec.parameters[headers].value.Authorization: (sensitive, changed)
"""
    assert scene("history", "destination", "of-api", "--diff", "1", "2") == (0, fields, "")
    told = json.loads(scene("history", "destination", "of-api", "--diff", "1", "2", "-o", "json").out)
    assert (told["from"], told["version"], len(told["fields"])) == (1, 2, 2)
    same = scene("history", "destination", "of-api", "--diff", "2", "2")
    assert same == (0, "Destination/of-api version 2 -> 2\n  no field differs\n", "")
    missing = scene("history", "destination", "of-api", "--version", "9")
    assert (missing.code, missing.err) == (1, "error: there is no version 9 of Destination of-api\n")
    assert scene("history", "destination", "of-api", "--version", "1", "--diff", "1", "2").code == 2


def test_a_dry_run_and_a_diff_of_files_show_fields(scene: Scene) -> None:
    (scene.program.folder / "set").mkdir(exist_ok=True)
    scene.program.write("set/same.json", webhook("of-api", 8443, "(sensitive)"))
    assert scene("diff", "-f", "set") == (0, "", "1 unchanged (dry run)\n")
    assert scene("diff", "-f", "set", "--detailed-exitcode").code == 0
    new = """apiVersion: service/v1
kind: Source
metadata: {name: app}
spec: {type: otlp}
"""
    scene.program.write("set/new.yaml", new)
    told = 'Source/app created (dry run)\n  + spec.type: "otlp"\n'
    assert scene("diff", "-f", "set") == (0, told, "1 unchanged, 1 created (dry run)\n")
    assert scene("diff", "-f", "set", "--detailed-exitcode").code == 2
    assert scene("apply", "-f", "set", "--dry-run") == (
        0,
        f"{told}Destination/of-api unchanged (dry run)\n",
        "1 unchanged, 1 created (dry run)\n",
    )
    scene.program.write("set/bad.yaml", new.replace("{type: otlp}", "{type: 3}").replace("app", "bad"))
    assert scene("diff", "-f", "set", "--detailed-exitcode").code == 3


def test_a_diff_of_files_shows_the_fields_of_what_would_be_refused_too(scene: Scene) -> None:
    scene.program.write("others/git.json", webhook("of-git", 9443))
    why = "managed by the repository telemetry; change it there"
    told = f"""Destination/of-git forbidden (dry run) (others/git.json:1): {why}
  ~ spec.parameters[port].value: 8443 -> 9443
"""
    assert scene("diff", "-f", "others") == (3, told, "1 forbidden (dry run)\n")
    scene.program.write("others/git.json", webhook("of-api", 99_999, "canary-new"))
    told = """Destination/of-api invalid (dry run) (others/git.json:1)
  /spec/parameters/1/value: is greater than 65535
  ~ spec.parameters[port].value: 8443 -> 99999
  ~ spec.parameters[headers].value.Authorization: (sensitive, changed)
"""
    assert scene("apply", "--dry-run", "-f", "others") == (3, told, "1 invalid (dry run)\n")


def test_a_dry_run_of_a_delete_shows_what_goes(scene: Scene) -> None:
    told = """Destination/of-api deleted (dry run)
  - spec.parameters[hostname].value: "logs.example.org"
  - spec.parameters[port].value: 8443
  - spec.parameters[headers].value.Authorization: (sensitive)
  - spec.type: "webhook"
"""
    assert scene("delete", "destination/of-api", "--dry-run") == (0, told, "1 deleted (dry run)\n")
    assert scene("get", "destination/of-api").code == 0


def test_a_run_shows_the_fields_that_it_changed(scene: Scene) -> None:
    shown = scene("runs", "--last", "telemetry", "--fields").out
    assert shown.startswith(
        "Destination/of-git configured (git.json:1)\n  ~ spec.parameters[port].value: 443 -> 8443\n\nSTATUS"
    )
    run = json.loads(scene("runs", "--last", "telemetry", "--fields", "-o", "json").out)
    assert [len(one["fields"]) for one in run["changes"]] == [1]
    assert scene("runs", "--fields").code == 2


def test_a_diff_of_a_suspended_repository_shows_what_drifted(scene: Scene) -> None:
    same = scene("diff", "telemetry")
    assert (same.code, same.err) == (0, "")
    assert "with the store\n" in same.out
    assert "nothing to merge" not in same.out
    assert scene("diff", "telemetry", "--detailed-exitcode").code == 0
    assert scene("suspend", "telemetry", "--reason", "an incident").code == 0
    assert scene("apply", "-f", "-", stdin=webhook("of-git", 9443)).code == 0
    told = scene("diff", "telemetry", "--detailed-exitcode")
    assert (told.code, told.err) == (2, "")
    assert "      ~ spec.parameters[port].value: 9443 -> 8443" in told.out
    assert scene("resume", "telemetry", "--wait").code == 0
    assert scene("diff", "telemetry", "--detailed-exitcode").code == 0


@pytest.mark.parametrize("arguments", [[], ["telemetry", "-f", "."]])
def test_a_diff_is_of_a_repository_or_of_files(scene: Scene, arguments: list[str]) -> None:
    assert scene("diff", *arguments).code == 2
    assert scene("diff", *arguments, "--detailed-exitcode").code == 1  # 2 means that something differs


def test_an_unknown_repository_is_told(scene: Scene) -> None:
    outcome = scene("diff", "none")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: there is no repository none")
