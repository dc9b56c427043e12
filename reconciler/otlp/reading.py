"""Requests of strangers made into `Logs`, or refused.

Belongs here: the order of the steps, and pausing between them. Does not: any of the steps.
"""

import asyncio
from typing import Final

from reconciler.otlp import json_requests, protobuf, small, wire
from reconciler.otlp.models import Logs, RecordGroup
from reconciler.otlp.wire import Cut

_PAUSE: Final = 16 << 10  # bytes of resources whose attributes are read at a stretch, about a millisecond


async def read(body: bytes, *, json: bool) -> Logs:
    """A decoded body, in JSON or protobuf. Groups without records are left out; a request may have none at all.

    The event loop is held for about a millisecond at a time, longer only by a single record that is very large. Raises
    Malformed, TooLarge.
    """
    request = await json_requests.protobuf(body) if json else body
    logs = at_once(request)
    if logs is not None:
        return logs
    cuts = _small(request)
    if cuts is None:
        cuts = await _checked(request)
    else:
        protobuf.check_whole(request)
    return await _grouped(request, cuts)


def at_once(request: bytes) -> Logs | None:
    """What `read` would make of a request in protobuf, small and of one resource; None for any other. Raises
    Malformed.
    """
    cuts = _small(request)
    if cuts is None or len(cuts) != 1 or cuts[0].end - cuts[0].start != len(request):
        return None
    protobuf.check_whole(request)
    cut = cuts[0]
    return Logs((RecordGroup(request, cut.records, protobuf.attributes(cut.resource)),), cut.records, len(request))


def _small(request: bytes) -> list[Cut] | None:
    return small.cut_small(request) if len(request) < small.SMALL else None


async def _checked(request: bytes) -> list[Cut]:
    cuts = []
    for step in wire.walk(request):
        if isinstance(step, Cut):
            if step.records:
                cuts.append(step)
            continue
        if step is None:
            await asyncio.sleep(0)
            continue
        if step.start:  # not before the first run, which is all of a small request
            await asyncio.sleep(0)
        protobuf.check(request, step)
    return cuts


async def _grouped(request: bytes, cuts: list[Cut]) -> Logs:
    view = memoryview(request)
    groups = []
    records = size = work = 0
    for cut in cuts:
        groups.append(RecordGroup(view[cut.start : cut.end], cut.records, protobuf.attributes(cut.resource)))
        records += cut.records
        size += cut.end - cut.start
        work += 64 + len(cut.resource)
        if work > _PAUSE:
            work = 0
            await asyncio.sleep(0)
    return Logs(tuple(groups), records, size)
