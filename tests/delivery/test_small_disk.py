"""A daemon whose queues are on a disk that is really full: what was answered with 200 is delivered, and it goes on.

`test_disk_faults` has the same without a daemon.
"""

from pathlib import Path

import pytest

from tests import daemons, needs
from tests.delivery.lines import Line
from tests.servers import sinks

BYTES = 205_000  # of a record: of the third request, which is for two queues, one half fits on the disk
SMALL_DISK = f'mkdir -p "$0" && mount -t tmpfs -o size={1 << 20} tmpfs "$0" && exec "$@"'
MOST = 10  # requests until it is full


def body(number: int) -> str:
    return f"canary-body {number} {'x' * BYTES}"


@pytest.mark.slow
def test_a_full_disk_refuses_all_of_a_request_drains_and_takes_again(tmp_path: Path) -> None:
    prefix = [*needs.require_mount_namespace(), "sh", "-c", SMALL_DISK, str(tmp_path / "state/queues")]
    settings = {"delivery": {"freeBytes": 1024}}
    with (
        sinks.listening() as first,
        sinks.listening() as second,
        daemons.running(tmp_path, settings=settings, prefix=prefix) as daemon,
    ):
        both = [Line(daemon, first), Line(daemon, second)]
        both[1].set()
        both[0].set()
        both[0].route(*(line.name for line in both))
        for line in both:
            line.becomes(lambda found: found["configurations"] == [both[0].name], "it is routed to")
            line.sink.refuse()
        accepted = 0
        while (refused := both[0].send(body(accepted))).status == 200 and accepted < MOST:
            accepted += 1
        assert (accepted, refused.status) == (2, 503)
        assert "(No space left on device)" in refused.body["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= 5
        shown = [line.shown() or {} for line in both]
        assert sorted(one["queue"]["refused"] for one in shown) == [False, True]
        assert sorted(one["queue"]["batches"] for one in shown) == [2, 3]  # one of them has it, and may get it twice
        assert [one["counts"]["taken"] for one in shown] == [one["queue"]["records"] for one in shown]
        assert [message for message in daemon.messages() if "does not take what is written to the queue" in message]

        for line in both:
            line.sink.listen()
            line.becomes(lambda found: found["queue"]["batches"] == 0, "it drains")
        daemons.until(lambda: both[0].send(body(accepted)).status == 200 or None, "there is room again")
        for line in both:
            shown_then = line.becomes(lambda found: found["queue"]["batches"] == 0, "it drains")
            assert not shown_then["queue"]["refused"]
            assert set(line.sink.records) == {body(number) for number in range(accepted + 1)}
            counts = shown_then["counts"]
            assert counts["taken"] == counts["delivered"] + shown_then["deadLetters"]["records"]
            assert counts["dropped"] == counts["discarded"] == 0
