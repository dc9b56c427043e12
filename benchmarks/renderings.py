"""Rendering for Collectors: how long a thousand Configurations take after a change of a type that all of them use, and
what others who use the daemon notice of it.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import delivery_pacing
from benchmarks.asking import Connection
from benchmarks.beside import Beside
from benchmarks.daemons import Daemon, daemon
from benchmarks.figures import Figure

SECONDS_LIMIT = 60.0
READS_A_SECOND = 100
READ_LIMIT_MS = 100.0
STEP_SECONDS = 0.05
GIVEN_UP_SECONDS = 600.0
AT_ONCE = 200  # resources in one request
TEMPLATE = """- filelog:
    include: [{{ range $i, $one := .include }}{{ if $i }}, {{ end }}{{ quote $one }}{{ end }}]
    start_at: {{ .start }}
    poll_interval: %ds
"""


def measure(*, configurations: int) -> list[Figure]:
    """Change the shared type once, and ask for another resource meanwhile."""
    with tempfile.TemporaryDirectory() as temporary, daemon(Path(temporary), repository=None) as running:
        _apply(running, [_type(1), _resource("Destination", "out", type="otlphttp", parameters=_given(endpoint=_URL))])
        _apply(running, [_configuration(number) for number in range(configurations)])
        last = _name(configurations - 1)
        _until_rendered(running, last, b"poll_interval: 1s")
        asked = delivery_pacing.request("GET", "/v1/resources/Destination/out", key=running.key)
        file = Path(temporary) / "read"
        with Beside(asked, port=running.port, every=1 / READS_A_SECOND, file=file, paced=True) as reading:
            begun = time.perf_counter()
            _apply(running, [_type(2)])
            _until_rendered(running, last, b"poll_interval: 2s")
            seconds = time.perf_counter() - begun
            reads = reading.ended()
    what = f"{configurations:,} Configurations rendered after a change of their type"
    return [
        Figure(what, f"{seconds:.1f} s", f"limit {SECONDS_LIMIT:.0f} s", f"{seconds / SECONDS_LIMIT:.2f}"),
        Figure(
            f"GET one, {READS_A_SECOND} a second, meanwhile, 99th percentile of {reads.requests}",
            f"{reads.p99_ms:.1f} ms",
            f"limit {READ_LIMIT_MS:.0f} ms",
            f"{reads.p99_ms / READ_LIMIT_MS:.2f}",
        ),
    ]


_URL = "https://collector.example.com"


def _apply(running: Daemon, resources: list[dict[str, Any]]) -> None:
    for start in range(0, len(resources), AT_ONCE):
        updates = running.apply(*resources[start : start + AT_ONCE])
        if wrong := [one for one in updates if one["status"] not in ("created", "configured")]:
            raise RuntimeError(f"not stored: {wrong[0]}")


def _until_rendered(running: Daemon, name: str, text: bytes) -> None:
    """Wait until a Collector would get this: Configurations are rendered in the order of their names."""
    request = delivery_pacing.request("GET", f"/v1/resources/Configuration/{name}/collector.yaml", key=running.key)
    until = time.monotonic() + GIVEN_UP_SECONDS
    with Connection(running.port) as connection:
        while text not in connection.ask(request).body:
            if time.monotonic() > until:
                raise TimeoutError(f"{name} is not rendered within {GIVEN_UP_SECONDS:g} seconds")
            time.sleep(STEP_SECONDS)


def _resource(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _given(**values: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _type(seconds: int) -> dict[str, Any]:
    include = {"name": "include", "type": "strings", "required": True}
    start = {"name": "start", "type": "string", "default": "end"}
    return _resource("SourceType", "shared", parameters=[include, start], logs={"receivers": TEMPLATE % seconds})


def _configuration(number: int) -> dict[str, Any]:
    """One of its own files, with two sources of the shared type and a processor."""
    sources = [
        {"id": f"s{at}", "type": "shared", "parameters": _given(include=[f"/var/log/{number}-{at}.log"])}
        for at in range(2)
    ]
    spec = {"sources": sources, "processors": [{"type": "batch"}], "destinations": [{"name": "out"}]}
    return _resource("Configuration", _name(number), **spec)


def _name(number: int) -> str:
    return f"web-{number:05}"
