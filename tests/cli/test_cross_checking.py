"""`validate` over several documents: types and who uses them, names that nobody bears, what is reserved."""

import json
import time
from pathlib import Path

import pytest

from reconciler.model import type_checks
from tests.cli.conftest import Program

EXAMPLE = Path(__file__).parents[2] / "examples" / "repo"


def document(kind: str, name: str, spec: str) -> str:
    return f"apiVersion: service/v1\nkind: {kind}\nmetadata:\n  name: {name}\nspec: {spec}\n"


def given(*parameters: str) -> str:
    return f"parameters: [{', '.join(parameters)}]"


SIZE = given("{name: size, type: int, required: true, minimum: 1}", "{name: mode, type: enum, validValues: [a, b]}")
ACME = document("DestinationType", "acme", f"{{{SIZE}}}")
BAD_ACME = document("DestinationType", "acme", "{parameters: [{name: mode, type: enum}]}")
FITS = document("Destination", "d", f"{{type: acme, {given('{name: size, value: 5}')}}}")
UNKNOWN = document("Destination", "d", f"{{type: acme, {given('{name: size, value: 1}', '{name: mod, value: a}')}}}")
STORED = "{name: hostname, value: h}, {name: persistent_queue_storage, value: NAME}"
EMPTY = document("Destination", "d", "{type: acme}")


@pytest.mark.parametrize(
    ("files", "said", "summary"),
    [
        pytest.param([ACME, FITS], [], "2 resources, 0 skipped, 0 violations", id="what fits its type"),
        pytest.param(
            [UNKNOWN, ACME],
            [
                "0.yaml:5:64: warning: /spec/parameters/1/name: is not a parameter of the type `acme`;"
                " its parameters are `size`, `mode`; it is kept all the same, and masked",
            ],
            "2 resources, 0 skipped, 0 violations, 1 warning",
            id="what its type does not know, though that comes later",
        ),
        pytest.param(
            [EMPTY.replace("acme", "webhook")],
            ["0.yaml:5:7: /spec/parameters: `hostname` is required and has no default"],
            "1 resource, 0 skipped, 1 violation",
            id="a type that is built in",
        ),
        pytest.param(
            [EMPTY.replace("acme", "webhok:3")],
            ["0.yaml:5:14: warning: /spec/type: there is no DestinationType webhok here and none is built in"],
            "1 resource, 0 skipped, 0 violations, 1 warning",
            id="a type that is nowhere",
        ),
        pytest.param(
            [document("Configuration", "c", "{sources: [{name: s, processors: [{type: p}]}, {type: otlp}]}")],
            [
                "0.yaml:5:25: warning: /spec/sources/0/name: there is no Source s here and none is built in",
                "0.yaml:5:48: warning: /spec/sources/0/processors/0/type:"
                " there is no ProcessorType p here and none is built in",
            ],
            "1 resource, 0 skipped, 0 violations, 2 warnings",
            id="what a configuration names, at any depth",
        ),
        pytest.param(
            [
                document(
                    "Configuration", "c", f"{{destinations: [{{type: acme, {given('{name: size, value: x}')}}}]}}"
                ),
                ACME,
            ],
            ["0.yaml:5:69: /spec/destinations/0/parameters/0/value: is not an integer"],
            "2 resources, 0 skipped, 1 violation",
            id="a component in place",
        ),
        pytest.param(
            [document("Source", "s", "{type: otlp, colour: red, parameters: [{name: grpc_port, value: 0}]}")],
            [
                "0.yaml:5:20: /spec/colour: is not a known field;"
                " the fields here are `type`, `parameters`, `processors`, `disabled`",
            ],
            "1 resource, 0 skipped, 1 violation",
            id="a document that is wrong by itself is not held against a type",
        ),
        pytest.param(
            [document("Source", "s", "{type: otlp, parameters: [{name: grpc_port}]}")],
            ["0.yaml:5:33: /spec/parameters/0/value: is required"],
            "1 resource, 0 skipped, 1 violation",
            id="parameters without the shape of parameters are not held against the type",
        ),
        pytest.param(
            [FITS, EMPTY.replace("name: d", "name: e"), "\n" + BAD_ACME],
            [
                "0.yaml:5:14: /spec/type: the DestinationType acme is invalid and not stored yet; mend that first",
                "1.yaml:5:14: /spec/type: the DestinationType acme is invalid and not stored yet; mend that first",
                "2.yaml:6:21: /spec/parameters/0/validValues: is required and not empty for the type `enum`",
            ],
            "3 resources, 0 skipped, 3 violations",
            id="a type that is not valid",
        ),
        pytest.param(
            [BAD_ACME],
            ["0.yaml:5:21: /spec/parameters/0/validValues: is required and not empty for the type `enum`"],
            "1 resource, 0 skipped, 1 violation",
            id="a type that is not valid and not used",
        ),
        pytest.param(
            [ACME, EMPTY, ACME],
            [
                "0.yaml:1:1: DestinationType acme is given more than once, also at 2.yaml:1:1; keep one of them",
                "1.yaml:5:14: /spec/type: the DestinationType acme is invalid and not stored yet; mend that first",
                "2.yaml:1:1: DestinationType acme is given more than once, also at 0.yaml:1:1; keep one of them",
            ],
            "3 resources, 0 skipped, 3 violations",
            id="a type that stands twice",
        ),
        pytest.param(
            [ACME.replace("acme", "otlp"), EMPTY.replace("acme", "otlp")],
            ["1.yaml:5:7: /spec/parameters: `size` is required and has no default"],
            "2 resources, 0 skipped, 1 violation",
            id="a type with the name of one that is built in, which comes first",
        ),
        pytest.param(
            [ACME.replace("acme", "webhook"), EMPTY.replace("acme", "webhook")],
            [
                "0.yaml:1:1: the name is reserved for what is built in; choose another",
                "1.yaml:5:7: /spec/parameters: `hostname` is required and has no default",
            ],
            "2 resources, 0 skipped, 2 violations",
            id="a reserved name",
        ),
        pytest.param(
            [
                document("Extension", "file_storage_persistent_queue", "{type: file_storage}"),
                document("ExtensionType", "file_storage", "{}"),
            ],
            [
                "0.yaml:1:1: the name is reserved for what is built in; choose another",
                "1.yaml:1:1: the name is reserved for what is built in; choose another",
            ],
            "2 resources, 0 skipped, 2 violations",
            id="the other reserved names",
        ),
        pytest.param(
            [document("Destination", "d", f"{{type: webhook, {given(STORED.replace('NAME', 'hush-1'))}}}")],
            [
                "0.yaml:5:104: warning: /spec/parameters/1/value:"
                " there is no Extension of this name here and none is built in"
            ],
            "1 resource, 0 skipped, 0 violations, 1 warning",
            id="the value of a parameter, which is not repeated",
        ),
        pytest.param(
            [
                document("Extension", "e", "{type: other}"),
                document("Destination", "d", f"{{type: webhook, {given(STORED.replace('NAME', 'e'))}}}"),
                document("ExtensionType", "other", "{}"),
            ],
            [
                "1.yaml:5:104: /spec/parameters/1/value: names an Extension of another type; name one of the type"
                " `file_storage`"
            ],
            "3 resources, 0 skipped, 1 violation",
            id="an extension of another type that should keep a queue",
        ),
        pytest.param(
            [
                document("Extension", "e", "{type: file_storage}"),
                document("Destination", "d", f"{{type: webhook, {given(STORED.replace('NAME', 'e'))}}}"),
                document("Destination", "e", f"{{type: webhook, {given('{name: hostname, value: h}')}}}"),
            ],
            [],
            "3 resources, 0 skipped, 0 violations",
            id="an extension that keeps a queue",
        ),
        pytest.param(
            [document("Source", "s", "{type: /}")],
            [
                "0.yaml:5:14: /spec/type: must be 1 to 63 letters, digits, `-`, `_` or `.`, and begin and end with a"
                " letter or digit, with an optional version after `:`"
            ],
            "1 resource, 0 skipped, 1 violation",
            id="a name that is none is told once",
        ),
    ],
)
def test_resources_are_judged_together(alone: Program, files: list[str], said: list[str], summary: str) -> None:
    for index, text in enumerate(files):
        alone.write(f"{index}.yaml", text)
    out = "".join(f"{line}\n" for line in said)
    counted = f"{len(files)} file{'s' if len(files) > 1 else ''}, {summary}\n"
    assert alone("validate", ".") == (0 if "0 violations" in summary else 3, out, counted)


MISSING = EMPTY.replace("acme", "nowhere")
WARNING = "there is no DestinationType nowhere here and none is built in"


def test_warnings_and_violations_share_one_order(alone: Program) -> None:
    source = UNKNOWN.replace("acme", "otlp").replace("Destination", "Source")
    bad = source.replace("mod,", "grpc_port,").replace("name: d", "name: e")
    alone.write("b.yaml", MISSING + "---\n" + source.replace(", {name: mod, value: a}", "") + "---\n" + bad)
    alone.write("a.yaml", document("Fleet", "a", "[]") + "---\n" + MISSING.replace("name: d", "name: e"))
    known = "its parameters are `listen_address`, `grpc_enabled`, `grpc_port`, `http_enabled`, `http_port`, "
    known += "`max_recv_msg_size_mib`, `enable_tls`, `cert_file`, `key_file`, `mutual_tls`, `ca_file`"
    known += "; it is kept all the same, and masked"
    assert alone("validate", "b.yaml", "a.yaml") == (
        3,
        "a.yaml:5:7: /spec: is not an object\n"
        f"a.yaml:11:14: warning: /spec/type: {WARNING}\n"
        f"b.yaml:5:14: warning: /spec/type: {WARNING}\n"
        f"b.yaml:11:40: warning: /spec/parameters/0/name: is not a parameter of the type `otlp`; {known}\n"
        "b.yaml:17:82: /spec/parameters/1/value: is not an integer\n",
        "2 files, 5 resources, 0 skipped, 2 violations, 3 warnings\n",
    )


def test_strict_makes_warnings_violations(alone: Program) -> None:
    alone.write("a.yaml", MISSING)
    assert alone("validate", "a.yaml", "--strict") == (
        3,
        f"a.yaml:5:14: /spec/type: {WARNING}\n",
        "1 file, 1 resource, 0 skipped, 1 violation\n",
    )


@pytest.mark.parametrize(("arguments", "code", "filled"), [((), 0, "warnings"), (("--strict",), 3, "violations")])
def test_json_has_warnings_in_a_list_of_their_own(
    alone: Program, arguments: tuple[str, ...], code: int, filled: str
) -> None:
    alone.write("a.yaml", MISSING)
    outcome = alone("validate", "a.yaml", "-o", "json", *arguments)
    finding = {"path": "a.yaml", "line": 5, "column": 14, "pointer": "/spec/type", "message": WARNING}
    lists = {"violations": [], "warnings": [], filled: [finding]}
    assert (outcome.code, json.loads(outcome.out)) == (code, {**lists, "files": 1, "resources": 1, "skipped": 0})


def test_a_type_may_come_from_another_path_than_what_uses_it(alone: Program) -> None:
    alone.write("types/acme.yaml", ACME)
    assert alone("validate", "-", "types", stdin=FITS.replace("5", "0")) == (
        3,
        "<stdin>:5:53: /spec/parameters/0/value: is less than 1\n",
        "2 files, 2 resources, 0 skipped, 1 violation\n",
    )


def test_the_example_repository_says_only_what_does_not_run_where_its_configuration_does(alone: Program) -> None:
    found = alone("validate", str(EXAMPLE))
    said = [line for line in found.out.splitlines() if " runs in the service only; " not in line]
    assert [line for line in said if " runs on collectors only; " not in line] == []
    assert (found.code, len(said), found.err) == (0, 3, "25 files, 29 resources, 0 skipped, 0 violations, 4 warnings\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_name", "said"),
    [("acme", "0 violations"), ("acma", "0 violations, 10000 warnings")],
    ids=["that fit", "that lack their type"],
)
def test_ten_thousand_documents_take_seconds(alone: Program, type_name: str, said: str) -> None:
    alone.write("config/acme.yaml", ACME)
    for file in range(100):
        some = (FITS.replace("name: d", f"name: d{file}-{each}") for each in range(100))
        alone.write(f"config/{file}.yaml", "---\n".join(some).replace("type: acme", f"type: {type_name}"))
    began = time.monotonic()
    outcome = alone("validate", "config")
    assert (outcome.code, outcome.err) == (0, f"101 files, 10001 resources, 0 skipped, {said}\n")
    assert time.monotonic() - began < 20  # seconds; one or two on a laptop, and a machine may be busy


LEADS_NOWHERE = type_checks.BROKEN_REFERENCE
FREE_ACME = document("DestinationType", "acme", "{parameters: [{name: open, type: string}]}")
HOOKED = "{name: hostname, value: h}, {name: headers, value: {A: 'VALUE'}}"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (f"{{type: webhook, {given(HOOKED)}}}".replace("VALUE", "x ${env:ANY} ${file:a/b}"), []),
        (f"{{type: webhook, {given(HOOKED)}}}".replace("VALUE", "${env:A:-x}"), ["parameters/1/value/A"]),
        (f"{{type: webhook, {given(HOOKED)}}}".replace("VALUE", "${file:../a}"), ["parameters/1/value/A"]),
        (f"{{type: webhook, {given(HOOKED)}}}".replace("VALUE", "${env:SERVICE_API_KEY}"), ["parameters/1/value/A"]),
        (f"{{type: webhook, {given('{name: hostname, value: h}', '{name: ca_file, value: a/b}')}}}", []),
        (
            f"{{type: webhook, {given('{name: hostname, value: h}', '{name: ca_file, value: /etc/ca.pem}')}}}",
            ["parameters/1/value"],
        ),
        (f"{{type: acme, {given('{name: open, value: ' + repr('${file:a}') + '}')}}}", ["parameters/0/value"]),
        (f"{{type: acme, {given('{name: open, value: ' + repr('${env:A:-x}') + '}')}}}", []),
        # Of a type that is not here, every parameter may be a secret.
        (f"{{type: other, {given('{name: open, value: ' + repr('x ${file:../a}') + '}')}}}", ["parameters/0/value"]),
    ],
)
def test_references_to_secrets_are_judged_as_far_as_one_can_without_the_service(
    alone: Program, spec: str, said: list[str]
) -> None:
    alone.write("a.yaml", FREE_ACME)
    alone.write("b.yaml", document("Destination", "d", spec))
    lines = [line.split(": ", 1)[1] for line in alone("validate", ".").out.splitlines() if "warning" not in line]
    assert lines == [f"/spec/{where}: {LEADS_NOWHERE}" for where in said]


def test_references_are_left_alone_where_a_document_has_another_shape(alone: Program) -> None:
    alone.write("a.yaml", document("Destination", "d", "{type: webhook, parameters: {a: {value: '${env:A'}}}"))
    alone.write(
        "b.yaml", document("Destination", "e", "{type: webhook, parameters: [5, {name: [], value: '${env:A'}]}")
    )
    assert [line for line in alone("validate", ".").out.splitlines() if LEADS_NOWHERE in line] == []
