"""Records go on to the last good endpoint while a Configuration cannot deliver by its present version, also after a
restart; where they must not, they wait.
"""

from pathlib import Path
from typing import Any

from tests import daemons
from tests.daemons import Answer, Daemon
from tests.delivery import lines
from tests.delivery.lines import Line
from tests.servers import sinks


def change(line: Line, query: str = "", **spec: Any) -> dict[str, Any]:
    """Apply the line's Configuration with more in its spec; what its status says of delivery."""
    resource = lines.resource(
        "Configuration",
        line.name,
        {
            "sources": [{"type": "otlp"}],
            "destinations": [{"name": line.name}],
            "selector": {"matchLabels": {"line": line.name}},
            **spec,
        },
    )
    [update] = line.daemon.apply(resource, query=query)
    assert update["status"] == "configured", update
    return dict(update["resource"]["status"]["delivery"])


def incomplete(line: Line, **parameters: object) -> None:
    """Apply the line's Destination with these parameters alone."""
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    broken = lines.resource("Destination", line.name, {"type": "webhook", "parameters": given})
    [update] = line.daemon.apply(broken, query="?acceptInvalid=true")
    assert update["status"] == "configured", update


def notified(daemon: Daemon) -> list[str]:
    """The open notifications of stale routes, by their messages."""
    found = daemon.get("/v1/api/notifications").body["notifications"]
    return [
        one["metadata"]["additionalInfo"]["message"]
        for one in found
        if one["spec"]["notificationType"] == "DeliveryStale" and one["metadata"]["labels"]["service/state"] == "open"
    ]


def test_records_arrive_by_the_last_good_route_until_an_endpoint_is_another_one(tmp_path: Path) -> None:
    with daemons.running(tmp_path) as daemon, sinks.listening() as sink, sinks.listening() as other:
        line = Line(daemon, sink).begin()
        line.sent("before")
        said = change(line, processors=[{"type": "custom"}])
        assert (said["delivers"], said["stale"]["version"]) == (True, 1)
        line.sent("with a processor")
        incomplete(line, timeout=3)
        line.sent("incomplete")
        [told] = daemons.until(lambda: notified(daemon) or None, "it is notified")
        assert told.startswith(f"{line.name}. The last version that delivered stays in force.")
        daemon.stop()
        daemon.start()
        line.becomes(lambda found: found["configurations"] == [line.name], "it is routed to again")
        line.sent("after a restart")
        line.arrives("before", "with a processor", "incomplete", "after a restart")

        line.set(other)
        line.becomes(lambda found: found["state"] == "held", "it is held")
        stored = daemon.get(f"/v1/resources/Configuration/{line.name}").body["resource"]
        assert stored["status"]["delivery"]["delivers"] is False
        line.sent("queued")
        tested = daemon.post(f"/v1/destinations/{line.name}/delivery/test", {}).body["test"]
        assert (tested["delivered"], tested["status"]) == (False, None)
        daemon.stop()
        daemon.start()
        line.becomes(lambda found: found["state"] == "held" and found["queue"]["batches"] == 1, "it waits")
        assert (len(sink.records), other.records) == (4, [])
        assert change(line) == {"delivers": True}
        line.arrives("queued", at=other)
        daemons.until(lambda: notified(daemon) == [] or None, "the notification ended")


def test_senders_keep_for_a_while_what_only_a_configuration_wants_that_delivered(tmp_path: Path) -> None:
    with daemons.running(tmp_path) as daemon, sinks.listening() as sink:
        line = Line(daemon, sink).begin()
        never = Line(daemon, sink)
        never.set()
        spec = {
            "sources": [{"type": "otlp"}],
            "destinations": [{"name": never.name}],
            "processors": [{"type": "custom"}],
            "selector": {"matchLabels": {"line": never.name}},
        }
        lines.apply(daemon, lines.resource("Configuration", never.name, spec))
        change(line, selector={"matchLabels": {"line": "elsewhere"}}, processors=[{"type": "custom"}])

        def told() -> Answer | None:
            sent = line.send("wanted", label="elsewhere")
            return sent if "cannot deliver by its present version" in str(sent.body) else None

        answer = daemons.until(told, "the sender is asked to keep it")
        assert answer.status == 503
        assert 1 <= int(answer.headers["retry-after"]) <= 5
        daemons.until(lambda: never.send("refused").body.get("partialSuccess"), "what never delivered wants nothing")
        line.sent("by the route in force")
        line.arrives("by the route in force")
