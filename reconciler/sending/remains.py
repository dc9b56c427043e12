"""What is left of a batch: the same OTLP with some of its records; pure.

Belongs here: walking an ExportLogsServiceRequest in protobuf's wire format, down to where records begin and end. Does
not: what is in a record. Only what was found to be sound when it came is given here.
"""

from collections.abc import Container

from reconciler.otlp.fields import fields, sized
from reconciler.otlp.refusals import MalformedRequest

_PATH = (0x0A, 0x12, 0x12)  # the tags of resource_logs, scope_logs and log_records


def only_records(payload: bytes, keep: Container[int]) -> list[bytes]:
    """Pieces that one after another are a request with the records whose places, counted from 0 through the whole
    request, are in `keep`. Resources and scopes without any are left out.

    Raises ValueError for what is no such request.
    """
    try:
        return _Walk(payload, keep).message(0, 0, len(payload))[0]
    except (MalformedRequest, IndexError):
        raise ValueError("what is stored is no export request") from None


class _Walk:
    def __init__(self, payload: bytes, keep: Container[int]) -> None:
        self._payload = payload
        self._keep = keep
        self._place = 0

    def message(self, depth: int, start: int, end: int) -> tuple[list[bytes], bool]:
        """What is kept of a message, and whether a record is in it."""
        parts: list[bytes] = []
        has_record = False
        for one in fields(self._payload, start, end):
            if one.tag != _PATH[depth]:
                parts.append(self._payload[one.start : one.end])
            elif depth == len(_PATH) - 1:
                if self._place in self._keep:
                    parts.append(self._payload[one.start : one.end])
                    has_record = True
                self._place += 1
            else:
                inner, has = self.message(depth + 1, one.content, one.end)
                if has:
                    has_record = True
                    parts += [bytes((one.tag,)), sized(sum(map(len, inner))), *inner]
        return parts, has_record
