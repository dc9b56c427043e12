"""What the reader child found, as the JSON that readers get: one text for each status.

Belongs here: turning one into the other, in pieces that keep nobody waiting. Does not: the plan around the statuses
(`showing`), what is hidden from whom (`hiding`).
"""

import asyncio
from dataclasses import dataclass

import msgspec

from reconciler.model import outcomes
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import PlanEntry, PlanStatus
from reconciler.reviewing import hiding

AT_ONCE = 50  # statuses, about a millisecond


@dataclass(frozen=True, slots=True)
class EncodedPlan:
    """An entry of a plan. `statuses` are JSON, for who may read everything; `without_raw` for who may not.

    `entry` is all of it but the statuses; `counts` is how often each status occurs, `unchanged` included.
    """

    entry: PlanEntry
    counts: dict[str, int]
    statuses: tuple[bytes, ...]
    without_raw: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        own = sum(map(len, self.statuses)) + sum(map(len, self.entry.notes))
        return own + sum(
            len(hidden) for hidden, shown in zip(self.without_raw, self.statuses, strict=True) if hidden is not shown
        )


class _Pieces(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry whose statuses are not decoded yet."""

    name: str
    project: str = "default"
    path: str = ""
    statuses: tuple[msgspec.Raw, ...] = ()
    unchanged: int = 0
    untouched_files: int = 0
    held: int = 0
    notes: tuple[str, ...] = ()
    refused: bool = False


_PIECES = msgspec.msgpack.Decoder(_Pieces)
_STATUS = msgspec.msgpack.Decoder(PlanStatus)


async def encode_plan(entry: bytes) -> EncodedPlan:
    """An entry in msgpack as JSON; others have their turn meanwhile. Raises msgspec.DecodeError for anything else."""
    pieces = _PIECES.decode(entry)
    rest = PlanEntry(**{**msgspec.structs.asdict(pieces), "statuses": ()})
    shown: list[bytes] = []
    hidden: list[bytes] = []
    found: list[UpdateStatus] = []
    for number, piece in enumerate(pieces.statuses):
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        status = _STATUS.decode(piece)
        masked = hiding.without_raw(status)
        shown.append(msgspec.json.encode(status))
        hidden.append(shown[-1] if masked is status else msgspec.json.encode(masked))
        found.append(status.status)
    counts = {**rest.counts, **outcomes.count_statuses(found)}
    return EncodedPlan(rest, counts, tuple(shown), tuple(hidden))
