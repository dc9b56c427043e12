"""The main program of the worker process.

`client` starts it. It takes orders from its standard input and answers on its standard output. Each kind of job has a
thread of its own, its lane, so that a request does not wait behind a large commit. The process ends when its input
ends, because the service is gone then.
"""

import contextlib
import gc
import os
import select
import threading
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeAlias, get_args

import msgspec

from reconciler.collectors import templates
from reconciler.git.faults import GitFault
from reconciler.git.snapshots import Snapshot
from reconciler.model import errors
from reconciler.planner import field_changes
from reconciler.store import engines
from reconciler.store.contract import PlanningView, StoreFault
from reconciler.store.records import Changes
from reconciler.version import __version__
from reconciler.worker import commits, messages, projections, redactions, requests, reviews, sandbox
from reconciler.worker.sandbox import Granted, Protections
from reconciler.worker.trees import Allowance

UPGRADED = "The program was replaced while it ran (version {theirs} by {ours}); restart the daemon."
LOST = "The worker lost its connection to the store's server; the work is tried again when it is there."
FAULT = "The worker met a fault of its own; the log has the cause, and the work is tried again."


def main(store: str | None = None, mirrors: str = "") -> None:
    """Serve jobs until the input ends.

    The process can read only the store with this address and the mirrors in this folder. Without a store it can read
    everything that its user can. If the store is on a server, the connections are opened here, since nothing in the
    process can open one later.
    """
    _settle_memory()
    orders, answers = _take_over_pipes()
    granted, connected = None, engines.ConnectedViews({}, ())
    if store is not None:
        if engines.is_on_server(store):
            connected = _connect(orders, answers)
        readable, writable = engines.view_files(store)
        granted = Granted(readable=(*readable, mirrors), writable=writable)
    protections = sandbox.enter(granted, can_send=bool(connected.sockets))
    child = Worker(answers, connected.views)
    templates.start_watchdog()
    if connected.sockets:
        threading.Thread(target=_watch, args=(connected.sockets, answers), name="connections", daemon=True).start()
    sandbox.start_no_more()
    child.serve(orders, protections)
    # A lane may still plan, but its answer is not needed any more.
    os._exit(0)


StartedJob: TypeAlias = Generator[None, None, None]
"""A job that runs: it yields once if it needs the project's lock to continue."""
OpenView: TypeAlias = Callable[[str], PlanningView]


def _connect(orders: BinaryIO, answers: BinaryIO) -> engines.ConnectedViews:
    """Open the connections that the service names in its first message; end the process if that fails."""
    payload = _read_frame(orders)
    if payload is None:
        os._exit(0)
    first = messages.connect(payload)
    try:
        return engines.connect_views(first.connection, first.jobs)
    except errors.ReconcilerError as error:
        _end_without_store(answers, error.message)


def _watch(sockets: Sequence[int], answers: BinaryIO) -> None:
    """End the process as soon as one of its connections is lost: it cannot open another one."""
    poll = select.poll()
    for socket in sockets:
        # A copy: the library closes its own, whose number may then be that of another file.
        poll.register(os.dup(socket), select.POLLRDHUP)
    poll.poll()
    _end_without_store(answers, LOST)


def _end_without_store(answers: BinaryIO, message: str) -> NoReturn:
    """Tell the service why this process ends, so that no job is blamed."""
    # A lane may be sending. Each frame is one write to the buffer, so none is cut.
    answers.write(messages.framed(messages.Reply(0, messages.Failed(message, transient=True))))
    answers.flush()
    os._exit(1)


class Worker:
    """Gives each order to the lane of its job and sends the answers."""

    def __init__(self, answers: BinaryIO, connected: Mapping[str, PlanningView]) -> None:
        """Start the lanes. `connected` are the views that are open already, by the kind of job."""
        self._answers = answers
        self._lock = threading.Lock()
        self._encoder = msgspec.msgpack.Encoder()
        self._ready: dict[int, StartedJob] = {}  # jobs that wait for the project's lock
        # A lane: one thread with its own views of stores, since a connection and a snapshot belong to one thread.
        tags = connected or [messages.tag_of(job) for job in get_args(messages.Job)]
        self._lanes = {tag: ThreadPoolExecutor(1, thread_name_prefix=f"lane-{tag}") for tag in tags}
        self._views = {tag: partial(_view, connected[tag]) if connected else cache(engines.open_view) for tag in tags}
        for lane in self._lanes.values():
            lane.submit(int).result()  # start its thread now: the sandbox forbids it later

    def serve(self, orders: BinaryIO, protections: Protections) -> None:
        """Say how this process is protected, and read orders until the end of the input."""
        self._send(0, messages.Ready(protections))
        while (payload := _read_frame(orders)) is not None:
            order = messages.order(payload)
            tag = messages.tag_of(order.job) if isinstance(order, messages.Envelope) else order.job
            self._lanes[tag].submit(self._run, order, self._views[tag])

    def _run(self, order: messages.Order, open_view: OpenView) -> None:
        try:
            if isinstance(order, messages.Envelope):
                self._run_steps(order.number, self._steps(order, open_view))
            elif order.is_wanted:
                self._run_steps(order.number, self._ready.pop(order.number))
            else:
                self._ready.pop(order.number, None)  # it may have ended already
        except BaseException:
            _end()  # otherwise the caller would wait for ever

    def _run_steps(self, number: int, steps: StartedJob) -> None:
        """Run a job until it ends or waits for the project's lock."""
        try:
            for _ in steps:
                self._ready[number] = steps
                self._send(number, messages.Ready())
                return
        except errors.ReconcilerError as error:
            state = error.state.value if isinstance(error, GitFault) else None
            transient = not isinstance(error, errors.Refused)
            lasting, store = isinstance(error, messages.Exhausted), isinstance(error, StoreFault)
            failed = messages.Failed(error.message, state=state, store=store, transient=transient, lasting=lasting)
            self._send(number, failed)
        except Exception:
            # A bug, or the memory limit. The process continues: other jobs wait for it, and it keeps no state.
            self._send(number, messages.Failed(FAULT, transient=True, trace=traceback.format_exc()))

    def _steps(self, envelope: messages.Envelope, open_view: OpenView) -> StartedJob:
        send = partial(self._send, envelope.number)
        if envelope.version != __version__:
            raise errors.Transient(UPGRADED.format(theirs=envelope.version, ours=__version__))

        def emit(changes: Changes) -> None:
            send(messages.Part(self._encoder.encode(changes)))

        def at(blob: str) -> None:
            if envelope.careful:
                send(messages.At(blob))

        view = open_view(envelope.job.context.store)
        allow = partial(Allowance, aside=envelope.aside, at=at)
        planned: messages.Planned
        match envelope.job:
            case messages.CommitJob() as job:
                with Snapshot.open(Path(job.mirror), job.commit) as snapshot:
                    planned = yield from commits.plan_commit(job, snapshot, view, emit=emit, allowance=allow())
            case messages.RequestJob() as job:
                planned = yield from requests.plan_request(job, view, emit=emit)
            case messages.LineageJob() as job:
                planned = commits.explain_lineage(job, view, emit=emit)
            case messages.RedactJob() as job:
                planned = redactions.plan_redaction(job, view, emit=emit)
            case messages.RoutesJob() as job:
                planned = projections.find_routes(job, view, emit=emit)
            case messages.RenderJob() as job:
                planned = projections.render_project(job, view, emit=emit)
            case messages.ReviewJob() as job:
                planned = reviews.plan_review(job, view, allowance=allow())
            case messages.CompareJob() as job:
                statuses = field_changes.compare_versions(job.pairs, view, project=job.context.project)
                planned = messages.Compared(msgspec.msgpack.encode(statuses))
        send(planned)

    def _send(self, number: int, answer: messages.Answer) -> None:
        frame = messages.framed(messages.Reply(number, answer))
        with self._lock:
            self._answers.write(frame)
            self._answers.flush()


def _view(connected: PlanningView, _: str) -> PlanningView:
    return connected


def _end() -> NoReturn:
    """End this process after a fault that cannot be reported, for example because there is no memory for the report."""
    with contextlib.suppress(BaseException):
        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))  # the daemon logs it, escaped
    os._exit(1)


def _take_over_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the two pipes, and redirect standard output to standard error: a library may print something there."""
    jobs = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return jobs, answers


def _read_frame(orders: BinaryIO) -> bytes | None:
    head = orders.read(messages.LENGTH.size)
    if len(head) < messages.LENGTH.size:
        return None
    (length,) = messages.LENGTH.unpack(head)
    payload = orders.read(length)
    return payload if len(payload) == length else None


# New objects until the garbage collector runs. Reading keeps the objects that it makes, and makes hardly any cycles:
# with Python's default of 700, a first read spent a twelfth of its time in the collector.
COLLECT_AFTER = 10_000


def _settle_memory() -> None:
    """Exempt everything that is imported from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
