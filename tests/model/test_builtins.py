"""The built-in resources: ordinary documents that break no rule, and say what the interface's tables say."""

import json
import re

import pytest

from reconciler.model import builtins, component_types, components, desired, type_checks, type_definitions, values
from reconciler.model.component_types import ComponentType
from reconciler.model.names import Key
from reconciler.model.values import Value
from tests.model.documents import API_VERSIONS, EXAMPLES

WEBHOOK_TYPE = Key("DestinationType", "webhook")
STORAGE_TYPE = Key("ExtensionType", "file_storage")
QUEUE = Key("Extension", "file_storage_persistent_queue")


def compiled(kind: str, name: str) -> ComponentType:
    return component_types.compiled(
        name, component_types.read_definitions(builtins.built_in()[Key(kind, name)]["spec"])
    )


def test_they_come_in_the_order_of_their_keys() -> None:
    found = list(builtins.built_in())
    assert found == sorted(found)
    assert found[:4] == [("DestinationType", name) for name in ("custom", "debug", "otlp", "otlphttp")]
    assert QUEUE in found


def test_what_is_reserved_is_built_in() -> None:
    assert set(builtins.built_in()) >= builtins.RESERVED


@pytest.mark.parametrize("key", builtins.built_in(), ids="-".join)
def test_each_breaks_no_rule(key: Key) -> None:
    document = builtins.built_in()[key]

    judged = desired.judge(document, api_versions=API_VERSIONS)

    assert (judged.key, judged.violations) == (key, ())
    if key.kind.endswith("Type"):
        assert type_definitions.broken_definitions(document["spec"]) == ()


@pytest.mark.parametrize("key", builtins.built_in(), ids="-".join)
def test_each_is_shown_as_a_resource_in_canonical_form(key: Key) -> None:
    shown = builtins.shown()[key]
    resource = json.loads(shown)
    assert values.canonical_json(resource) == shown
    status = resource.pop("status")
    assert (status.pop("runsOn", None) is None) == (not key.kind.endswith("Type"))
    assert status == {"latest": True, "source": {"type": "builtin"}}
    added = {name: resource["metadata"].pop(name) for name in ("id", "hash", "version")}
    assert (added["id"], added["version"], len(added["hash"])) == (f"builtin.{key.kind}.{key.name}", 1, 64)
    assert resource == builtins.built_in()[key]


def test_types_say_where_they_run() -> None:
    shown = {key: json.loads(one)["status"].get("runsOn") for key, one in builtins.shown().items()}
    assert [key for key, runs_on in shown.items() if runs_on == ["service"]] == [WEBHOOK_TYPE, STORAGE_TYPE]
    assert [key for key, runs_on in shown.items() if runs_on == ["service", "collectors"]] == [("SourceType", "otlp")]
    assert shown[Key("DestinationType", "otlp")] == ["collectors"]


def test_each_has_an_id_of_its_own() -> None:
    ids = {json.loads(shown)["metadata"]["id"] for shown in builtins.shown().values()}
    assert len(ids) == len(builtins.built_in())
    assert all(re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,127}", one) for one in ids)


def test_they_are_shown_in_the_order_of_their_keys_and_never_with_a_date() -> None:
    assert list(builtins.shown()) == list(builtins.built_in())
    assert [key for key, shown in builtins.shown().items() if b"dateModified" in shown] == []


def test_the_queue_fits_its_type_which_is_built_in() -> None:
    [reference] = components.references(builtins.built_in()[QUEUE])

    assert reference.key == Key("ExtensionType", "file_storage")
    assert type_checks.broken_parameters([], compiled(*reference.key), at=()) == ()


@pytest.mark.parametrize(
    "key", [key for key in builtins.built_in() if key.name in {"custom", "otlp", "file"}], ids="-".join
)
def test_those_for_collectors_work_without_parameters(key: Key) -> None:
    assert type_checks.broken_parameters([], compiled(*key), at=()) == ()


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document["metadata"]["name"])
def test_examples_of_the_schemas_that_use_them_fit(document: dict[str, Value]) -> None:
    for component in components.find_components(str(document["kind"]), document.get("spec")):
        if component.type_key in builtins.built_in():
            type_ = compiled(*component.type_key)
            assert type_checks.broken_parameters(component.parameters, type_, at=component.at) == ()


# Name, label, type, required, default; as the tables of the interface have them.
WEBHOOK: list[tuple[str, str, str, bool, Value]] = [
    ("scheme", "Scheme", "enum", False, "https"),
    ("hostname", "Hostname", "string", True, None),
    ("port", "Port", "int", True, 8080),
    ("path", "Path", "string", False, None),
    ("verb", "HTTP Method", "enum", True, "POST"),
    ("content_type", "Content Type", "string", True, "application/json"),
    ("format", "Payload Format", "enum", False, "json_array"),
    ("headers", "Additional Headers", "map", False, None),
    ("timeout", "Request Timeout", "int", False, 5),
    ("insecure_skip_verify", "Skip TLS Certificate Verification", "bool", False, False),
    ("ca_file", "TLS Certificate Authority File", "string", False, None),
    ("mutual_tls", "Mutual TLS", "bool", False, False),
    ("cert_file", "TLS Client Certificate File", "string", True, None),
    ("key_file", "TLS Client Private Key File", "string", True, None),
    ("retry_on_failure_enabled", "Enable Retry on Failure", "bool", False, True),
    ("retry_on_failure_initial_interval", "Initial interval", "int", False, 5),
    ("retry_on_failure_max_interval", "Max interval", "int", False, 30),
    ("retry_on_failure_max_elapsed_time", "Max elapsed time", "int", False, 300),
    ("sending_queue_enabled", "Enable Sending Queue", "bool", False, True),
    ("sending_queue_num_consumers", "Number of Consumers", "int", False, 10),
    ("sending_queue_queue_size", "Queue Size", "int", False, 5000),
    ("persistent_queue_enabled", "Enable Persistent Queuing", "bool", False, True),
    ("persistent_queue_storage", "Persistent Queue Storage", "string", True, "file_storage_persistent_queue"),
    ("on_full", "When the Queue Is Full", "enum", False, "reject"),
    ("delivery_schedule", "Delivery Schedule", "string", False, None),
    ("delivery_window", "Delivery Window", "int", False, 60),
    ("delivery_timezone", "Delivery Time Zone", "timezone", False, "UTC"),
]


def test_a_webhook_has_the_parameters_of_the_interface_and_ours() -> None:
    found = compiled("DestinationType", "webhook").definitions.values()

    assert [(each.name, each.label, each.type, each.required, each.default) for each in found] == WEBHOOK
    assert [each.name for each in found if each.sensitive] == ["headers"]
    assert all(each.description for each in found)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("scheme", ("http", "https")),
        ("verb", ("POST", "PATCH", "PUT")),
        ("format", ("json_array", "single")),
        ("on_full", ("reject", "dead_letter", "drop_newest")),
    ],
)
def test_a_webhook_takes_these_values(name: str, values: tuple[str, ...]) -> None:
    assert compiled("DestinationType", "webhook").definitions[name].valid_values == values


def parameters(**values: Value) -> list[Value]:
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (parameters(hostname="h"), []),
        (parameters(), ["/: `hostname` is required and has no default"]),
        (parameters(hostname=""), ["/0/value: is empty; `hostname` is required and has no default"]),
        (parameters(hostname=None), ["/0/value: is not a string"]),
        (parameters(hostname="h", port=0), ["/1/value: is less than 1"]),
        (parameters(hostname="h", port=1), []),
        (parameters(hostname="h", port="65535"), []),
        (parameters(hostname="h", port="65536"), ["/1/value: is greater than 65535"]),
        (parameters(hostname="h", port=""), ["/1/value: is not an integer"]),
        (parameters(hostname="h", content_type=""), []),
        (parameters(hostname="h", headers={"A": "b"}), []),
        (parameters(hostname="h", headers={"A": 1}), ["/1/value/A: is not a string"]),
        (
            parameters(hostname="h", mutual_tls=True),
            ["/: `cert_file` is required and has no default", "/: `key_file` is required and has no default"],
        ),
        (
            parameters(hostname="h", mutual_tls="true", key_file="", cert_file="c"),
            ["/2/value: is empty; `key_file` is required and has no default"],
        ),
        (parameters(hostname="h", mutual_tls=True, key_file="k", cert_file="c"), []),
        # They matter under https alone.
        (parameters(hostname="h", mutual_tls=True, scheme="http"), []),
        (parameters(hostname="h", mutual_tls=False, key_file=""), []),
        # What does not matter is judged by its type all the same.
        (parameters(hostname="h", scheme="http", cert_file=5), ["/2/value: is not a string"]),
        (parameters(hostname="h", delivery_timezone="Europe/Berlin"), []),
        (
            parameters(hostname="h", delivery_timezone="europe/berlin"),
            ["/1/value: is not the name of a time zone in IANA's database, such as `Europe/Berlin`"],
        ),
    ],
)
def test_a_webhook_is_judged_by_its_tables(given: list[Value], expected: list[str]) -> None:
    found = type_checks.broken_parameters(given, compiled("DestinationType", "webhook"), at=())

    assert ["/" + "/".join(map(str, each.pointer)) + ": " + each.message for each in found] == expected
    assert all(each.of_parameter for each in found)
