"""Contact with the database that replicas share: the time of its last answer, and the limits on work without contact.

Without contact, a replica does not know the changes of others. It writes nothing. For half a minute it serves what it
has in memory, marked as stale, and then nothing. So a key that another replica removes stops working here within that
time.
"""

from collections.abc import Callable
from time import monotonic as system_monotonic

from reconciler.model.errors import Transient
from reconciler.store.contract import Notices

LOST_SECONDS = 3.0  # without an answer: there is a question each second, with two seconds for the answer
STALE_SECONDS = 30.0  # for which reads are served without contact


class CutOff(Transient):
    """This replica has had no contact with the database for too long to serve anything."""


class Contact:
    """The contact of this replica."""

    def __init__(self, notices: Notices, *, monotonic: Callable[[], float] = system_monotonic) -> None:
        """Make it before anything is read from the store."""
        self._notices = notices
        self._monotonic = monotonic
        self._at = monotonic()

    def heard(self, at: float) -> None:
        """Record that everything written until an instant of the monotonic clock is known here."""
        self._at = max(self._at, at)

    @property
    def heard_at(self) -> float:
        """The last instant of `heard`."""
        return self._at

    @property
    def seconds(self) -> float:
        """The age in seconds of what this replica knows."""
        return max(0.0, self._monotonic() - self._at)

    @property
    def stale_seconds(self) -> float | None:
        """The age in seconds while there is no contact; None with contact."""
        # The clock also covers a stopped process: when it continues, it has not heard of any change yet.
        seconds = self.seconds
        return seconds if self._notices.is_lost or seconds > LOST_SECONDS else None

    def check(self) -> None:
        """Raise CutOff if nothing may be served any more."""
        if (seconds := self.seconds) > STALE_SECONDS:
            raise CutOff(
                f"This replica has not reached the database for {seconds:.0f} seconds, so it does not know what may be "
                "served; another replica may answer. The service's log says why."
            )

    def check_write(self) -> None:
        """Raise CutOff if nothing may be changed at the moment, not even at another replica: the access of the caller
        may have ended.
        """
        if self.stale_seconds is not None:
            raise CutOff("This replica does not reach the database, so it changes nothing; try again in some seconds.")
