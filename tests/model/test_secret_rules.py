"""Rules of references in parameters, and of their targets: every violation says the same."""

from typing import Any

import pytest

from reconciler.model import builtins, type_checks
from reconciler.model.component_types import Operator
from reconciler.model.components import WEBHOOK
from reconciler.model.names import Key
from reconciler.model.secret_references import UNKNOWN_SECRETS, AvailableSecrets
from reconciler.model.values import Value, pointer_text
from tests.model.lookups import look_up, lookup

FREE: dict[str, Value] = {
    "parameters": [
        {"name": "open", "type": "fraction"},
        {"name": "secret", "type": "fraction", "options": {"sensitive": True}},
    ]
}
TYPES = lookup({Key("DestinationType", "free"): FREE, Key("SourceType", "free"): FREE})
AVAILABLE = AvailableSecrets(env=frozenset({"A"}), files=frozenset({"a", "b/c"}))
ANY = UNKNOWN_SECRETS
HOST: Value = {"name": "hostname", "value": "logs.example.com"}


def component(type_: str, *parameters: Value, **more: Value) -> dict[str, Value]:
    return {"type": type_, "parameters": [*parameters], **more}


def document(kind: str, spec: dict[str, Value]) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def given(name: str, value: Value, **more: Value) -> dict[str, Value]:
    return {"name": name, "value": value, **more}


def free(name: str, value: Value, **more: Value) -> dict[str, Any]:
    return document("Destination", component("free", given(name, value, **more)))


def webhook(*parameters: Value) -> dict[str, Any]:
    return document("Destination", component("webhook", HOST, *parameters))


def violations(owned: dict[str, Any], available: AvailableSecrets = AVAILABLE) -> list[str]:
    """Return where the violations of references are."""
    found = type_checks.fit(owned, TYPES, available=available).violations
    assert all(each.of_parameter for each in found)
    return [pointer_text(each.pointer) for each in found if each.message == type_checks.BROKEN_REFERENCE]


VALUE = "/spec/parameters/0/value"


@pytest.mark.parametrize(
    ("value", "at", "unknown"),
    [
        ("${env:A}", [], []),
        ("Bearer ${env:A} ${file:b/c}", [], []),
        ("no reference, $ {env:X}", [], []),
        ("${env:B}", ["/A"], []),
        ("x ${env:A} ${file:b}", ["/A"], []),
        ("${file:A}", ["/A"], []),
        # What nobody needs to look up.
        ("${env:A", ["/A"], ["/A"]),
        ("${env:A:-default}", ["/A"], ["/A"]),
        ("${file:../a}", ["/A"], ["/A"]),
        ("${env:SERVICE_API_KEY}", ["/A"], ["/A"]),
        ("x ${env:service_api_key}", ["/A"], ["/A"]),
    ],
)
def test_in_a_secret_of_the_service_every_reference_leads_to_what_is_available(
    value: str, at: list[str], unknown: list[str]
) -> None:
    owned = webhook(given("headers", {"A": value}))
    headers = "/spec/parameters/1/value"
    assert violations(owned) == [headers + one for one in at]
    assert violations(owned, ANY) == [headers + one for one in unknown]


@pytest.mark.parametrize(
    ("value", "at", "unknown"),
    [
        ("${env:ANY}", [], []),
        ("Bearer ${env:ANY} ${file:b/c}", [], []),
        ("${env:SERVICE_NAME} ${env:A:-default} ${env:A", [], []),
        ("x ${env:A} ${file:b}", [VALUE], []),
        ("${file:A}", [VALUE], []),
        ({"k": "${env:ANY}", "~/": "${file:b}", "n": 5}, [VALUE + "/~0~1"], []),
        (["${env:A}", ["x ${file:b}"], {"deep": {"er": "${file:c}"}}], [VALUE + "/1/0", VALUE + "/2/deep/er"], []),
        ("${file:../a}", [VALUE], [VALUE]),
    ],
)
@pytest.mark.parametrize("how", ["by definition", "by itself", "unknown parameter", "unknown type"])
def test_in_a_secret_of_a_collector_variables_are_its_own(
    value: Value, at: list[str], unknown: list[str], how: str
) -> None:
    owned = {
        "by definition": free("secret", value),
        "by itself": free("open", value, sensitive=True),
        "unknown parameter": free("more", value),
        "unknown type": document("Destination", component("gone", given("open", value))),
    }[how]
    assert (violations(owned), violations(owned, ANY)) == (at, unknown)


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("${env:A}", []),
        ("${env:NOWHERE}", []),
        ("${env:HOST:-default}:4317", []),
        ({"k": "${env:A}", "l": "${file:x}"}, [VALUE + "/l"]),
        (["x", "${file:a}"], [VALUE + "/1"]),
        ("${file:a}", [VALUE]),
        ("x ${file:a}", []),
    ],
)
def test_in_what_is_no_secret_of_a_collector_one_whole_file_is_wrong_wherever_it_leads(
    value: Value, at: list[str]
) -> None:
    assert (violations(free("open", value)), violations(free("open", value), ANY)) == (at, at)


@pytest.mark.parametrize(
    ("owned", "at"),
    [
        (free("open", "tcp://${env:OWN_HOST}:4317"), [VALUE]),
        (free("secret", "Bearer ${env:OWN_TOKEN}"), [VALUE]),
        (free("open", {"k": "${env:OWN_A:-x}", "l": "${env:OTHER}"}), [VALUE + "/k"]),
        (document("Destination", component("gone", given("open", "${env:OWN_A}"))), [VALUE]),
        (webhook(given("headers", {"A": "${env:OWN_A}"})), []),
    ],
)
def test_a_collector_has_no_variable_of_a_name_that_is_for_the_service(owned: dict[str, Any], at: list[str]) -> None:
    available = AvailableSecrets(env=frozenset({"OWN_A"}), patterns=("OWN_*",))
    found = type_checks.fit(owned, TYPES, available=available).violations
    assert [(pointer_text(one.pointer), one.message, one.recent) for one in found] == [
        (pointer, type_checks.OF_THE_SERVICE, True) for pointer in at
    ]
    assert type_checks.fit(owned, TYPES, available=ANY).violations == ()


@pytest.mark.parametrize("value", ["${env:A}", "/x/${env:A}", "x${file:a}y", "/${env:", "${env:A:-x}"])
def test_in_a_type_that_the_service_executes_none_may_be_in_what_is_no_secret(value: str) -> None:
    path, directory = given("path", value), given("directory", value)
    at = ["/spec/parameters/1/value"]
    assert (violations(webhook(path)), violations(webhook(path), ANY)) == (at, at)
    assert violations(document("Extension", component("file_storage", directory))) == [VALUE]


def test_a_parameter_that_a_document_makes_a_secret_takes_references_where_the_service_does_not_execute_it() -> None:
    assert violations(free("open", "/${file:a}", sensitive=True)) == []
    # An address would be told with what it stands for, in the log for instance.
    assert violations(webhook(given("path", "/${env:A}", sensitive=True))) == ["/spec/parameters/1/value"]


def test_components_in_place_are_judged_where_they_stand() -> None:
    owned = document(
        "Configuration",
        {
            "raw": "receivers: ${env:A}",
            "sources": [component("free", given("open", "${file:a}"), processors=[component("free")])],
            "destinations": [component("webhook", HOST, given("headers", {"A": "${env:A}", "B": "x ${env:B}"}))],
            "parameters": [given("x", "${file:a}"), given("y", "${file:a}", sensitive=True)],
        },
    )
    assert violations(owned) == [
        "/spec/sources/0/parameters/0/value",
        "/spec/destinations/0/parameters/1/value/B",
        "/spec/parameters/0/value",
    ]


def test_what_is_no_parameter_is_left_alone() -> None:
    assert violations(document("Configuration", {"raw": "${env:A}", "rollout": {"value": "${env:A}"}})) == []
    assert violations(document("AgentVersion", {"installer": {"value": "${env:A}"}})) == []
    assert (
        violations(document("DestinationType", {"parameters": [{"name": "a", "type": "string", "default": "x"}]})) == []
    )


TLS = [given("mutual_tls", True), given("cert_file", "a"), given("key_file", "a")]


@pytest.mark.parametrize(
    ("value", "known", "unknown"),
    [
        ("a", True, True),
        ("b/c", True, True),
        ("${file:a}", True, True),
        ("${file:b/c}", True, True),
        ("gone", False, True),
        ("${file:gone}", False, True),
        ("/etc/ssl/a.pem", False, False),
        ("../other/a", False, False),
        ("a/../a", False, False),
        ("${env:A}", False, False),
        ("${file:a} ", False, False),
        ("x${file:a}", False, False),
        ("${file:../a}", False, False),
        ("a.pem\n", False, False),
        ("", True, True),
        (5, True, True),  # of another type, which is told by other words
    ],
)
@pytest.mark.parametrize("name", ["ca_file", "cert_file", "key_file"])
def test_a_webhooks_files_are_in_the_projects_folder(name: str, value: Value, known: bool, unknown: bool) -> None:
    parameters = [each for each in TLS if each["name"] != name]
    owned = webhook(*parameters, given(name, value))
    at = f"/spec/parameters/{len(parameters) + 1}/value"
    assert violations(owned) == ([] if known else [at])
    assert violations(owned, ANY) == ([] if unknown else [at])
    inline = document("Configuration", {"destinations": [owned["spec"]]})
    assert violations(inline) == ([] if known else [at.replace("/spec", "/spec/destinations/0")])


@pytest.mark.parametrize(
    ("settings", "at"),
    [
        ([], ["/spec/parameters/1/value"]),
        ([given("mutual_tls", True)], [f"/spec/parameters/{number}/value" for number in (1, 2, 3)]),
        ([given("mutual_tls", "true")], [f"/spec/parameters/{number}/value" for number in (1, 2, 3)]),
        ([given("scheme", "http"), given("mutual_tls", True)], []),
    ],
)
def test_files_that_do_not_matter_are_not_judged(settings: list[Value], at: list[str]) -> None:
    files: list[Value] = [given(name, "gone") for name in ("ca_file", "cert_file", "key_file")]
    assert violations(webhook(*files, *settings)) == at


def test_the_same_names_in_another_type_are_anything() -> None:
    own = lookup({Key("DestinationType", "own"): {"parameters": [{"name": "ca_file", "type": "string"}]}})
    owned = document("Destination", component("own", given("ca_file", "/etc/ssl/ca.pem")))
    assert type_checks.fit(owned, own, available=AVAILABLE).violations == ()


def test_the_files_of_a_webhook_have_conditions_that_are_understood() -> None:
    """`delivery.secrets` takes every condition for one of equality."""
    webhook_type = look_up(WEBHOOK)
    assert webhook_type is not None
    conditions = [
        one for name in type_checks.SECRET_FILE_PARAMETERS for one in webhook_type.definitions[name].relevant_if
    ]
    assert len(conditions) == 5
    assert {one.operator for one in conditions} == {Operator.EQUALS}


def test_the_executed_types_are_built_in_and_nobody_can_replace_them() -> None:
    assert {key for key in builtins.RESERVED if key.kind.endswith("Type")} == type_checks.EXECUTED


def test_no_violation_holds_a_value() -> None:
    owned = free("secret", "canary-1 ${file:CANARY_2} ${file:canary-3")
    found = type_checks.fit(owned, TYPES, available=AVAILABLE)
    assert "canary" not in repr(found.violations).lower()
    assert len(found.violations) == 1
