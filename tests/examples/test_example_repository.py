"""The example repository is one that the product accepts whole, and that somebody could really have."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.model import desired, documents, positions
from reconciler.model.names import Key
from reconciler.model.values import Value

ROOT = Path(__file__).parents[2] / "examples" / "repo"
VERSIONS = frozenset({"service/v1"})
COMPONENTS = {
    "sources": "Source",
    "processors": "Processor",
    "connectors": "Connector",
    "destinations": "Destination",
    "extensions": "Extension",
}
RESERVED = {
    Key("DestinationType", "webhook"),
    Key("ExtensionType", "file_storage"),
    Key("Extension", "file_storage_persistent_queue"),
}
BUILT_IN = RESERVED | {
    Key("DestinationType", "otlp"),
    Key("DestinationType", "custom"),
    Key("SourceType", "otlp"),
    Key("SourceType", "file"),
    Key("SourceType", "custom"),
    Key("ProcessorType", "custom"),
    Key("SourceType", "hostmetrics"),
    Key("ProcessorType", "batch"),
    Key("DestinationType", "debug"),
}
SECRET_PLACES = {"headers", "access_key"}
REFERENCE = re.compile(r"\$\{env:(?:DESTINATION_DEFAULT__)?[A-Z_]+\}")


class Placed(NamedTuple):
    """A document and where it stands."""

    place: str
    value: Value


def placed() -> list[Placed]:
    """Every document that a reconcile would read. (`drafts/` is what .serviceignore names.)"""
    found = []
    for path in sorted(ROOT.rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        syntax = documents.syntax_of(name)
        if syntax is None or not path.is_file() or name.startswith("drafts/"):
            continue
        for document in documents.read(path.read_bytes(), syntax=syntax, limits=positions.FILE_LIMITS):
            found.append(Placed(f"{name}:{document.line}", document.value))
    return found


DOCUMENTS = placed()


@pytest.mark.parametrize("document", DOCUMENTS, ids=[document.place for document in DOCUMENTS])
def test_every_document_is_valid(document: Placed) -> None:
    assert desired.classify(document.value, api_versions=VERSIONS) is desired.Classification.RESOURCE
    assert desired.judge(document.value, api_versions=VERSIONS).violations == ()


def resources() -> dict[Key, dict[str, Value]]:
    judged = [desired.judge(document.value, api_versions=VERSIONS) for document in DOCUMENTS]
    found = {one.key: one.owned for one in judged if one.key is not None and one.owned is not None}
    assert len(found) == len(judged), "a kind and name occurs twice"
    return found


def test_there_is_enough_to_see_and_not_more() -> None:
    found = resources()
    assert 20 <= len(found) <= 30
    assert {key.kind for key in found} == {
        "AgentVersion",
        "Configuration",
        "Destination",
        "DestinationType",
        "Extension",
        "Fleet",
        "Processor",
        "ProcessorType",
        "Source",
        "SourceType",
    }


def test_nothing_built_in_is_redefined() -> None:
    assert sorted(set(resources()) & BUILT_IN) == []


def test_every_reference_resolves() -> None:
    found = resources()
    known = set(found) | BUILT_IN
    missing = [
        (key, wanted) for key, owned in found.items() for wanted in references(key.kind, owned) if wanted not in known
    ]
    assert sorted(missing) == []


def test_an_inline_otlp_source_reaches_a_webhook() -> None:
    found = resources()
    wired = {
        key.name
        for key, owned in found.items()
        if key.kind == "Configuration"
        and Key("SourceType", "otlp") in references("Configuration", owned)
        and any(
            Key("DestinationType", "webhook") in references("Destination", found[wanted])
            for wanted in references("Configuration", owned)
            if wanted.kind == "Destination"
        )
    }
    assert wired == {"gateway", "orders", "payments"}


def test_a_secret_is_always_a_reference() -> None:
    values = [
        value
        for owned in resources().values()
        for parameter in objects(owned.get("spec"))
        if parameter.get("name") in SECRET_PLACES and "value" in parameter
        for value in secrets(parameter["value"])
    ]
    assert len(values) == 4
    assert [value for value in values if not REFERENCE.fullmatch(str(value))] == []


def test_editor_lines_name_the_kind_of_their_file() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        line = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
        kind = re.findall(r"^kind: (\w+)$", text, flags=re.MULTILINE)
        expected = ROOT / ".schemas" / f"{kind[0]}.json"
        if line and (len(kind) > 1 or (path.parent / line[1]).resolve() != expected):
            wrong.append(path.name)
    assert wrong == []


def references(kind: str, owned: dict[str, Value]) -> set[Key]:
    """The names in a component or configuration. Written out here, so that it is no echo of the product's own list."""
    spec = owned.get("spec")
    if not isinstance(spec, dict):
        return set()
    if kind == "Configuration":
        return {key for field, of in COMPONENTS.items() for item in listed(spec, field) for key in named(of, item)}
    return set(named(kind, spec)) if kind in COMPONENTS.values() else set()


def named(kind: str, item: dict[str, Value]) -> Iterator[Key]:
    """Return what one component, inline or by name, refers to, nested processors included."""
    if isinstance(name := item.get("name"), str):
        yield Key(kind, name)
    if isinstance(of := item.get("type"), str):
        yield Key(f"{kind}Type", of)
    for parameter in listed(item, "parameters"):
        if parameter.get("name") == "persistent_queue_storage":
            yield Key("Extension", str(parameter.get("value")))
    for processor in listed(item, "processors"):
        yield from named("Processor", processor)


def listed(value: dict[str, Value], field: str) -> list[dict[str, Value]]:
    """The objects in a list that may be absent."""
    items = value.get(field)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def objects(value: Value) -> Iterator[dict[str, Value]]:
    """Every object at or beneath a value."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from objects(item)
    if isinstance(value, list):
        for item in value:
            yield from objects(item)


def secrets(value: Value) -> list[Value]:
    """The values of a sensitive parameter; a header that only says who is asking is none."""
    if isinstance(value, dict):
        return [item for name, item in value.items() if name != "X-Team"]
    return [value]
