"""Resources by folder and owners, in the order in which a skin shows them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reconciler.plans.models import RISK, Entry, Plan, Status
from reconciler.plans.showing import NAME, clean

OWNERS = 10  # names in one heading
_RANK = {status: rank for rank, status in enumerate(RISK)}


class Group(NamedTuple):
    """What lies in one folder and has the same owners."""

    entry: Entry
    folder: str
    owners: tuple[str, ...]
    statuses: list[Status]

    @property
    def heading(self) -> str:
        """The folder as people write it."""
        if self.statuses[0].at is None:
            return "without a file"
        return clean(self.folder) if self.folder else "./"

    @property
    def owned_by(self) -> tuple[str, ...]:
        """The owners, as many as a heading bears."""
        rest = len(self.owners) - OWNERS
        shown = tuple(clean(one, NAME) for one in self.owners[:OWNERS])
        return (*shown, f"and {rest} more") if rest > 0 else shown


def groups(found: Iterable[tuple[Entry, Status]]) -> Iterator[Group]:
    """Groups in the order of what comes first in each; inside one the order stays."""
    seen: dict[tuple[str, bool, str, tuple[str, ...]], Group] = {}
    for entry, status in found:
        key = (entry.name, status.at is None, status.folder, status.owners)
        if key not in seen:
            seen[key] = Group(entry, status.folder, status.owners, [])
        seen[key].statuses.append(status)
    yield from seen.values()


def by_risk(plan: Plan) -> list[tuple[Entry, Status]]:
    """Every status of every entry, the riskiest first; of equal risk in the order of entries."""
    return sorted(plan.all, key=lambda pair: (pair[1].existing, _RANK[pair[1].status]))
