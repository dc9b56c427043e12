"""Other replicas, as the API calls them: one HTTP request each, signed for its receiver.

Some facts are known to one replica only: the live state of a repository, its runs in progress, the figures of a queue.
A request from another replica is never passed on again.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from reconciler.model.errors import Transient
from reconciler.model.principals import Principal

Header = tuple[bytes, bytes]

SECONDS = 5.0  # for an answer
MOST_BYTES = 16 << 20  # of an answer


class PeerGone(Transient):
    """The other replica does not answer, or its answer is not valid in this version."""


class Peer(NamedTuple):
    """Another living replica. `process` is a random id of its present process."""

    name: str
    url: str
    process: str


class PeerAnswer(NamedTuple):
    """The answer of another replica, with any status."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()  # names are in lower case


class Peers(Protocol):
    """The other replicas."""

    @property
    def name(self) -> str:
        """The name of this replica."""

    def others(self) -> list[Peer]:
        """Return the other living replicas that have a `replica.url`, by name."""

    def missing(self) -> list[str]:
        """Return the names of replicas that cannot be called although they did not leave: they ended without a stop, or
        have no `replica.url`.
        """

    async def call(
        self,
        peer: Peer,
        method: str,
        path: str,
        *,
        principal: Principal,
        body: bytes = b"",
        seconds: float = SECONDS,
        headers: Sequence[Header] = (),
    ) -> PeerAnswer:
        """Call an operation of the API there, as this principal, with the id and the address of the present request.

        `path` has the query, percent-encoded. The receiver sees no other `headers` than these, such as
        `X-Service-Project`, and checks the principal's permissions itself. Nothing is sent twice. Raises `PeerGone`,
        and then the call may have been done nevertheless.
        """
