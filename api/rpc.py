"""How `/v1/logs` answers: messages of OTLP and, for a failure, a `google.rpc.Status`, in the request's own encoding.

Belongs here: which encoding, and the answer around the bytes. Does not: the bytes themselves (`reconciler.otlp`).
"""

from collections.abc import Iterable

from starlette.responses import Response

from api.answers import Header
from api.at_once import AtOnce
from api.errors import Told
from reconciler.delivery.otlp import models
from reconciler.delivery.otlp.models import OtlpAnswer
from reconciler.delivery.reporting import TakenRecords

TYPES = {models.PROTOBUF.encode(): False, models.JSON.encode(): True}
"""Whether a media type is JSON, of those that there are."""


class Message(AtOnce):
    """An answer of OTLP: senders of single records pay for little else."""

    def __init__(self, answer: OtlpAnswer, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(answer.body, media_type=answer.media_type.encode(), status=status, headers=headers)


def is_json(headers: Iterable[Header]) -> bool | None:
    """Whether a body is JSON, or protobuf; None when its Content-Type says neither, or is missing or repeated."""
    found = [value for name, value in headers if name == b"content-type"]
    if len(found) != 1:
        return None
    known = TYPES.get(found[0])
    return TYPES.get(found[0].partition(b";")[0].strip().lower()) if known is None else known


SUCCESS = (Message(models.success_answer(json=False)), Message(models.success_answer(json=True)))
"""The answer to records that were all taken in, in protobuf and in JSON."""


def taken_message(said: TakenRecords, *, json: bool) -> Response:
    """The answer to records that were taken in, with those that nobody takes."""
    if not said.rejected and not said.message:
        return SUCCESS[json]
    return Message(models.partial_success_answer(rejected=said.rejected, message=said.message, json=json))


def failure_message(headers: Iterable[Header], said: Told) -> Message:
    """The answer to a request of these headers that failed. Whose encoding is unknown gets JSON."""
    after = next((float(value) for name, value in said.headers if name == b"retry-after"), None)
    json = is_json(headers) is not False
    answer = models.failure_answer(said.status, " ".join(said.sentences), json=json, retry_after=after)
    return Message(answer, status=said.status, headers=said.headers)
