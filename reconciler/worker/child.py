"""The main program of the worker process.

It is started by `client`, takes jobs from its standard input and answers on its standard output. Jobs of the same sort
run one after another on a thread of their own, so that a request does not wait behind a large commit. What is searched
for in the background rests while there is anything else to do. It ends when its input does: whoever started it is gone
then.
"""

import contextlib
import os
import queue
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NoReturn

import msgspec

from reconciler.git.faults import GitFault
from reconciler.model import errors
from reconciler.model.routes import Routes
from reconciler.store.contract import Changes
from reconciler.store.planning_view import PlanningView
from reconciler.version import __version__
from reconciler.worker import commits, crew, history, limits, messages, requests, reviews, routes
from reconciler.worker.crew import Crew, CrewBroken
from reconciler.worker.limits import Exhausted
from reconciler.worker.messages import (
    Answer,
    At,
    Begun,
    CommitJob,
    CommitPlanned,
    Envelope,
    Failed,
    Job,
    LineageJob,
    Part,
    Planned,
    RedactJob,
    RequestJob,
    ReviewJob,
    RoutesJob,
    RoutesPart,
)

UPGRADED = "The program was replaced while it ran (version {theirs} by {ours}); restart the daemon."
FAULT = "The reader met a fault of its own; the log has the cause, and the work is tried again."


def main() -> None:
    """Serve jobs until the input ends."""
    limits.limit_process()
    limits.settle_memory()
    helpers = crew.start_crew(crew.most_helpers())  # before there is a thread
    jobs, answers = _take_over_pipes()
    child = Worker(answers, helpers)
    limits.close_files()
    child.serve(jobs)
    # A lane may still plan; nobody waits for its answer any more.
    os._exit(0)


class Worker:
    """Hands each job to the lane of its sort and sends what the lanes answer."""

    def __init__(self, answers: BinaryIO, helpers: Crew) -> None:
        self._answers = answers
        self._crew = helpers
        self._lock = threading.Lock()
        self._encoder = msgspec.msgpack.Encoder()
        sorts = (CommitJob, RequestJob, LineageJob, RedactJob, RoutesJob, ReviewJob)
        self._lanes: dict[type[Job], JobLane] = {sort: JobLane(sort.__name__, self._run) for sort in sorts}

    def serve(self, jobs: BinaryIO) -> None:
        """Read jobs until the end of the input."""
        while (payload := _read_frame(jobs)) is not None:
            envelope = messages.envelope(payload)
            self._lanes[type(envelope.job)].put(envelope)

    def _is_wanted(self) -> bool:
        """Whether there is anything to do that somebody waits for."""
        return any(self._lanes[sort].is_busy for sort in (CommitJob, RequestJob, RoutesJob))

    def _run(self, envelope: Envelope, views: "StoreViews") -> None:
        self._send(Begun(envelope.number))
        try:
            planned = self._plan(envelope, views.of(envelope.job.context.store))
            self._send(planned)
            if isinstance(planned, CommitPlanned) and planned.full:
                limits.give_back_memory()  # a hundred thousand files take hundreds of megabytes, which nobody needs now
        except CrewBroken as broken:
            crew.end_crew(broken)
        except errors.ReconcilerError as error:
            state = error.state.value if isinstance(error, GitFault) else None
            transient = not isinstance(error, errors.Refused)
            lasting = isinstance(error, Exhausted)
            self._send(
                Failed(envelope.number, message=error.message, state=state, transient=transient, lasting=lasting)
            )
        except Exception:
            # A fault of ours, or the memory limit. The child goes on: others wait for it, and it keeps no state.
            self._send(Failed(envelope.number, message=FAULT, transient=True, trace=traceback.format_exc()))

    def _plan(self, envelope: Envelope, view: PlanningView) -> Planned:
        number = envelope.number
        if envelope.version != __version__:
            raise errors.Transient(UPGRADED.format(theirs=envelope.version, ours=__version__))

        def emit(changes: Changes) -> None:
            self._send(Part(number, self._encoder.encode(changes)))

        def route(routes: Routes) -> None:
            self._send(RoutesPart(number, self._encoder.encode(routes)))

        def at(blob: str) -> None:
            self._send(At(number, blob))

        match envelope.job:
            case CommitJob() as job:
                # A careful one is read by this thread alone, so that its end tells over which file.
                together = None if job.careful else self._crew.of(job.mirror, job.commit)
                told = at if job.careful else None
                return commits.plan_commit(job, view, number=number, emit=emit, at=told, together=together)
            case RequestJob() as job:
                return requests.plan_request(job, view, number=number, emit=emit)
            case LineageJob() as job:
                return history.explain_lineage(job, view, number=number, emit=emit, rests=self._is_wanted)
            case RedactJob() as job:
                return history.plan_redaction(job, view, number=number, emit=emit)
            case RoutesJob() as job:
                return routes.find_routes(job, view, number=number, emit=emit, route=route)
            case ReviewJob() as job:
                return reviews.plan_review(
                    job, view, number=number, rests=self._is_wanted, at=at if job.commit.careful else None
                )

    def _send(self, message: Answer) -> None:
        frame = messages.framed(message)
        with self._lock:
            self._answers.write(frame)
            self._answers.flush()


class JobLane:
    """One thread with its own views of stores. A connection and a snapshot belong to one thread."""

    def __init__(self, name: str, run: "Callable[[Envelope, StoreViews], None]") -> None:
        self._run = run
        self._jobs: queue.SimpleQueue[Envelope] = queue.SimpleQueue()
        self._is_running = False
        threading.Thread(target=self._work, name=f"lane-{name}", daemon=True).start()

    def put(self, envelope: Envelope) -> None:
        """Queue a job."""
        self._jobs.put(envelope)

    def _work(self) -> None:
        views = StoreViews()
        while True:
            envelope = self._jobs.get()
            self._is_running = True
            try:
                self._run(envelope, views)
            except BaseException:
                _end()  # without its thread the lane would take jobs, and nobody would do them
            self._is_running = False

    @property
    def is_busy(self) -> bool:
        """Whether a job runs or waits."""
        return self._is_running or not self._jobs.empty()


class StoreViews:
    """An open view of each store that a lane was asked about; there is one store, in practice."""

    def __init__(self) -> None:
        self._open: dict[str, PlanningView] = {}

    def of(self, store: str) -> PlanningView:
        """Open it on first use. Raises StoreFault."""
        if store not in self._open:
            self._open[store] = PlanningView.open(Path(store))
        return self._open[store]


def _end() -> NoReturn:
    """End this process for a fault that is more than one job can be told, such as no memory to tell it with."""
    with contextlib.suppress(BaseException):
        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))  # the daemon logs it, escaped
    os._exit(1)


def _take_over_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our own ends of the pipes; what a library prints goes to standard error instead of between the answers."""
    jobs = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return jobs, answers


def _read_frame(jobs: BinaryIO) -> bytes | None:
    head = jobs.read(messages.LENGTH.size)
    if len(head) < messages.LENGTH.size:
        return None
    (length,) = messages.LENGTH.unpack(head)
    payload = jobs.read(length)
    return payload if len(payload) == length else None
