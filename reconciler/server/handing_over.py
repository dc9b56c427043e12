"""The queues of a replica that stops, handed over to living ones: for disks that end with their process."""

import asyncio
import logging
from urllib.parse import quote

from reconciler.delivery import moving
from reconciler.delivery.manager import Manager
from reconciler.delivery.moving import MovedFrames
from reconciler.model.errors import Transient
from reconciler.model.principals import REPLICA
from reconciler.replicas.peers import PeerGone, Peers

log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0  # for one part
STAYS = "What is left of the queues stays on this disk, and is sent after the next start: %s"


class NobodyTakes(Transient):
    """No other replica took a part of a queue."""


async def hand_over(manager: Manager, peers: Peers, *, seconds: float) -> None:
    """Hand over all queues in a limited time, after `Manager.drain`. Each part is on another replica's disk before it
    leaves this one. Raises nothing foreseen.
    """

    async def send(project: str, name: str, moved: MovedFrames) -> None:
        path, body = f"/v1/destinations/{quote(name)}/delivery/batches", moving.encode_moved(moved)
        problem = "no other replica lives that has a `replica.url`."
        for peer in peers.others():
            try:
                answer = await peers.call(
                    peer,
                    "POST",
                    path,
                    principal=REPLICA,
                    body=body,
                    seconds=ANSWER_SECONDS,
                    headers=((b"x-service-project", project.encode()),),
                )
            except PeerGone as gone:
                problem = gone.message
            else:
                if answer.status == 200:
                    return
                problem = f"the replica {peer.name} answered {answer.status}."
        raise NobodyTakes(problem)

    try:
        async with asyncio.timeout(seconds):
            await manager.hand_over(send)
    except TimeoutError:
        log.warning(STAYS, f"the {seconds:g} seconds of `delivery.drainTimeout` are over.")
    except NobodyTakes as problem:
        log.warning(STAYS, problem.message)
