"""Owners of notifications: of several replicas, one opens, resolves and sends each.

| cause | owner |
|---|---|
| of a repository: it cannot be read, its runs, its flows | the replica that holds its lease |
| of delivery, a machine, a connection to the store (`models.OF_INSTANCES`) | the replica that found it |
| of everything else: Configurations, keys, replicas | the replica that does the work that is done once |

Every replica shows all of them. If a replica is gone, the one that does the work resolves what only it could check, and
sends the alerts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.model.notification_types import NotificationType
from reconciler.notifications.models import OF_INSTANCES, Cause, Domain, Notification
from reconciler.replicas.keeper import WORK
from reconciler.replicas.work import Alone, Holder

OF_REPOSITORIES = frozenset({Domain.REPOSITORIES, Domain.FLOWS})


@dataclass(frozen=True, slots=True)
class Owners:
    """The share of this replica. Its `instance` is empty if there can be no other.

    `knows` says if a repository is in the settings, `follows` if this replica follows it now, and `is_gone` if no
    replica of this name has lived for a while.
    """

    instance: str = ""
    leases: Holder = field(default_factory=Alone)
    knows: Callable[[str], bool] = lambda _repository: True
    follows: Callable[[str], bool] = lambda _repository: True
    is_gone: Callable[[str], bool] = lambda instance: instance != ""

    def instance_of(self, domain: Domain) -> str:
        """Return the instance of what this replica finds in a domain."""
        return self.instance if domain in OF_INSTANCES else ""

    def owns(self, domain: Domain, cause: Cause) -> bool:
        """Return True if this replica opens and resolves what it finds of this cause."""
        if domain in OF_INSTANCES:
            return True
        if domain in OF_REPOSITORIES and self.knows(repository := repository_of(cause)):
            # A replica begins to follow a moment after it takes the lease, and ends a moment after it loses it.
            return self.leases.holds(repository) and self.follows(repository)
        return self.leases.holds(WORK)

    def sends(self, one: Notification) -> bool:
        """Return True if this replica sends the alerts about a notification."""
        if one.domain not in OF_INSTANCES:
            return self.owns(one.domain, one.cause)
        return one.instance == self.instance or (self.is_gone(one.instance) and self.leases.holds(WORK))


def repository_of(cause: Cause) -> str:
    """Return the name of the repository that a cause is about."""
    if cause.type is NotificationType.FLOW_STOPPED:
        return cause.subject.rpartition(" at ")[0]
    return cause.subject
