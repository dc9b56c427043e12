"""Log records from a sender to an endpoint, while destinations and Configurations come, change and go."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import canaries, daemons
from tests.daemons import Daemon
from tests.delivery import lines
from tests.delivery.lines import Line
from tests.servers import sinks
from tests.servers.sinks import Sink


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemons.running(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture
def line(daemon: Daemon, sink: Sink) -> Line:
    return Line(daemon, sink)


def queues(daemon: Daemon, name: str) -> list[Path]:
    """The folders of a destination's queues on disk."""
    files = daemon.state.glob("queues/*/*/queue.json")
    return [file.parent for file in files if f'"{name}"' in file.read_text()]


def test_a_path_needs_no_slash_at_its_beginning(line: Line, sink: Sink) -> None:
    line.begin(path="v1/logs?tenant=a")
    line.sent("one")
    line.arrives("one")
    assert sink.received[0].path == "/v1/logs?tenant=a"


def test_a_record_arrives_with_its_headers_and_is_counted(line: Line, sink: Sink) -> None:
    line.begin(path="/in?tenant=a", headers={"Authorization": "Bearer abc"})
    line.sent("one", '{"two": 9007199254740993}')
    daemons.until(lambda: sink.accepted or None, "it arrives")
    (request,) = sink.accepted
    assert (request.method, request.path, request.header("Authorization")) == ("POST", "/in?tenant=a", "Bearer abc")
    assert request.body == b'["one",{"two": 9007199254740993}]'
    shown = line.becomes(lambda found: found["counts"]["delivered"] == 2, "both are delivered")
    assert (shown["counts"]["taken"], shown["queue"]["batches"], shown["configurations"]) == (2, 0, [line.name])


def test_what_no_configuration_takes_is_refused_in_part_and_counted(daemon: Daemon, line: Line) -> None:
    line.begin()
    before = daemon.get("/v1/deliveries").body["unrouted"]["records"]
    answer = line.answered("nowhere", "to go", label="nobody")
    assert answer.status == 200
    assert int(answer.body["partialSuccess"]["rejectedLogRecords"]) == 2
    assert "status.delivery" in answer.body["partialSuccess"]["errorMessage"]
    shown = daemon.get("/v1/deliveries").body
    assert shown["unrouted"]["records"] == before + 2
    assert line.name in [one["destination"] for one in shown["deliveries"]]


def test_records_that_wait_go_to_where_the_destination_points_by_then(line: Line, sink: Sink) -> None:
    line.begin()
    sink.refuse()
    line.sent("late")
    line.becomes(lambda found: found["lastFailure"] is not None, "it failed")
    with sinks.listening() as another:
        line.set(another)
        line.sent("later")
        line.arrives("late", "later")
    assert sink.accepted == []


def test_a_destination_that_two_configurations_name_gets_a_record_once(daemon: Daemon, line: Line) -> None:
    line.begin()
    other = Line(daemon, line.sink, name=f"{line.name}-again")
    spec = {"sources": [{"type": "otlp"}], "destinations": [{"name": line.name}]}
    labels = {"selector": {"matchLabels": {"line": line.name}}}
    lines.apply(daemon, lines.resource("Configuration", other.name, {**spec, **labels}))
    line.becomes(lambda found: found["configurations"] == [line.name, other.name], "both route to it")
    line.sent("once")
    line.sent("twice")
    line.arrives("once", "twice")


def test_a_deleted_destination_is_drained_and_its_folder_goes(daemon: Daemon, line: Line, sink: Sink) -> None:
    line.begin()
    sink.refuse()
    line.sent("left")
    line.becomes(lambda found: found["lastFailure"] is not None, "it failed")
    assert daemon.delete(f"/v1/resources/Configuration/{line.name}").status == 204
    assert daemon.delete(f"/v1/resources/Destination/{line.name}").status == 204
    shown = line.becomes(lambda found: not found["configurations"], "nothing routes to it")
    assert shown["queue"]["batches"] == 1
    assert len(queues(daemon, line.name)) == 1
    sink.listen()
    line.arrives("left")
    daemons.until(lambda: line.shown() is None or None, "it is forgotten")
    daemons.until(lambda: not queues(daemon, line.name) or None, "its folder is gone")


@pytest.mark.parametrize("action", ["replay", "discard"])
def test_a_deleted_destination_with_dead_letters_is_forgotten_when_they_are_gone(
    daemon: Daemon, line: Line, sink: Sink, action: str
) -> None:
    line.begin(retry_on_failure_enabled=False)
    sink.script(sinks.says(422), sinks.says(200))
    line.sent("refused")
    line.becomes(lambda found: found["deadLetters"]["batches"] == 1, "it is a dead letter")
    assert daemon.delete(f"/v1/resources/Configuration/{line.name}").status == 204
    assert daemon.delete(f"/v1/resources/Destination/{line.name}").status == 204
    line.becomes(lambda found: not found["configurations"], "nothing routes to it")
    daemon.post(f"/v1/destinations/{line.name}/delivery/{action}", {"what": "all"} if action == "discard" else {})
    daemons.until(lambda: line.shown() is None or None, "it is forgotten")
    daemons.until(lambda: not queues(daemon, line.name) or None, "its folder is gone")
    assert sink.records == (["refused"] if action == "replay" else [])


def test_a_queue_whose_place_changes_is_drained_beside_the_new_one(daemon: Daemon, line: Line, sink: Sink) -> None:
    line.begin()
    sink.refuse()
    line.sent("old")
    line.becomes(lambda found: found["lastFailure"] is not None, "it failed")
    place = f"{line.name}-fast"
    lines.apply(daemon, lines.resource("Extension", place, {"type": "file_storage"}))
    line.set(persistent_queue_storage=place)
    daemons.until(lambda: len(queues(daemon, line.name)) == 2 or None, "there are two queues")
    line.sent("new")
    sink.listen()
    line.arrives("old", "new")
    daemons.until(lambda: len(queues(daemon, line.name)) == 1 or None, "the old queue is gone")
    assert queues(daemon, line.name)[0].parent.name == place


@pytest.mark.parametrize("kind", ["memory", "none"])
def test_records_arrive_without_a_disk(line: Line, kind: str) -> None:
    off = {"memory": {"persistent_queue_enabled": False}, "none": {"sending_queue_enabled": False}}[kind]
    line.begin(**off)
    line.sent("here")
    line.arrives("here")
    shown = line.shown()
    assert shown is not None
    assert shown["queue"]["kind"] == kind
    assert queues(line.daemon, line.name) == []


def test_without_a_queue_the_sender_is_told_what_the_endpoint_said(line: Line, sink: Sink) -> None:
    line.begin(sending_queue_enabled=False)
    sink.script(sinks.says(500), sinks.says(200))
    refused = line.answered("again")
    assert refused.status == 503
    assert "retry-after" in refused.headers
    assert "500" in str(refused.body)
    line.sent("again")
    line.arrives("again")


def test_one_full_destination_refuses_the_whole_request(daemon: Daemon, line: Line, sink: Sink) -> None:
    other = Line(daemon, sink).begin()
    line.begin(sending_queue_queue_size=1)
    sink.refuse()
    first = ["first"] * 1000
    line.sent(*first)
    line.route(line.name, other.name)
    other.becomes(lambda found: line.name in found["configurations"], "it is routed to")
    refused = line.answered("second")
    assert refused.status == 503
    assert 1 <= int(refused.headers["retry-after"]) <= 5
    assert line.name in str(refused.body)
    shown = other.shown()
    assert shown is not None
    assert (shown["counts"]["taken"], shown["queue"]["batches"]) == (0, 0)
    sink.listen()
    line.arrives(*first)


def test_what_is_more_than_a_queue_may_ever_hold_is_not_to_be_sent_again(daemon: Daemon, line: Line) -> None:
    small = {"type": "file_storage", "parameters": [{"name": "max_bytes", "value": 1 << 20}]}
    lines.apply(daemon, lines.resource("Extension", "small", small))
    line.begin(persistent_queue_storage="small")
    refused = line.answered("x" * (1 << 20))
    assert refused.status == 413
    assert "retry-after" not in refused.headers
    line.sent("it fits")
    line.arrives("it fits")


def test_a_full_destination_that_drops_leaves_the_others_theirs(daemon: Daemon, line: Line, sink: Sink) -> None:
    line.begin(sending_queue_queue_size=1, on_full="drop_newest")
    sink.refuse()
    line.sent(*["first"] * 1000)
    with sinks.listening() as well:
        other = Line(daemon, well).begin()
        line.route(line.name, other.name)
        other.becomes(lambda found: line.name in found["configurations"], "it is routed to")
        line.sent("second", "third")
        other.arrives("second", "third")
    shown = line.shown()
    assert shown is not None
    assert (shown["counts"]["dropped"], shown["counts"]["taken"]) == (2, 1000)


def test_a_dead_endpoint_does_not_stop_a_healthy_one_while_its_queue_has_room_for_the_records(
    daemon: Daemon, line: Line, sink: Sink
) -> None:
    line.begin(sending_queue_queue_size=1, on_full="dead_letter")
    sink.refuse()
    texts = [f"{number}-{one}" for number in range(20) for one in range(3)]
    with sinks.listening() as well:
        other = Line(daemon, well).begin()
        line.route(line.name, other.name)
        other.becomes(lambda found: line.name in found["configurations"], "it is routed to")
        for number in range(20):
            line.sent(*texts[3 * number : 3 * number + 3])
        other.arrives(*texts)
        shown = line.shown()
        assert shown is not None
        assert (shown["queue"]["records"], shown["queue"]["load"], shown["deadLetters"]["batches"]) == (60, 0.06, 0)
        line.sent(*["many"] * 1000)
        line.sent("late")
    shown = line.shown()
    assert shown is not None
    assert (shown["counts"]["dropped"], shown["deadLetters"]["records"]) == (0, 1)


def test_an_endpoint_that_repeats_the_request_shows_no_secret_that_was_sent_to_it(
    daemon: Daemon, line: Line, sink: Sink
) -> None:
    secret = "canary-0123456789"

    def echo(request: sinks.Received) -> sinks.Reply:
        told = json.dumps(request.headers).encode()
        return sinks.says(422, body=told + base64.b64encode(told))

    sink.choose(echo)
    line.begin(headers={"Authorization": f"Bearer {secret}"}, retry_on_failure_enabled=False)
    line.sent("one")
    shown = line.becomes(lambda found: bool(found["deadLetters"]["batches"]), "it has a dead letter")
    tested = daemon.post(f"/v1/destinations/{line.name}/delivery/test", {}).body
    for said in (shown["lastFailure"]["answer"], tested["test"]["answer"]):
        assert "Bearer" not in said
        assert "(sensitive)" in said
    everything = json.dumps([shown, tested, daemon.get("/v1/deliveries").body]).encode()
    kept = b"".join(file.read_bytes() for file in daemon.state.glob("queues/**/*.seg"))
    assert canaries.leaks(everything + kept) == []
    assert secret in str(sink.received[0].header("Authorization"))


def test_a_configuration_that_never_delivered_says_why_and_takes_nothing(daemon: Daemon, line: Line) -> None:
    line.set()
    spec = {
        "sources": [{"type": "otlp"}],
        "processors": [{"type": "custom", "parameters": [{"name": "configuration", "value": "{}"}]}],
        "destinations": [{"name": line.name}],
        "selector": {"matchLabels": {"line": line.name}},
    }
    lines.apply(daemon, lines.resource("Configuration", line.name, spec))
    shown = line.becomes(lambda found: not found["configurations"], "nothing routes to it")
    assert "No Configuration delivers to it" in shown["message"]
    status = (daemon.resource("Configuration", line.name) or {})["status"]["delivery"]
    assert status["delivers"] is False
    assert "processor" in status["reason"]
    answer = daemons.until(lambda: line.send("refused").body.get("partialSuccess"), "the Configuration is read")
    assert int(answer["rejectedLogRecords"]) == 1


def test_dead_letters_are_shown_replayed_and_discarded(line: Line, sink: Sink) -> None:
    sink.script(sinks.says(400, body=b"what is that"))
    line.begin(retry_on_failure_enabled=False)
    line.sent("bad")
    shown = line.becomes(lambda found: found["counts"]["dead"] == 1, "it is dead")
    assert (shown["deadLetters"]["records"], shown["lastFailure"]["status"]) == (1, 400)
    assert shown["lastFailure"]["answer"] == "what is that"
    sink.script(sinks.says(200))
    answer = line.daemon.post(f"/v1/destinations/{line.name}/delivery/replay", {})
    assert (answer.status, answer.body) == (200, {"replayed": {"batches": 1, "records": 1}})
    line.arrives("bad")
    sink.script(sinks.says(400))
    line.sent("worse")
    line.becomes(lambda found: found["deadLetters"]["records"] == 1, "another is dead")
    answer = line.daemon.post(f"/v1/destinations/{line.name}/delivery/discard", {"what": "deadLetters"})
    assert (answer.status, answer.body) == (200, {"discarded": {"batches": 1, "records": 1}})
    found = line.becomes(lambda found: found["deadLetters"]["records"] == 0, "none is dead")
    assert found["counts"]["discarded"] == 1


def test_one_dead_letter_is_shown_with_its_record_and_replayed_alone(line: Line, sink: Sink) -> None:
    sink.script(sinks.says(400))
    line.begin(retry_on_failure_enabled=False)
    path = f"/v1/destinations/{line.name}/delivery"
    for dead, text in enumerate(("first", "second"), start=1):
        line.sent(text)
        line.becomes(lambda found, dead=dead: found["deadLetters"]["batches"] == dead, f"{text} is dead")  # type: ignore[misc]
    found = line.daemon.get(f"{path}/dead-letters").body["deadLetters"]
    assert [(one["status"], [record["body"] for record in one["preview"]]) for one in found] == [
        (400, ["first"]),
        (400, ["second"]),
    ]
    sink.script(sinks.says(200))
    answer = line.daemon.post(f"{path}/replay", {"batch": found[1]["id"]})
    assert answer.body == {"replayed": {"batches": 1, "records": 1}}
    line.becomes(lambda shown: shown["counts"]["delivered"] == 1, "the second arrived")
    assert line.daemon.get(f"{path}/dead-letters?limit=5").body["deadLetters"] == found[:1]
    answer = line.daemon.post(f"{path}/discard", {"what": "deadLetters", "batch": found[0]["id"]})
    assert answer.body == {"discarded": {"batches": 1, "records": 1}}
    assert line.daemon.get(f"{path}/dead-letters").body == {"deadLetters": []}
    assert line.daemon.get(f"{path}/history").body["interval"] == 60


@pytest.mark.parametrize("consumers", [1, 10])
def test_what_waits_for_an_endpoint_that_is_down_is_discarded(line: Line, sink: Sink, consumers: int) -> None:
    line.begin(sending_queue_num_consumers=consumers)
    sink.refuse()
    line.sent("one", "two")
    line.becomes(lambda found: found["lastFailure"] is not None, "it failed")
    line.sent("three")
    line.becomes(lambda found: found["state"] == "down" and found["queue"]["inFlight"] == 0, "it is down")
    answer = line.daemon.post(f"/v1/destinations/{line.name}/delivery/discard", {"what": "queue"})
    assert (answer.status, answer.body) == (200, {"discarded": {"batches": 2, "records": 3}})
    shown = line.becomes(lambda found: found["queue"]["batches"] == 0, "nothing is queued")
    assert (shown["counts"]["discarded"], shown["queue"]["records"], shown["queue"]["waiting"]) == (3, 0, 0)
    sink.listen()
    line.sent("four")
    line.arrives("four")


def test_a_test_is_sent_past_the_queue_and_tells_the_likely_cause(line: Line, sink: Sink) -> None:
    line.set()
    test = f"/v1/destinations/{line.name}/delivery/test"
    told = line.daemon.post(test, {}).body["test"]
    assert (told["delivered"], told["status"]) == (True, 200)
    sink.script(sinks.says(401, body=b"who are you"))
    told = line.daemon.post(test, {}).body["test"]
    assert (told["delivered"], told["status"], told["answer"]) == (False, 401, "who are you")
    assert "Authorization" in told["message"]
    sink.refuse()
    told = line.daemon.post(test, {}).body["test"]
    assert (told["delivered"], told["status"]) == (False, None)
    assert "port" in told["message"]
    shown = line.shown()
    assert shown is not None
    assert shown["counts"]["taken"] == 0
    assert line.daemon.delete(f"/v1/resources/Destination/{line.name}").status == 204
    assert line.daemon.post(test, {}).status == 404
