"""On which terms a commit is planned: with the service's secrets and store, or without them, of part of its files.

Belongs here: what differs between a reconcile, and a plan without a server. Does not: what either does.
"""

from collections.abc import Set
from dataclasses import dataclass

from reconciler.model.names import Key


@dataclass(frozen=True, slots=True)
class PlanMode:
    """`only` these files are looked at; None for all. `elsewhere` is how many others there are. `assumed` is taken to
    be there, since nobody can say.

    `live`: the store is the service's, and so are the secrets that may be referred to. Otherwise the store is made for
    this plan alone; who changed what, and which secrets there are, nobody asks. `lenient`: a service may have stored it
    before there were recent rules, so these do not count.
    """

    only: Set[str] | None = None
    assumed: Set[Key] = frozenset()
    elsewhere: int = 0
    live: bool = True
    lenient: bool = False


RECONCILE = PlanMode()
