"""The context that the parts that send to one destination share."""

from dataclasses import dataclass

from reconciler.delivery.breaker import SendGate
from reconciler.delivery.environment import SendEnvironment
from reconciler.delivery.http_sender import Channel
from reconciler.delivery.reporting import SendReport
from reconciler.model.routes import Destination


@dataclass(slots=True)
class SendContext:
    """Changed settings are another `destination`, and another `channel` where they lead to another endpoint."""

    destination: Destination
    channel: Channel
    project: str
    environment: SendEnvironment
    report: SendReport
    gate: SendGate

    @property
    def name(self) -> str:
        """The destination's."""
        return self.destination.name
