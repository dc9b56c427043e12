"""A real Collector accepts what is rendered: each built-in type, and many of them together."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.collectors.rendering import Renderer
from reconciler.model import builtins
from reconciler.model.names import Key
from reconciler.model.values import Value
from tests.docs import catalogue
from tests.providers import found

pytestmark = pytest.mark.providers

KNOWN: Mapping[Key, Value] = {key: document["spec"] for key, document in builtins.built_in().items()}
PLACES = {"SourceType": "sources", "ProcessorType": "processors", "DestinationType": "destinations"}
CUSTOM = {"SourceType": "otlp: {protocols: {http: {}}}", "ProcessorType": "batch: {}", "DestinationType": "debug: {}"}
SAMPLES: dict[str, Value] = {
    "string": "x",
    "int": 7,
    "bool": True,
    "strings": ["x"],
    "map": {"k": "v"},
    "metrics": ["system.memory.usage"],
    "timezone": "Europe/Berlin",
}
"""A value for each type of parameters."""
GIVEN: dict[str, Value] = {
    "endpoint": "https://collector.example:4318",
    "operators": "- type: noop",
    "regex_pattern": "^(?P<level>[A-Z]+)",
    "log_conditions": ['attributes["level"] == "debug"'],
    "metric_conditions": ['name == "x"'],
    "span_conditions": ['name == "x"'],
    "log_statements": ['set(attributes["a"], "b")'],
    "metric_statements": ['set(attributes["a"], "b")'],
    "trace_statements": ['set(attributes["a"], "b")'],
    "detectors": ["env", "system"],
    "listen_address": "127.0.0.1",
    "parse_to": "attributes.parsed",
    "root_path": "/",  # it has to exist
    "cert_file": "",  # it would have to exist
    "ca_file": "",
}
"""Values of parameters that take no other text."""


def whole(key: Key) -> list[Value]:
    """Every parameter of a type with a value."""
    found_values: list[Value] = []
    for each in cast("dict[str, Any]", KNOWN[key])["parameters"]:
        name, valid = each["name"], each.get("validValues")
        value = GIVEN.get(name, valid if each["type"] == "enums" else valid[-1] if valid else SAMPLES.get(each["type"]))
        if name == "configuration":
            value = CUSTOM[key.kind]
        if value is not None:
            found_values.append({"name": name, "value": value})
    return found_values


def validate(spec: Value, tmp_path: Path) -> None:
    """Fail with the Collector's words if it refuses what is rendered."""
    file = tmp_path / "collector.yaml"
    file.write_bytes(Renderer(KNOWN.get).render(spec).text)
    done = subprocess.run(
        [found.collector(), "validate", f"--config=file:{file}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr + file.read_text()


@pytest.mark.parametrize("full", [False, True], ids=["defaults", "every parameter"])
@pytest.mark.parametrize("key", catalogue.listed(), ids=str)
def test_a_built_in_type(key: Key, full: bool, tmp_path: Path) -> None:
    spec: dict[str, Value] = {"sources": [{"type": "otlp"}], "destinations": [{"type": "debug"}]}
    spec[PLACES[key.kind]] = [{"type": key.name, "parameters": whole(key) if full else []}]
    validate(spec, tmp_path)


def test_ten_sources_and_five_destinations(tmp_path: Path) -> None:
    names = [key for key in catalogue.listed() if key.name != "custom"]
    kinds = {kind: [key.name for key in names if key.kind == kind] for kind in PLACES}
    sources: list[Value] = [{"type": (kinds["SourceType"] * 2)[index]} for index in range(10)]
    processors: list[Value] = [{"type": name} for name in kinds["ProcessorType"]]
    destinations: list[Value] = [{"type": (kinds["DestinationType"] * 2)[index]} for index in range(5)]
    validate({"sources": sources, "processors": processors, "destinations": destinations}, tmp_path)
