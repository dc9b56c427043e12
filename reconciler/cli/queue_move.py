"""`reconciler queue move`: hand over the queues of a service that does not run to one that does."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from reconciler.cli import exits, output
from reconciler.cli.client import Client, Refusal
from reconciler.delivery import moving
from reconciler.delivery.breaker import system_clock
from reconciler.delivery.moving import MovedCounts, MovedFrames
from reconciler.delivery.queue.contract import QueueFault
from reconciler.delivery.queue.folders import FoundIdentity
from reconciler.delivery.queue.queues import UNLIMITED, Queues
from reconciler.model.errors import ReconcilerError, Refused
from reconciler.server import process

BUSY = (429, 503)  # statuses: the queue there is full, or the service just starts
BUSY_TRIES, BUSY_SECONDS = 30, 2.0
FOLDER = "queues"


def move(service: Client, state: Path, destination: str | None) -> int:
    """Move the queues of a state directory, or those of one destination. Return the exit code. Raises Refused."""
    root = state / FOLDER
    if not root.is_dir():
        raise Refused(f"there are no queues in {state}; is it the `stateDir` of a service?")
    with process.hold_state_directory(state):
        return asyncio.run(_move(service, root, destination))


async def _move(service: Client, root: Path, destination: str | None) -> int:
    queues = Queues(root, reserve=0, clock=system_clock)
    await queues.start()
    code = exits.OK
    try:
        found, faults = await queues.found()
        chosen = [one for one in found if destination in (None, one.name) and service.project in (None, one.project)]
        for fault in faults:
            code = exits.ERROR
            output.note(f"error: {output.error_sentence(fault.message)}")
        if not chosen:
            output.note("there is no such queue" if found else "there is no queue")
        for one in chosen:
            if not await _moved(service, queues, one):
                code = exits.ERROR
    finally:
        await queues.close()
    return code


async def _moved(service: Client, queues: Queues, found: FoundIdentity) -> bool:
    """Move a queue, and tell what was moved and what is left. Return True if nothing is left."""
    name, counts, problem = f"{found.name} ({found.project})", MovedCounts(), ""
    try:
        queue = await queues.open_found(found, dead_bytes=UNLIMITED)
    except QueueFault as fault:
        output.note(f"error: {name}: {output.error_sentence(fault.message)}")
        return False
    try:
        await moving.move(queue, _sending(service, found), counts)
    except ReconcilerError as error:
        problem = error.message
    depth = queue.depth()
    output.line(f"{name}: {counts.told} moved")
    left = depth.batches + depth.dead_batches
    if left:
        why = output.error_sentence(problem) if problem else "they cannot be read"
        output.note(f"error: {name}: {output.counted(left, 'batch', 'batches')} left; {why}")
    if depth.lost or depth.quarantined:
        output.note(f"error: {name}: some of it is damaged; see `quarantine` in {found.folder}")
    await queues.remove(queue)
    return not (left or depth.lost)


def _sending(service: Client, found: FoundIdentity) -> Callable[[MovedFrames], Coroutine[Any, Any, None]]:
    path = ("destinations", found.name, "delivery", "batches")

    async def send(moved: MovedFrames) -> None:
        data = moving.encode_moved(moved)
        for attempt in range(BUSY_TRIES + 1):
            try:
                await asyncio.to_thread(service.post, *path, data=data, project=found.project)
            except Refusal as refusal:
                if refusal.status not in BUSY or attempt == BUSY_TRIES:
                    raise
                await asyncio.sleep(BUSY_SECONDS)
            else:
                return

    return send
