"""`validate`: which files count, what is said about them, and how it ends."""

import json
import os
import threading
from pathlib import Path

from tests import needs
from tests.cli.conftest import Program

FLEET = "apiVersion: service/v1\nkind: Fleet\nmetadata: {name: NAME}\n"
BAD = "apiVersion: service/v1\nkind: Fleet\nmetadata:\n  name: NAME\n  colour: red\nspec: []\n"


def fleet(name: str) -> str:
    return FLEET.replace("NAME", name)


def test_good_files_are_fine(alone: Program) -> None:
    alone.write("config/a.yaml", fleet("a") + "---\n" + fleet("b"))
    alone.write("config/c.json", '{"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "c"}}')
    assert alone("validate", "config") == (0, "", "2 files, 3 resources, 0 skipped, 0 violations\n")


def test_one_of_a_thing_is_not_several(alone: Program) -> None:
    alone.write("a.yaml", FLEET.replace("NAME", "a") + "colour: red\n")
    outcome = alone("validate", "a.yaml")
    assert (outcome.code, outcome.err) == (3, "1 file, 1 resource, 0 skipped, 1 violation\n")


def test_every_violation_is_at_its_place_in_order(alone: Program) -> None:
    alone.write("b.yaml", "\n" + BAD.replace("NAME", "b"))
    alone.write("a/a.yaml", fleet("x") + "---\n" + BAD.replace("NAME", "a"))
    outcome = alone("validate", "b.yaml", "a")
    places = [line.split(": ")[:2] for line in outcome.out.splitlines()]
    assert places == [
        ["a/a.yaml:9:3", "/metadata/colour"],
        ["a/a.yaml:10:7", "/spec"],
        ["b.yaml:6:3", "/metadata/colour"],
        ["b.yaml:7:7", "/spec"],
    ]
    assert (outcome.code, outcome.err) == (3, "2 files, 3 resources, 0 skipped, 4 violations\n")


def test_json_says_the_same(alone: Program) -> None:
    alone.write("a.yaml", BAD.replace("NAME", "a"))
    text, machine = alone("validate", "a.yaml"), alone("validate", "a.yaml", "-o", "json")
    assert alone("validate", "a.yaml", "--output", "json") == machine
    found = json.loads(machine.out)
    lines = ["{path}:{line}:{column}: {pointer}: {message}".format(**each) for each in found.pop("violations")]
    assert lines == text.out.splitlines()
    assert (found, machine.code) == ({"warnings": [], "files": 1, "resources": 1, "skipped": 0}, 3)


def test_a_text_that_cannot_be_read_is_a_violation(alone: Program) -> None:
    alone.write("a.yaml", "a: 1\na: 2\n")
    alone.write("b.json", "{")
    (alone.folder / "c.yaml").write_bytes(b"a: \xff\n")
    outcome = alone("validate", ".")
    assert [line.split(": ")[0] for line in outcome.out.splitlines()] == ["a.yaml:2:1", "b.json:1:2", "c.yaml:1:4"]
    assert outcome.code == 3


def test_the_same_name_twice_names_the_other_place(alone: Program) -> None:
    alone.write("a.yaml", fleet("x"))
    alone.write("b.yaml", fleet("y") + "---\n" + fleet("x"))
    assert alone("validate", "a.yaml", "b.yaml") == (
        3,
        "a.yaml:1:1: Fleet x is given more than once, also at b.yaml:5:1; keep one of them\n"
        "b.yaml:5:1: Fleet x is given more than once, also at a.yaml:1:1; keep one of them\n",
        "2 files, 3 resources, 0 skipped, 2 violations\n",
    )


def test_a_file_that_is_named_twice_is_read_once(alone: Program) -> None:
    alone.write("config/a.yaml", fleet("a"))
    assert alone("validate", "config", "config/a.yaml", "./config").code == 0


def test_files_count_as_in_a_repository(alone: Program) -> None:
    for name in (
        "a.yaml",
        "b.yml",
        "c.json",
        "d.txt",
        "E.YAML",
        ".hidden/f.yaml",
        "g/.h/i.yaml",
        "j/k.yaml",
        "j/l.yaml",
    ):
        alone.write(f"config/{name}", "{}")
    alone.write("config/.m.yaml", "{}")
    alone.write("config/j/.serviceignore", "k.*\n")
    outside = alone.write("outside.yaml", fleet("x"))
    (alone.folder / "config/link.yaml").symlink_to(outside)
    (alone.folder / "config/folder").symlink_to(alone.folder, target_is_directory=True)
    outcome = alone("validate", "config")
    assert outcome == (0, "", "6 files, 0 resources, 6 skipped, 0 violations\n")


def test_what_is_not_ours_is_skipped(alone: Program) -> None:
    alone.write("a.yaml", "apiVersion: apps/v1\nkind: Deployment\n---\njust: text\n---\n---\n" + fleet("a"))
    assert alone("validate", "a.yaml") == (0, "", "1 file, 1 resource, 2 skipped, 0 violations\n")


def test_a_further_api_version_is_not_accepted_by_itself(alone: Program) -> None:
    alone.write("a.yaml", fleet("a").replace("service/v1", "acme.example/v2"))
    assert alone("validate", "a.yaml").code == 3


def test_a_variable_that_is_for_the_service_is_no_collectors(alone: Program) -> None:
    text = """\
apiVersion: service/v1
kind: Destination
metadata: {name: out}
spec:
  type: otlphttp
  parameters:
    - {name: endpoint, value: "https://${env:GATEWAY}"}
    - {name: headers, value: {Authorization: "${env:DESTINATION_DEFAULT__TOKEN}"}}
"""
    alone.write("a.yaml", text)
    outcome = alone("validate", "a.yaml")
    told = (
        "a.yaml:8:46: /spec/parameters/1/value/Authorization: names a variable that `secrets.env` keeps for the service"
    )
    assert (outcome.code, outcome.out.partition(";")[0]) == (3, told)
    assert outcome.err == "1 file, 1 resource, 0 skipped, 1 violation\n"


def test_standard_input(alone: Program) -> None:
    outcome = alone("validate", "-", stdin=BAD.replace("NAME", "a"))
    assert outcome.out.startswith("<stdin>:5:3: /metadata/colour: ")
    assert alone("validate", "-", stdin=b"").code == 0


def test_a_file_with_another_ending_is_refused(alone: Program) -> None:
    alone.write("a.txt", fleet("a"))
    assert alone("validate", "a.txt") == (1, "", "error: a.txt is no .yaml, .yml or .json file\n")


def test_a_file_that_is_too_large_is_not_read(alone: Program) -> None:
    with (alone.folder / "a.yaml").open("wb") as file:
        file.truncate(1 << 40)
    outcome = alone("validate", "a.yaml")
    assert outcome.code == 3
    assert outcome.out.startswith("a.yaml:1:1: ")


def test_names_and_keys_cannot_act_on_the_terminal(alone: Program) -> None:
    alone.write("a\x1b[31m.yaml", fleet("a") + '"\\e[31m\\n": 1\n')
    outcome = alone("validate", ".")
    assert outcome.code == 3
    assert "\x1b" not in outcome.out
    assert outcome.out.startswith("a\\x1b[31m.yaml:4:1: ")
    assert outcome.out.count("\n") == 1


def test_no_value_is_repeated(alone: Program) -> None:
    alone.write("a.yaml", fleet("hush-1 ") + "spec: hush-2\nstatus: {}\nhush: 3\n")
    outcome = alone("validate", "a.yaml")
    assert outcome.code == 3
    assert "hush-" not in outcome.out


def test_a_file_that_gives_an_error_is_a_violation(alone: Program) -> None:
    broken = Path("/proc/self/mem")  # opens, and then cannot be read from its start
    if not broken.exists():
        needs.lacking("/proc/self/mem")
    (alone.folder / "a.yaml").symlink_to(broken)
    assert alone("validate", "a.yaml").out == "a.yaml:1:1: cannot be read: input/output error\n"


def test_a_named_pipe_in_a_folder_is_not_waited_for(alone: Program) -> None:
    os.mkfifo(alone.folder / "pipe.yaml")
    alone.write("a.yaml", fleet("a"))
    assert alone("validate", ".").code == 0


def test_the_order_does_not_depend_on_the_folder(alone: Program, tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.yaml", "a.yaml", "Z.yaml"):
        alone.write(f"config/{name}", BAD.replace("NAME", name.replace("/", "-")))
    outcomes = set()
    threads = [threading.Thread(target=lambda: outcomes.add(alone("validate", "config"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (outcome,) = outcomes
    found = list(dict.fromkeys(line.split(":")[0] for line in outcome.out.splitlines()))
    assert found == ["config/Z.yaml", "config/a.yaml", "config/a/z.yaml", "config/b.yaml"]
    assert tmp_path.name not in outcome.out


SETTINGS = """
repositories:
  - name: staging
    url: https://git.example.org/telemetry.git
    include: [/shared/, /environments/staging/]
    project: staging
  - name: production
    url: https://git.example.org/telemetry.git
    include: [/shared/, /environments/production/]
    project: production
"""
SHARED_TYPE = """
apiVersion: service/v1
kind: DestinationType
metadata: {name: own}
spec: {parameters: [{name: level, type: enum, validValues: [low, high]}]}
"""


def own(name: str, level: str) -> str:
    spec = f"{{type: own, parameters: [{{name: level, value: {level}}}]}}"
    return f"apiVersion: service/v1\nkind: Destination\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def environments(alone: Program, **files: str) -> None:
    alone.write("settings.yaml", SETTINGS)
    alone.write("shared/own.yaml", SHARED_TYPE)
    for environment in ("staging", "production"):
        alone.write(f"environments/{environment}/siem.yaml", own("siem", "low"))
    for path, text in files.items():
        alone.write(f"environments/{path.replace('_', '/')}.yaml", text)


def test_with_settings_each_project_has_its_own_resources(alone: Program) -> None:
    environments(alone)
    counts = "3 files, 3 resources, 0 skipped"
    assert alone("validate", "shared", "environments").err == f"{counts}, 2 violations\n"
    assert alone("validate", "shared", "environments", "--config", "settings.yaml") == (
        0,
        "",
        f"{counts}, 0 violations\n",
    )


def test_with_settings_what_is_wrong_in_one_project_alone_names_it(alone: Program) -> None:
    environments(alone, staging_web=FLEET.replace("NAME", "web") + "---\n" + own("siem", "high"))
    alone.write("shared/bad.yaml", own("bad", "middle"))
    alone.write(
        "shared/uses.yaml",
        "apiVersion: service/v1\nkind: Configuration\nmetadata: {name: uses}\nspec: {destinations: [{name: mail}]}\n",
    )
    alone.write("environments/production/mail.yaml", own("mail", "low"))
    outcome, staging = alone("validate", ".", "--config", "settings.yaml"), "environments/staging"
    twice = "Destination siem is given more than once, also at"
    assert [line.partition(": ")[0] + ": " + line.rpartition(": ")[2] for line in outcome.out.splitlines()] == [
        f"{staging}/siem.yaml:1:1: {twice} {staging}/web.yaml:5:1; keep one of them",
        f"{staging}/web.yaml:5:1: {twice} {staging}/siem.yaml:1:1; keep one of them",
        "shared/bad.yaml:4:53: is not one of `low`, `high`",
        "shared/uses.yaml:4:30: there is no Destination mail here and none is built in (project staging)",
    ]
    assert outcome.code == 3


def test_with_settings_files_that_no_repository_has_are_left_out(alone: Program) -> None:
    environments(alone)
    alone.write("drafts/a.yaml", BAD)
    alone.write("shared/drafts/.serviceignore", "*\n")
    alone.write("shared/drafts/b.yaml", BAD)
    outcome = alone("validate", "drafts/a.yaml", "shared/drafts/b.yaml", "shared/own.yaml", "--config", "settings.yaml")
    assert outcome == (
        0,
        "",
        "2 files left out, which no repository of settings.yaml has\n1 file, 1 resource, 0 skipped, 0 violations\n",
    )


def test_settings_say_which_versions_are_accepted_and_what_of_unknown_parameters(alone: Program) -> None:
    environments(alone)
    more = "api: {apiVersions: [service/v1, acme.example/v2]}\nresources: {unknownParameters: refuse}\n"
    alone.write("settings.yaml", SETTINGS + more)
    alone.write("shared/c.yaml", own("c", "low").replace("service/v1", "acme.example/v2"))
    assert alone("validate", "shared", "--config", "settings.yaml").code == 0
    alone.write("shared/c.yaml", own("c", "low").replace("level", "levle"))
    assert alone("validate", "shared", "--config", "settings.yaml").code == 3
    assert alone("validate", "shared").code == 0
