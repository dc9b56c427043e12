"""POST /v1/logs of small requests, answered without a task: who sends single records pays for little else.

Belongs here: telling which requests need nothing but to be queued, and their answers. Does not: any rule. What is asked
here the usual way asks, by the same functions. A request of which that asks more, or has something to say, or for which
it does more, it has from the beginning (`edge`, `endpoints`, `logs`).
"""

from asyncio import CancelledError, Future, get_running_loop
from functools import partial
from time import monotonic, perf_counter
from typing import NamedTuple

from api import edge, errors, rpc, under_way
from api.endpoints import Endpoint
from api.rpc import Message
from api.senders import Sender, Senders
from reconciler.delivery.otlp import reading
from reconciler.delivery.otlp.models import Logs
from reconciler.delivery.reporting import NotTaken
from reconciler.server.connections import WholeRequest
from reconciler.server.services import Services

ENDED = "The service stops; send the records again."


class _Held(NamedTuple):
    """What a request holds until it is answered, its id, and when it began."""

    sender: str
    size: int
    id: str
    began: float


class Shortcut:
    """See `reconciler.server.connections.Shortcut`. Not for a service that asks nobody who they are: to whom it
    answers is settled by more than a key.
    """

    method = b"POST"

    def __init__(self, services: Services, endpoint: Endpoint, *, target: str) -> None:
        """`endpoint` is what the usual way leads to."""
        self.target = target.encode()
        self._services = services
        self._endpoint = endpoint
        self._senders = Senders(services, endpoint.judges["POST"])
        self._common = edge.Common(services.headers)

    def take(self, request: WholeRequest) -> bool:
        """See the contract."""
        began, now, size = perf_counter(), self._services.clock(), len(request.content)
        try:
            sender = self._senders.of(request.headers, now=now)
            logs = None if sender is None else reading.at_once(request.content)
        except Exception:
            return False  # whatever it is, the usual way meets it again, and tells it
        if sender is None or logs is None:
            return False
        held = _Held(sender.name, size, edge.request_id(now), began)
        queued = self._queued(sender, logs, size=size)
        if queued is None:
            return False
        queued.add_done_callback(partial(self._answer, request, held))
        return True

    def _queued(self, sender: Sender, logs: Logs, *, size: int) -> Future[None] | None:
        """Queue them if there is room in all that is counted; None if not, and then nothing of them is."""
        if not self._enter(sender.name, size):
            return None
        rates, queued = self._services.rates, None
        if rates.take(sender.name, logs.records, now=monotonic()) <= 0.0:
            queued = self._enqueued(sender.project, logs)
            if queued is None:
                rates.give_back(sender.name, logs.records)
        if queued is None:
            self._leave(sender.name, size)
        return queued

    def _enqueued(self, project: str, logs: Logs) -> Future[None] | None:
        try:
            return self._services.deliveries.enqueue(project, logs)
        except Exception as fault:  # some queue may have them, and would get them once more the usual way
            failed: Future[None] = get_running_loop().create_future()
            failed.set_exception(fault)
            return failed

    def _enter(self, sender: str, size: int) -> bool:
        services = self._services
        if not under_way.enter_request(services.in_flight, sender):
            return False
        if services.room.change(sender, 0, size):
            return True
        under_way.leave_request(services.in_flight, sender)
        return False

    def _leave(self, sender: str, size: int) -> None:
        self._services.room.change(sender, size, 0)
        under_way.leave_request(self._services.in_flight, sender)

    def _answer(self, request: WholeRequest, held: _Held, queued: Future[None]) -> None:
        self._leave(held.sender, held.size)
        answer = self._message(request, held, queued)
        request.answer(answer.status_code, self._common.head(answer.head, held.id), bytes(answer.body))
        self._services.measured.traffic.note(self._endpoint, "POST", answer.status_code, perf_counter() - held.began)

    def _message(self, request: WholeRequest, held: _Held, queued: Future[None]) -> Message:
        """The answer that the usual way has to what came of it."""
        failure = CancelledError() if queued.cancelled() else queued.exception()
        if failure is None:
            return rpc.SUCCESS[False]
        told = failure if isinstance(failure, Exception) else NotTaken(ENDED)
        return rpc.failure_message(request.headers, errors.told(told, request=held.id))
