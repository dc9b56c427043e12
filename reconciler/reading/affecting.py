"""What refers, directly or through others, to what a change touches.

Belongs here: the walk over references, stored and new. Does not: what becomes of whatever refers (`deciding`).
"""

from collections import deque
from collections.abc import Iterable

from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome
from reconciler.planner import decisions
from reconciler.planner.changes import Decided
from reconciler.planner.decisions import StoreSnapshot

MOST_WALKED = 20_000  # resources in all; what is further away is not told
MOST_AFFECTED = 1_000  # by one


class Affected:
    """The users of everything that one decision changes; asked for inside the snapshot of its world."""

    def __init__(self, decided: Decided, world: StoreSnapshot) -> None:
        touched = {one.key for one in decided.outcomes if one.key is not None and one.change is not Change.NONE}
        self._users = _users(touched, decided, world)

    def by(self, outcome: Outcome) -> tuple[Key, ...]:
        """What an outcome affects beside its own resource, in order."""
        if outcome.key is None or outcome.change in (Change.NONE, Change.REPLACE_HEAD):
            return ()
        found: set[Key] = set()
        waiting = deque([outcome.key])
        while waiting and len(found) < MOST_AFFECTED:
            fresh = self._users.get(waiting.popleft(), set()) - found
            found |= fresh
            waiting += sorted(fresh)
        return tuple(sorted(found - {outcome.key}))


def _users(touched: Iterable[Key], decided: Decided, world: StoreSnapshot) -> dict[Key, set[Key]]:
    written = decisions.written(decided)
    found: dict[Key, set[Key]] = {}
    fresh = set(touched)
    while fresh and len(found) < MOST_WALKED:
        named = decisions.references(world, fresh, written)
        found |= {key: set(named.get(key, ())) for key in fresh}
        fresh = {user for users in named.values() for user in users} - found.keys()
    return found
