"""`plan` of what collectors run, and `--collector`: a Collector's own word on both sides."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.cli import collector
from reconciler.model.plan import PlanPlace
from tests import canaries
from tests.cli.conftest import Program
from tests.repositories import Repository
from tests.review import samples

Make = Callable[[str], Path]

EDGE = """\
apiVersion: service/v1
kind: Configuration
metadata: {name: edge}
spec:
  sources:
    - {type: filelog, parameters: [{name: include, value: [/var/log/a.log]}]}
  processors:
    - {name: smaller}
  destinations:
    - {name: out}
"""
SMALLER = """\
# Fewer requests.
apiVersion: service/v1
kind: Processor
metadata: {name: smaller}
spec: {type: batch, parameters: [{name: timeout, value: 100}]}
"""
OUT = """\
apiVersion: service/v1
kind: Destination
metadata: {name: out}
spec: {type: otlphttp, parameters: [{name: endpoint, value: "https://a.example:4318"}]}
"""


@pytest.fixture
def repository(alone: Program) -> Repository:
    """A Configuration for collectors on main, and a branch to change it on."""
    made = Repository.init(alone.folder / "work")
    for name, text in (("edge.yaml", EDGE), ("smaller.yaml", SMALLER), ("out.yaml", OUT)):
        made.write(name, text)
    made.commit()
    made.git("switch", "--quiet", "-c", "change")
    return made


@pytest.fixture
def program(alone: Program) -> Make:
    """Make a stand-in for a Collector: a script of the shell, with the file as $file."""

    def make(script: str) -> Path:
        path = alone.write(
            "otelcol", f'#!/bin/sh\n[ "$1" = validate ] || exit 9\nfile=${{2#--config=file:}}\n{script}\n'
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def planned(alone: Program, *arguments: str) -> dict[str, Any]:
    done = alone("plan", "work", "-o", "json", *arguments)
    assert done.code == 0, done.err
    return dict(json.loads(done.out)["entries"][0])


def change(repository: Repository, **files: str) -> None:
    for name, text in files.items():
        repository.write(f"{name}.yaml", text)
    repository.commit()


def test_the_plan_shows_what_collectors_would_run_instead(alone: Program, repository: Repository) -> None:
    change(repository, smaller=SMALLER.replace("100", "500"))
    [edge] = planned(alone)["renderings"]
    assert ("timeout: 100ms" in edge["old"], "timeout: 500ms" in edge["new"]) == (True, True)
    assert edge["components"]["batch/processor0"] == {"path": "smaller.yaml", "line": 2, "column": 1}
    told = alone("plan", "work").out
    assert (
        """
what collectors run
  ~ Configuration edge (edge.yaml:1)
      | processors:
      |   batch/processor0:
      -     timeout: 100ms
      +     timeout: 500ms
"""
        in told
    )


def test_what_no_longer_renders_is_invalid(alone: Program, repository: Repository) -> None:
    headers = f', {{name: headers, value: {{api-key: "{canaries.MARKER}key"}}}}]'
    change(repository, out=OUT.replace("]}", f"{headers}}}"))
    done = alone("plan", "work", "--fail-on", "invalid")
    assert done.code == 3
    assert done.out.startswith("Plan for ")
    assert "1 unfit for collectors" in done.out.splitlines()[0]
    assert "! out.yaml:1:1: Destination `out`: the service holds the value of `headers` as a secret" in done.out


def test_one_that_names_what_the_service_may_have_is_not_judged(alone: Program, repository: Repository) -> None:
    change(repository, edge=EDGE.replace("smaller", "elsewhere"))
    entry = planned(alone)
    assert "renderings" not in entry
    assert [one["unresolved"][0]["name"] for one in entry["statuses"] if "unresolved" in one] == ["elsewhere"]


REFUSES_500 = """\
grep -q 'timeout: 500ms' "$file" || exit 0
cat >&2 <<END
Error: failed to get config: cannot unmarshal the configuration: decoding failed due to the following error(s):

'processors' error reading configuration for "batch/processor0": decoding failed due to the following error(s):

'timeout' is too long
END
exit 1"""


def test_a_collector_that_refuses_the_result_is_told_at_the_component(
    alone: Program, repository: Repository, program: Make
) -> None:
    change(repository, smaller=SMALLER.replace("100", "500"))
    [edge] = planned(alone, "--collector", str(program(REFUSES_500)))["renderings"]
    assert edge["violations"] == [
        "smaller.yaml:2:1: the Collector says: 'processors' error reading configuration for \"batch/processor0\"; "
        "'timeout' is too long"
    ]
    done = alone("plan", "work", "--collector", str(program(REFUSES_500)), "--fail-on", "invalid")
    assert (done.code, "1 unfit for collectors" in done.out) == (3, True)
    assert f"reconciler plan --collector {program(REFUSES_500)} --base" in done.out


def test_what_a_collector_refused_before_too_is_no_news(alone: Program, repository: Repository, program: Make) -> None:
    change(repository, smaller=SMALLER.replace("100", "500"))
    refuses = program("echo no >&2; exit 1")
    [edge] = planned(alone, "--collector", str(refuses))["renderings"]
    assert (edge["violations"], edge["existing"]) == (["edge.yaml:1:1: the Collector says: no"], True)
    done = alone("plan", "work", "--collector", str(refuses), "--fail-on", "invalid")
    assert (done.code, "(was so before)" in done.out) == (0, True)


def test_what_a_collector_refuses_for_another_reason_is_news(
    alone: Program, repository: Repository, program: Make
) -> None:
    change(repository, smaller=SMALLER.replace("100", "500"))
    refuses = program('echo same >&2; grep timeout: "$file" >&2; exit 1')
    [edge] = planned(alone, "--collector", str(refuses))["renderings"]
    assert "existing" not in edge
    done = alone("plan", "work", "--collector", str(refuses), "--fail-on", "invalid")
    assert done.code == 3


OF_THE_SERVICE = OUT.replace("https://a.example:4318", "${env:DESTINATION_DEFAULT__URL}")


def test_a_variable_that_is_for_the_service_is_no_collectors(alone: Program, repository: Repository) -> None:
    change(repository, out=OF_THE_SERVICE)
    done = alone("plan", "work", "--fail-on", "invalid")
    assert (done.code, "names a variable that `secrets.env` keeps for the service" in done.out) == (3, True)
    change(repository, out=OF_THE_SERVICE.replace("DESTINATION_DEFAULT__", "FLEET_"))
    assert alone("plan", "work", "--fail-on", "invalid").code == 0


def test_the_settings_say_which_variables_are_for_the_service(alone: Program, repository: Repository) -> None:
    settings = {
        "repositories": [{"name": "edge", "url": str(repository.path), "branch": "main", "project": "web"}],
        "secrets": {"env": ["FLEET_<PROJECT>_*"]},
    }
    alone.write("settings.json", json.dumps(settings))
    change(repository, out=OUT.replace("https://a.example:4318", "${env:FLEET_WEB_URL}"))
    arguments = ("plan", "work", "--config", "settings.json", "--fail-on", "invalid")
    done = alone(*arguments)
    assert (done.code, "names a variable that `secrets.env` keeps for the service" in done.out) == (3, True)
    change(repository, out=OF_THE_SERVICE)
    assert alone(*arguments).code == 0


def test_only_what_differs_is_validated(alone: Program, repository: Repository, program: Make) -> None:
    change(repository, fleet="apiVersion: service/v1\nkind: Fleet\nmetadata: {name: edge}\n")
    assert "renderings" not in planned(alone, "--collector", str(program("exit 1")))


def test_the_text_of_a_configuration_is_validated_too(alone: Program, repository: Repository, program: Make) -> None:
    raw = "apiVersion: service/v1\nkind: Configuration\nmetadata: {name: own}\nspec: {raw: 'service: {}'}\n"
    change(repository, own=raw)
    refuses = program("grep -q '^service' \"$file\" && { echo 'Error: no pipelines'; exit 1; }; exit 0")
    done = alone("plan", "work", "--collector", str(refuses))
    assert "! own.yaml:1:1: the Collector says: no pipelines\n" in done.out
    assert done.out.count("service: {}") == 1  # the field of the Configuration shows it already


def test_it_gets_no_variable_of_ours_and_writes_into_an_empty_folder_that_goes(
    alone: Program, repository: Repository, program: Make
) -> None:
    change(repository, smaller=SMALLER.replace("100", "500"))
    seen = alone.folder / "seen"
    looks = program(f'{{ export -p; pwd; /bin/ls -A; /bin/ls -A "$HOME"; }} >> "{seen}"')
    planned_with = alone(
        "plan", "work", "--collector", str(looks), HTTPS_PROXY="http://proxy.example", TOKEN=f"{canaries.MARKER}token"
    )
    assert planned_with.code == 0
    told = seen.read_text()
    assert canaries.MARKER not in told
    assert "proxy" not in told
    folders = [Path(line) for line in told.splitlines() if line.startswith("/")]
    assert folders
    assert not any(folder.exists() for folder in folders)


def test_a_variable_without_a_value_is_stood_in_for_where_the_collector_needs_one(
    alone: Program, repository: Repository, program: Make
) -> None:
    raw = "apiVersion: service/v1\nkind: Configuration\nmetadata: {name: own}\nspec: {raw: 'a: ${env:A}'}\n"
    change(repository, own=raw)
    needs = program('[ -n "$A" ] || { echo "a: must be set"; exit 1; }; case "$A" in http*) exit 0;; esac; exit 2')
    [own] = planned(alone, "--collector", str(needs))["renderings"]
    assert "violations" not in own
    without = program('[ -z "$A" ] || { echo "a: is a number"; exit 1; }')
    [own] = planned(alone, "--collector", str(without))["renderings"]
    assert "violations" not in own


@pytest.mark.parametrize(
    ("text", "is_run"),
    [
        ("a: ${env:A}", True),
        ("a: ${A}", True),
        ("a: ${env:A:-x}", True),
        ("a: $${file:/etc/passwd}", True),
        ("a: ${file:/etc/passwd}", False),
        ("a: $$${file:/etc/passwd}", False),
        ("a: ${https://collector.example/a}", False),
        ("a: ${http://collector.example/a}", False),
        ("a: ${yaml:a::b}", False),
        ("a: ${${env:A:-file}:/etc/passwd}", False),
        ("a: ${env:A:-${file:/etc/passwd}}", False),
        ("a: $${env:A}{file:/etc/passwd}", False),
        ("a: ${ENV:A}", False),
        ("a: ${", False),
        ("a: $${env:A}${file:/etc/passwd}", False),
        ("a: $$${env:A}${file:/etc/passwd}", False),
        (r'a: "\x24{file:/etc/passwd}"', False),
        (r'a: [{"\x24{file:/etc/passwd}": 1}]', False),
        (r'a: ${env:A:-["\x24\x7bfile:/etc/passwd\x7d"]}', False),
        ("a: ${env:A:-!!binary JHtmaWxlOi9ldGMvcGFzc3dkfQ==}", False),
        ("a: ${env:A:-https://collector.example:4318/a b}", True),
    ],
)
def test_what_would_read_a_file_or_ask_the_network_is_not_given_to_it(
    alone: Program, program: Make, text: str, is_run: bool
) -> None:
    ran = alone.folder / "ran"
    one = samples.rendered().entries[0].renderings[3]
    plan = samples.plan(samples.entry(renderings=(replace(one, new=text),)))
    [entry] = collector.validated(plan, program(f'echo ran > "{ran}"')).entries
    assert (ran.exists(), entry.renderings[0].violations) == (is_run, ())
    told = "1 Configuration not validated, new for instance: it has a reference, `${...}`, that is no variable."
    assert entry.notes == (() if is_run else (told,))


@pytest.mark.parametrize("text", ["a: !!binary JHtmaWxlOi9ldGMvcGFzc3dkfQ==", "a: [", "<<: {a: 1}"])
def test_what_cannot_be_read_is_not_given_to_it(alone: Program, program: Make, text: str) -> None:
    ran = alone.folder / "ran"
    one = samples.rendered().entries[0].renderings[3]
    plan = samples.plan(samples.entry(renderings=(replace(one, new=text),)))
    [entry] = collector.validated(plan, program(f'echo ran > "{ran}"')).entries
    assert not ran.exists()
    assert entry.notes == ("1 Configuration not validated, new for instance: it cannot be read as YAML here.",)


def test_one_that_hangs_is_ended(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "SECONDS", 1)
    one = samples.rendered().entries[0].renderings[3]
    [entry] = collector.validated(samples.plan(samples.entry(renderings=(one,))), program("/bin/sleep 60")).entries
    [violation] = entry.renderings[0].violations
    assert violation.startswith("teams/orders/all.yaml:12:1: the Collector says: `validate` takes more than")


def test_there_is_so_much_time_for_all(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "TOGETHER", -1.0)
    [entry] = collector.validated(samples.rendered(), program("exit 1")).entries
    assert entry.notes == ("5 Configurations not validated, long for instance: the Collector takes too long.",)


def test_much_output_is_cut(program: Make) -> None:
    one = samples.rendered().entries[0].renderings[3]
    loud = program("/usr/bin/yes x | /usr/bin/head -c 9000000; exit 1")
    [entry] = collector.validated(samples.plan(samples.entry(renderings=(one,))), loud).entries
    assert 0 < len(entry.renderings[0].violations[0]) < 3 * collector.OUTPUT


def test_several_components_that_are_wrong_are_told_apart(program: Make) -> None:
    said = (
        "a/b: first\\nmore of it\\notlphttp/gateway-0: second\\nfilelog/source01: of neither\\nfilelog/source0: third"
    )
    one = samples.rendered().entries[0].renderings[-1]
    places = {
        "otlphttp/gateway-0": PlanPlace(path="out.yaml", line=3),
        "filelog/source0": PlanPlace(path="in.yaml", line=4),
    }
    plan = samples.plan(samples.entry(renderings=(replace(one, components=places),)))
    script = f"""grep -q beginning "$file" || exit 0; printf '{said}'; exit 1"""
    assert collector.validated(plan, program(script)).entries[0].renderings[0].violations == (
        "teams/orders/all.yaml:12:1: the Collector says: a/b: first; more of it",
        "out.yaml:3:1: the Collector says: otlphttp/gateway-0: second; filelog/source01: of neither",
        "in.yaml:4:1: the Collector says: filelog/source0: third",
    )


def test_a_program_that_cannot_be_run_is_an_error(alone: Program, repository: Repository) -> None:
    change(repository, smaller=SMALLER.replace("100", "500"))
    assert alone("plan", "work", "--collector", "nowhere").code == 2
    (alone.folder / "no-program").write_text("nothing\n")
    (alone.folder / "no-program").chmod(0o755)
    done = alone("plan", "work", "--collector", "no-program")
    assert (done.code, done.out) == (1, "")
    assert "--collector" in done.err
    assert "Exec format error" in done.err
