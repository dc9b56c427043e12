"""The polls of a repository's loop over hours that pass in no time: the event loop jumps to whatever is due next."""

import asyncio
import itertools
import math
import os
import selectors
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes.sources import source_of
from reconciler.git.remotes.watching import Watcher
from reconciler.model.errors import ReconcilerError, Refused, Transient
from reconciler.reconcile import interventions, runs
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.commit_groups import CommitGroup
from reconciler.reconcile.loop import MOST, WINDOW, Loop
from reconciler.reconcile.reconciler import Reconciler, RepositoryMemory
from reconciler.reconcile.runs import Run, Trigger
from reconciler.settings import bounded_io
from reconciler.store.repository_records import SuspensionRow
from tests import entries

HOUR = 3_600.0
TURN = 1e-6  # seconds that one turn of the event loop takes
MAY_PASS = Transient("The disk is full.")
FOR_A_PERSON = Refused("The settings are wrong.")
EPOCH = datetime(2026, 11, 21, tzinfo=UTC)
UNTIL = "2026-11-21T01:00:00.000Z"  # an hour later


class Jumping(selectors.DefaultSelector):
    """Waits for nothing but threads that look at files: what else would be waited is what the time goes on by."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        for thread in threading.enumerate():
            while thread.is_alive() and thread.name == "files":
                thread.join(0.001)
        if found := super().select(0):
            return found
        self.now += TURN + (timeout or 0.0)
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop that has its time from its selector."""

    def __init__(self) -> None:
        self.jumping = Jumping()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


class Scripted:
    """A reconciler whose runs take no time and end as they are told; it notes when each began, and its trigger."""

    def __init__(self, *, interval: float = 60.0, credentials: Path | None = None) -> None:
        self.watched = entries.watched(
            "telemetry",
            "https://git.example/telemetry.git",
            interval=interval,
            credentials={"token_file": credentials},
        )
        self.source = source_of(self.watched)
        self.fault: ReconcilerError | None = None
        self.suspension: SuspensionRow | None = None
        self.late = 0.0  # seconds by which the clock of the wall lags behind that of the loop
        self.polls: list[tuple[float, Trigger]] = []
        self.memory = RepositoryMemory(runs.unread_row(self.watched))
        self.group = CommitGroup(cast("Applier", None))  # no run of it is ever ready to plan

    async def explain(self) -> None:
        """Find nothing."""

    async def reconcile(self, run: Run) -> None:
        assert not run.full
        self.polls.append((_now(), run.trigger))
        if not self.suspension_left:
            self.suspension = None
        run.fault = self.fault

    @property
    def suspension_left(self) -> float:
        return math.inf if self.suspension is None else interventions.seconds_left(self.suspension, self._clock())

    def _clock(self) -> datetime:
        return EPOCH + timedelta(seconds=_now() - self.late)


class Failing(Scripted):
    """One whose runs cannot even be recorded."""

    async def reconcile(self, run: Run) -> None:
        await super().reconcile(run)
        raise ValueError


def _now() -> float:
    return asyncio.get_running_loop().time()


def played(script: Callable[[Loop], Coroutine[Any, Any, None]], reconciler: Scripted) -> list[tuple[float, Trigger]]:
    """The runs while the script runs beside the loop."""

    async def play() -> None:
        loop = Loop(cast("Reconciler", reconciler), new_run=_new_run, watcher=Watcher())
        loop.start(Trigger.START)
        await asyncio.sleep(0.001)
        await script(loop)
        await loop.stop()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(play())
    return reconciler.polls


def _new_run(why: Trigger, actor: str) -> Run:
    return Run(id="run", repository="telemetry", project="default", trigger=why, actor=actor)


async def an_hour(_: Loop) -> None:
    await asyncio.sleep(HOUR)


def fullest_minute(runs: list[tuple[float, Trigger]]) -> int:
    """The most runs that begin within one window."""
    times = [when for when, _ in runs]
    return max(sum(begin <= when < begin + WINDOW - 1e-6 for when in times) for begin in times)


def test_polls_come_at_their_interval() -> None:
    runs = played(an_hour, Scripted(interval=60.0))
    times = [when for when, _ in runs]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert [trigger for _, trigger in runs] == [Trigger.START, *[Trigger.POLL] * (len(runs) - 1)]
    assert 0 <= gaps[0] < 60.001
    assert all(53.999 <= gap <= 66.001 for gap in gaps[1:])


def test_repositories_that_start_together_with_an_event_each_are_polled_evenly() -> None:
    """As those on this machine do: the first event says that their watch stands."""

    async def watched(loop: Loop) -> None:
        await asyncio.sleep(0.2)
        loop.ask(Trigger.WATCH, actor="system")
        await asyncio.sleep(3 * 60.0)

    polls = []
    for _ in range(200):
        runs = played(watched, Scripted(interval=60.0))
        polls.append([when for when, trigger in runs if trigger is Trigger.POLL][1] % 60.0)
    assert max(sum(tenth <= poll / 6.0 < tenth + 1 for poll in polls) for tenth in range(10)) < 50


def test_a_repository_that_fails_is_polled_ever_more_rarely_however_short_its_interval() -> None:
    reconciler = Scripted(interval=0.25)
    reconciler.fault = MAY_PASS
    runs = played(an_hour, reconciler)
    assert fullest_minute(runs) == MOST
    assert len(runs) <= 14  # four in the first minute, then 32, 64, 128, 256 and 512 seconds apart, then ten minutes


def test_events_that_keep_coming_do_not_defeat_the_bound() -> None:
    reconciler = Scripted()
    reconciler.fault = MAY_PASS

    async def events(loop: Loop) -> None:
        while _now() < HOUR:
            loop.ask(Trigger.WATCH, actor="system")
            await asyncio.sleep(0.7)

    runs = played(events, reconciler)
    assert fullest_minute(runs) == MOST
    assert len(runs) >= 2 * HOUR / WINDOW  # it is polled nevertheless


def test_an_event_acts_at_once_while_runs_fail() -> None:
    reconciler = Scripted(interval=HOUR)
    reconciler.fault = FOR_A_PERSON

    async def event(loop: Loop) -> None:
        await asyncio.sleep(100.0)
        reconciler.fault = None
        loop.ask(Trigger.WATCH, actor="system")
        await asyncio.sleep(1.0)

    assert [round(when) for when, _ in played(event, reconciler)] == [0, 100]


def test_only_a_request_is_faster_than_the_remote_asks_for() -> None:
    reconciler = Scripted()
    reconciler.fault = GitFault(RepositoryState.UNREACHABLE, "Ask later.", retry_after=500.0)

    async def meanwhile(loop: Loop) -> None:
        await asyncio.sleep(100.0)
        loop.ask(Trigger.WATCH, actor="system")
        await asyncio.sleep(1.0)
        loop.ask(Trigger.REQUEST, actor="ada")
        await asyncio.sleep(1.0)
        loop.ask(Trigger.STORE, actor="system")
        await asyncio.sleep(HOUR / 6)

    runs = [(round(when), trigger) for when, trigger in played(meanwhile, reconciler)]
    assert runs == [(0, Trigger.START), (101, Trigger.REQUEST), (601, Trigger.STORE)]


def test_a_request_never_waits() -> None:
    reconciler = Scripted()
    reconciler.fault = MAY_PASS

    async def requests(loop: Loop) -> None:
        for _ in range(10):
            loop.ask(Trigger.REQUEST, actor="ada")
            await asyncio.sleep(0.1)

    triggers = [trigger for _, trigger in played(requests, reconciler)]
    assert triggers == [Trigger.START, *[Trigger.REQUEST] * 10]


def test_a_file_with_credentials_that_changes_ends_the_wait(tmp_path: Path) -> None:
    """As Kubernetes changes it: a link above the file is swapped, and the file's own path stays as it was."""
    for version in ("old", "new"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_text("canary-token")
    (tmp_path / "data").symlink_to("old")
    reconciler = Scripted(interval=HOUR, credentials=tmp_path / "data/token")
    reconciler.fault = FOR_A_PERSON

    async def rotate(_: Loop) -> None:
        await asyncio.sleep(100.0)
        reconciler.fault = None
        (tmp_path / "swapped").symlink_to("new")
        os.replace(tmp_path / "swapped", tmp_path / "data")  # noqa: PTH105 - Path.replace is the same
        await asyncio.sleep(HOUR / 2)

    ((first, _), (second, trigger), *_) = played(rotate, reconciler)
    assert (round(first), trigger) == (0, Trigger.WATCH)
    assert 100.0 < second <= 102.1


def test_a_file_that_is_written_again_and_again_does_not_defeat_the_bound(tmp_path: Path) -> None:
    token = tmp_path / "token"
    reconciler = Scripted(interval=HOUR, credentials=token)
    reconciler.fault = FOR_A_PERSON

    async def rewrite(_: Loop) -> None:
        for number in range(300):
            token.write_text("x" * (number + 1))
            await asyncio.sleep(1.0)

    runs = played(rewrite, reconciler)
    assert fullest_minute(runs) <= 2 * MOST


@pytest.mark.parametrize("is_hook", [True, False])
def test_a_correction_is_acted_on_within_seconds_however_many_polls_failed(tmp_path: Path, *, is_hook: bool) -> None:
    token = tmp_path / "token"
    reconciler = Scripted(interval=0.25, credentials=token)
    reconciler.fault = MAY_PASS

    async def correct(loop: Loop) -> None:
        await asyncio.sleep(20.0)  # four polls have failed, and no other may come for three quarters of a minute
        reconciler.fault = None
        if is_hook:
            loop.ask(Trigger.HOOK, actor="forge")
        else:
            token.write_text("canary-token")
        await asyncio.sleep(5.0)

    runs = played(correct, reconciler)
    assert runs[MOST - 1][0] < 20.0 <= runs[MOST][0] <= 25.0


def test_a_disk_that_hangs_delays_no_poll_and_keeps_few_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.touch()
    reconciler = Scripted(interval=60.0, credentials=token)
    reconciler.fault = MAY_PASS
    threads, answers = 0, threading.Event()

    def hanging(_: Path) -> None:
        threading.current_thread().name = "hangs"
        answers.wait()

    async def hang(loop: Loop) -> None:
        nonlocal threads
        monkeypatch.setattr(bounded_io, "file_identity", hanging)
        await asyncio.sleep(HOUR)
        threads = sum(thread.name == "hangs" for thread in threading.enumerate())
        loop.ask(Trigger.REQUEST, actor="ada")
        await asyncio.sleep(0.1)

    runs = played(hang, reconciler)
    answers.set()
    assert threads == 6  # it is tried again after 1, 2, 4, 8 and 16 minutes
    assert runs[-1][1] is Trigger.REQUEST
    assert len([when for when, _ in runs if when > HOUR / 2]) >= 3
    assert fullest_minute(runs[:-1]) <= MOST


def test_a_suspension_ends_on_time_though_the_timer_is_early() -> None:
    """The clock of the wall is a fraction of a millisecond behind when the timer fires."""
    reconciler = Scripted(interval=24 * HOUR)
    reconciler.suspension = SuspensionRow("telemetry", reason="", actor="ada", since="", until=UNTIL)

    async def beyond(_: Loop) -> None:
        await asyncio.sleep(HOUR / 2)
        reconciler.late = 0.0004
        await asyncio.sleep(HOUR)

    runs = played(beyond, reconciler)
    late = [when for when, trigger in runs if trigger is Trigger.RESUME]
    assert len(late) == 1
    assert HOUR <= late[0] < HOUR + 0.01
    assert sum(HOUR - 1 < when < HOUR + 1 for when, _ in runs) <= 3  # it does not spin


def test_the_seconds_left_of_a_suspension() -> None:
    end = datetime.fromisoformat(UNTIL)
    row = SuspensionRow("telemetry", reason="", actor="ada", since="", until=UNTIL)
    moments = [timedelta(seconds=seconds) for seconds in (-1.5, -0.0004, 0.0, 0.0004, 90.0)]
    found = [interventions.seconds_left(row, end + moment) for moment in moments]
    assert found == [1.5, 0.0004, 0.0, 0.0, 0.0]
    assert interventions.seconds_left(row._replace(until=None), end) == math.inf


def test_a_fault_of_the_program_at_the_end_of_a_run_ends_no_loop(caplog: pytest.LogCaptureFixture) -> None:
    reconciler = Failing()

    async def asked(loop: Loop) -> None:
        await asyncio.sleep(1.0)
        loop.ask(Trigger.REQUEST, actor="ada")
        await asyncio.sleep(HOUR / 6)

    with caplog.at_level("ERROR"):
        runs = [(round(when), trigger) for when, trigger in played(asked, reconciler)]
    assert runs[:2] == [(0, Trigger.START), (1, Trigger.REQUEST)]
    assert len(runs) > 3, "it is tried again by itself"
    assert {record.message for record in caplog.records} == {
        "The end of the run run of telemetry met a fault of the program."
    }
