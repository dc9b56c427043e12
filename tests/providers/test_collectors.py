"""A real Collector accepts what is rendered: each built-in type, and many of them together."""

import contextlib
import json
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.cli import demo
from reconciler.collectors.rendering import Renderer
from reconciler.model import builtins
from reconciler.model.names import Key
from reconciler.model.values import Value
from tests import daemons
from tests.cli.conftest import Program
from tests.docs import catalogue
from tests.providers import found
from tests.repositories import Repository
from tests.servers import processes
from tests.servers.certificates import Authority

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


def whole(key: Key, folder: Path) -> list[Value]:
    """Every parameter of a type with a value. A source that encrypts has its certificate in a folder."""
    given = dict(GIVEN)
    if key == ("SourceType", "otlp"):
        authority = Authority.make(folder)
        shown = authority.issue()
        given |= {"cert_file": str(shown.chain), "key_file": str(shown.key), "ca_file": str(authority.bundle)}
    found_values: list[Value] = []
    for each in cast("dict[str, Any]", KNOWN[key])["parameters"]:
        name, valid = each["name"], each.get("validValues")
        value = given.get(name, valid if each["type"] == "enums" else valid[-1] if valid else SAMPLES.get(each["type"]))
        if name == "configuration":
            value = CUSTOM[key.kind]
        if value is not None:
            found_values.append({"name": name, "value": value})
    return found_values


def validate(spec: Value, tmp_path: Path) -> None:
    """Fail with the Collector's words if it refuses what is rendered."""
    file = tmp_path / "collector.yaml"
    file.write_bytes(Renderer(KNOWN.get).render(spec).text)
    accept(file)


def accept(file: Path) -> None:
    """Fail with the Collector's words if it refuses a file."""
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
    spec[PLACES[key.kind]] = [{"type": key.name, "parameters": whole(key, tmp_path / "tls") if full else []}]
    validate(spec, tmp_path)


def test_ten_sources_and_five_destinations(tmp_path: Path) -> None:
    names = [key for key in catalogue.listed() if key.name != "custom"]
    kinds = {kind: [key.name for key in names if key.kind == kind] for kind in PLACES}
    sources: list[Value] = [{"type": (kinds["SourceType"] * 2)[index]} for index in range(10)]
    processors: list[Value] = [{"type": name} for name in kinds["ProcessorType"]]
    destinations: list[Value] = [{"type": (kinds["DestinationType"] * 2)[index]} for index in range(5)]
    validate({"sources": sources, "processors": processors, "destinations": destinations}, tmp_path)


def test_the_one_that_the_demonstration_renders(tmp_path: Path) -> None:
    program = Program(tmp_path)
    done = program("render", demo.RENDERED, str(found.ROOT / "examples" / "repo"), "-o", "collector.yaml")
    assert (done.code, done.err) == (0, "")
    accept(tmp_path / "collector.yaml")


SERVED = "/v1/resources/Configuration/served/collector.yaml"


def served(port: int) -> dict[str, Any]:
    """A Configuration for Collectors that receives on this port."""
    given: list[dict[str, Any]] = [
        {"name": "listen_address", "value": "127.0.0.1"},
        {"name": "grpc_enabled", "value": False},
        {"name": "http_port", "value": port},
    ]
    spec = {"sources": [{"type": "otlp", "parameters": given}], "destinations": [{"type": "debug"}]}
    return {"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": "served"}, "spec": spec}


def listens(port: int) -> bool:
    """Return True if somebody accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_it_takes_its_configuration_from_the_service_and_reads_it_again_at_sighup(tmp_path: Path) -> None:
    first, second = processes.free_port(), processes.free_port()
    with daemons.running(tmp_path / "daemon") as daemon, (tmp_path / "log").open("wb") as log:

        def rendered() -> Any:
            resource = daemon.get("/v1/resources/Configuration/served").body["resource"]
            return resource["status"].get("rendering", {}).get("hash")

        daemon.apply(served(first))
        before = daemons.until(rendered, "it is rendered")
        url = f"http://anybody:{daemon.key}@{daemon.host}:{daemon.port}{SERVED}"
        command = [str(found.collector()), f"--config={url}", "--config=yaml:service::telemetry::metrics::level: none"]
        collector = subprocess.Popen(command, stdout=log, stderr=log)  # without metrics: their port may be taken
        try:
            daemons.until(lambda: listens(first), "the Collector runs it")
            daemon.apply(served(second))
            daemons.until(lambda: rendered() not in (None, before), "it is rendered again")
            collector.send_signal(signal.SIGHUP)
            daemons.until(lambda: listens(second) and not listens(first), "the Collector runs the new one")
        finally:
            collector.terminate()
            collector.wait(30)


EDGE = """\
apiVersion: service/v1
kind: Configuration
metadata: {name: edge}
spec:
  sources: [{type: otlp}]
  processors: [{name: fewer}]
  destinations: [{name: out}]
---
apiVersion: service/v1
kind: Processor
metadata: {name: fewer}
spec: {type: filter, parameters: [{name: log_conditions, value: ['attributes["level"] == "debug"']}]}
---
apiVersion: service/v1
kind: Destination
metadata: {name: out}
spec: {type: custom, parameters: [{name: configuration, value: "otlp_http: {endpoint: '${env:GATEWAY_URL}'}"}]}
"""


@pytest.mark.parametrize(
    ("good", "bad", "line", "told"),
    [
        ('attributes["level"] == "debug"', "nonsense(", 9, "filter/processor0"),
        ("otlp_http: {endpoint", "otlp_http: {end_point", 14, "endpoint"),
        ("otlp_http:", "no_such_exporter:", 14, "no_such_exporter"),
    ],
)
def test_what_a_collector_refuses_is_told_in_a_plan(tmp_path: Path, good: str, bad: str, line: int, told: str) -> None:
    repository = Repository.init(tmp_path / "work")
    repository.write("edge.yaml", EDGE)
    repository.commit()
    repository.git("switch", "--quiet", "-c", "change")
    repository.write("edge.yaml", EDGE.replace(good, bad))
    repository.commit()
    program = Program(tmp_path)
    options = ("--collector", str(found.collector()))
    done = program("plan", "work", "-o", "json", "--fail-on", "invalid", *options)
    [edge] = json.loads(done.out)["entries"][0]["renderings"]
    assert (done.code, edge.get("existing", False)) == (3, False)
    [violation] = edge["violations"]
    assert violation.startswith(f"edge.yaml:{line}:1: the Collector says: ")
    assert told in violation
    repository.git("switch", "--quiet", "-c", "mended")
    repository.write("edge.yaml", EDGE)
    repository.commit()
    mended = program("plan", "work", "--base", "change", "--fail-on", "invalid", *options)
    assert (mended.code, "what collectors run" in mended.out) == (0, True)
