"""Queued records outlive the daemon, even those for a destination that is gone."""

from pathlib import Path
from typing import Any

from tests import daemons
from tests.daemons import Daemon
from tests.delivery.lines import Line
from tests.servers import sinks


def test_what_is_queued_is_sent_after_a_restart_also_to_a_destination_that_is_gone(tmp_path: Path) -> None:
    with sinks.listening() as sink, daemons.running(tmp_path) as daemon:
        kept, gone, orphan = (Line(daemon, sink).begin() for _ in range(3))
        sink.refuse()
        for line in (kept, gone, orphan):
            line.sent(f"for {line.name}")
        delete(daemon, gone)
        assert daemon.stop() == 0
        daemon.start()
        assert [shown(line)["queue"]["batches"] for line in (kept, gone, orphan)] == [1, 1, 1]
        sink.listen()
        kept.arrives(*(f"for {line.name}" for line in (kept, gone, orphan)))
        daemons.until(lambda: gone.shown() is None or None, "what is gone is forgotten")
        assert shown(kept)["configurations"] == [kept.name]


def test_a_queue_of_which_nothing_is_known_is_shown_and_can_be_discarded(tmp_path: Path) -> None:
    with sinks.listening() as sink, daemons.running(tmp_path) as daemon:
        line = Line(daemon, sink).begin()
        sink.refuse()
        line.sent("whose")
        assert daemon.stop() == 0
        for file in daemon.state.glob("store.db*"):
            file.unlink()
        daemon.options = ("--new-store",)
        daemon.start()
        left = line.becomes(lambda found: found["state"] == "orphaned", "it is orphaned")
        assert (left["queue"]["batches"], left["queue"]["records"]) == (1, 1)
        assert "discard" in left["message"]
        answer = daemon.post(f"/v1/destinations/{line.name}/delivery/discard", {"what": "all"})
        assert answer.body == {"discarded": {"batches": 1, "records": 1}}
        assert line.shown() is None
        assert list(daemon.state.glob("queues/*/*/queue.json")) == []


def test_a_stop_sends_what_is_in_memory_alone_and_says_what_it_could_not(tmp_path: Path) -> None:
    brief = {"delivery": {"drainTimeout": "2s"}}
    with sinks.listening() as sink, sinks.listening() as refusing, daemons.running(tmp_path, settings=brief) as daemon:
        slow = Line(daemon, sink).begin(persistent_queue_enabled=False, sending_queue_num_consumers=1, format="single")
        lost = Line(daemon, refusing).begin(persistent_queue_enabled=False)
        refusing.script(sinks.says(422))
        sink.script(sinks.says(200, after=0.1))
        texts = [f"number {place}" for place in range(5)]
        lost.sent("refused")
        for text in texts:
            slow.sent(text)
        lost.becomes(lambda found: found["lastFailure"] is not None, "it failed")
        assert daemon.stop() == 0
        assert sink.records == texts
        told = [message for message in daemon.messages() if "in memory alone" in message]
        assert told == [f"This stop loses 1 record that {lost.name} had in memory alone."]


def delete(daemon: Daemon, line: Line) -> None:
    for kind in ("Configuration", "Destination"):
        assert daemon.delete(f"/v1/resources/{kind}/{line.name}").status == 204


def shown(line: Line) -> dict[str, Any]:
    return line.becomes(lambda found: found["state"] != "", "it is shown")
