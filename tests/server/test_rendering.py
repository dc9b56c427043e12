"""A daemon renders what Collectors get soon after a change, whatever others put into their types."""

import hashlib
import http.client
import threading
import time
from pathlib import Path
from typing import Any

from tests import daemons
from tests.daemons import Daemon
from tests.projects import resource

ENDLESS = (
    "{{range 1000000000}}x{{end}}",
    "{{range .many}}{{range $.many}}" + "{{$a := 1}}" * 2000 + "{{end}}{{end}}",
    '{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}',
    "{{range .many}}{{range $.many}}- filelog: {}\n{{end}}{{end}}",
)
SLOWEST_SECONDS = 2.0  # of a GET meanwhile; a stuck one would take much longer


def configuration(name: str, source: str, **parameters: Any) -> dict[str, Any]:
    given = [{"name": key, "value": value} for key, value in parameters.items()]
    return resource(
        "Configuration", name, sources=[{"type": source, "parameters": given}], destinations=[{"type": "debug"}]
    )


def fetched(daemon: Daemon, name: str, *, project: str = "default") -> bytes | None:
    """Return what a Collector would load, or None."""
    connection = http.client.HTTPConnection(daemon.host, daemon.port, timeout=daemons.ANSWER_SECONDS)
    headers = {"Authorization": f"Bearer {daemon.key}", "X-Service-Project": project}
    connection.request("GET", f"/v1/resources/Configuration/{name}/collector.yaml", None, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return content if answer.status == 200 else None


def test_a_change_is_rendered_and_so_is_what_was_there_before_a_start(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        daemon.apply(configuration("web", "filelog", include=["/a"]))
        first = daemons.until(lambda: fetched(daemon, "web"), "the rendering")
        assert b"/a" in first
        daemon.apply(configuration("web", "filelog", include=["/b"]))

        def another() -> bytes | None:
            text = fetched(daemon, "web")
            return None if text == first else text

        found = daemons.until(another, "the next rendering")
        shown = daemon.resource("Configuration", "web")
        assert shown is not None
        assert shown["status"]["rendering"] == {"hash": hashlib.sha256(found).hexdigest()}
        daemon.restart()
        assert fetched(daemon, "web") == found
        assert [one for one in daemon.complaints() if not one.startswith("No repository")] == []


def test_hostile_types_end_in_time_and_harm_nothing_else(tmp_path: Path) -> None:
    many = {"name": "many", "type": "strings", "default": ["x"] * 1000}
    with daemons.running(tmp_path / "daemon", has_real_reader=True) as daemon:
        reader = daemon.reader()
        types = [
            resource("SourceType", f"own-{number}", logs={"receivers": template}, parameters=[many])
            for number, template in enumerate(ENDLESS)
        ]
        slowest, stop = [0.0], threading.Event()

        def ask() -> None:
            while not stop.is_set():
                begun = time.monotonic()
                assert daemon.get("/v1/resources/SourceType/otlp").status == 200
                slowest[0] = max(slowest[0], time.monotonic() - begun)

        asking = threading.Thread(target=ask)
        asking.start()
        hostile = [configuration(f"bad-{number}", f"own-{number}") for number in range(len(ENDLESS))]
        daemon.apply(*types, *hostile, configuration("web", "filelog", include=["/a"]))
        try:
            assert daemons.until(lambda: fetched(daemon, "web"), "the others are rendered")
            for number in range(len(ENDLESS)):

                def fault(name: str = f"bad-{number}") -> Any:
                    found = daemon.resource("Configuration", name)
                    assert found is not None
                    return found["status"].get("rendering", {}).get("fault")

                assert daemons.until(fault, "the fault")["type"] == f"own-{number}"
        finally:
            stop.set()
            asking.join()
        assert slowest[0] < SLOWEST_SECONDS
        assert daemon.reader() == reader
        assert [one for one in daemon.complaints() if not one.startswith("No repository")] == []
