"""The main program of the worker process.

`client` starts it. It takes orders from its standard input and answers on its standard output. Jobs of one kind run on
a thread of their own, a lane, so that a request does not wait behind a large commit. The
process ends when its input does: the service is gone then.
"""

import contextlib
import gc
import os
import threading
import traceback
from collections.abc import Callable, Generator
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
from reconciler.store.contract import PlanningView
from reconciler.store.records import Changes
from reconciler.version import __version__
from reconciler.worker import commits, messages, renderings, requests, reviews, routes, sandbox
from reconciler.worker.sandbox import Granted
from reconciler.worker.trees import Allowance

UPGRADED = "The program was replaced while it ran (version {theirs} by {ours}); restart the daemon."
FAULT = "The worker met a fault of its own; the log has the cause, and the work is tried again."


def main(store: str | None = None, mirrors: str = "") -> None:
    """Serve jobs until the input ends.

    No other store than the one with this address can be read, and no mirror but those in this folder; without a store,
    all that the user may read.
    """
    _settle_memory()
    granted = None
    if store is not None:
        readable, writable = engines.view_files(store)
        granted = Granted(readable=(*readable, mirrors), writable=writable)
    sandbox.enter(granted)
    orders, answers = _take_over_pipes()
    child = Worker(answers)
    templates.start_watchdog()
    sandbox.start_no_more()
    child.serve(orders)
    # A lane may still plan, but its answer is not needed any more.
    os._exit(0)


Steps: TypeAlias = Generator[None, None, None]
"""A job on its way: it yields once when it needs the project's lock to go on."""
OpenView: TypeAlias = Callable[[str], PlanningView]


class Worker:
    """Hands each order to the lane of its job and sends what the lanes answer."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        self._encoder = msgspec.msgpack.Encoder()
        self._ready: dict[int, Steps] = {}  # jobs that wait for the project's lock
        # A lane: one thread with its own views of stores, since a connection and a snapshot belong to one thread.
        tags = [str(job.__struct_config__.tag) for job in get_args(messages.Job)]
        self._lanes = {tag: ThreadPoolExecutor(1, thread_name_prefix=f"lane-{tag}") for tag in tags}
        self._views = {tag: cache(engines.open_view) for tag in tags}
        for lane in self._lanes.values():
            lane.submit(int).result()  # starts its thread: later, none may be started

    def serve(self, orders: BinaryIO) -> None:
        """Read orders until the end of the input."""
        self._send(0, messages.Ready())
        while (payload := _read_frame(orders)) is not None:
            order = messages.order(payload)
            tag = messages.tag_of(order.job) if isinstance(order, messages.Envelope) else order.job
            self._lanes[tag].submit(self._run, order, self._views[tag])

    def _run(self, order: messages.Order, open_view: OpenView) -> None:
        try:
            if isinstance(order, messages.Envelope):
                self._go_on(order.number, self._steps(order, open_view))
            elif order.is_wanted:
                self._go_on(order.number, self._ready.pop(order.number))
            else:
                self._ready.pop(order.number, None)  # it may be done by now
        except BaseException:
            _end()  # nobody would be told

    def _go_on(self, number: int, steps: Steps) -> None:
        """Run a job to its end, or to where it waits for the project's lock."""
        try:
            for _ in steps:
                self._ready[number] = steps
                self._send(number, messages.Ready())
                return
        except errors.ReconcilerError as error:
            state = error.state.value if isinstance(error, GitFault) else None
            transient = not isinstance(error, errors.Refused)
            lasting = isinstance(error, messages.Exhausted)
            self._send(number, messages.Failed(error.message, state=state, transient=transient, lasting=lasting))
        except Exception:
            # A fault of ours, or the memory limit. The process goes on: others wait for it, and it keeps no state.
            self._send(number, messages.Failed(FAULT, transient=True, trace=traceback.format_exc()))

    def _steps(self, envelope: messages.Envelope, open_view: OpenView) -> Steps:
        send = partial(self._send, envelope.number)
        if envelope.version != __version__:
            raise errors.Transient(UPGRADED.format(theirs=envelope.version, ours=__version__))

        def emit(changes: Changes) -> None:
            send(messages.Part(self._encoder.encode(changes)))

        def at(blob: str) -> None:
            if envelope.careful:
                send(messages.At(blob))

        view = open_view(envelope.job.context.store)
        allowance = Allowance(aside=envelope.aside, at=at)
        planned: messages.Planned
        match envelope.job:
            case messages.CommitJob() as job:
                with Snapshot.open(Path(job.mirror), job.commit) as snapshot:
                    planned = yield from commits.plan_commit(job, snapshot, view, emit=emit, allowance=allowance)
            case messages.RequestJob() as job:
                planned = yield from requests.plan_request(job, view, emit=emit)
            case messages.LineageJob() as job:
                planned = commits.explain_lineage(job, view, emit=emit)
            case messages.RedactJob() as job:
                planned = requests.plan_redaction(job, view, emit=emit)
            case messages.RoutesJob() as job:
                planned = routes.find_routes(job, view, emit=emit)
            case messages.RenderJob() as job:
                planned = renderings.render_project(job, view, emit=emit)
            case messages.ReviewJob() as job:
                planned = reviews.plan_review(job, view, allowance=allowance)
            case messages.CompareJob() as job:
                statuses = field_changes.compare_versions(job.pairs, view, project=job.context.project)
                planned = messages.Compared(msgspec.msgpack.encode(statuses))
        send(planned)

    def _send(self, number: int, answer: messages.Answer) -> None:
        frame = messages.framed(messages.Reply(number, answer))
        with self._lock:
            self._answers.write(frame)
            self._answers.flush()


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


def _read_frame(orders: BinaryIO) -> bytes | None:
    head = orders.read(messages.LENGTH.size)
    if len(head) < messages.LENGTH.size:
        return None
    (length,) = messages.LENGTH.unpack(head)
    payload = orders.read(length)
    return payload if len(payload) == length else None


# Objects that came, less those that went, until cycles are looked for among them. Reading keeps what it makes, and
# makes next to no cycles: at Python's own 700, a twelfth of the time of a first read went into looking.
COLLECT_AFTER = 10_000


def _settle_memory() -> None:
    """Once all is imported: that is never looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
