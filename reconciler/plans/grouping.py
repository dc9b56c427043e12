"""Resources by folder and owners, in the order in which a skin shows them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reconciler.model.plan import RISK, Plan, PlanEntry, PlanStatus
from reconciler.plans.showing import NAME, clean_text

OWNERS = 10  # names in one heading
_RANK = {status: rank for rank, status in enumerate(RISK)}


class OwnerGroup(NamedTuple):
    """What lies in one folder and has the same owners."""

    entry: PlanEntry
    folder: str
    owners: tuple[str, ...]
    statuses: list[PlanStatus]

    @property
    def heading(self) -> str:
        """The folder as people write it."""
        if self.statuses[0].at is None:
            return "without a file"
        return clean_text(self.folder) if self.folder else "./"

    @property
    def owned_by(self) -> tuple[str, ...]:
        """The owners, as many as a heading bears."""
        rest = len(self.owners) - OWNERS
        shown = tuple(clean_text(one, NAME) for one in self.owners[:OWNERS])
        return (*shown, f"and {rest} more") if rest > 0 else shown


def owner_groups(found: Iterable[tuple[PlanEntry, PlanStatus]]) -> Iterator[OwnerGroup]:
    """Groups in the order of what comes first in each; inside one the order stays."""
    seen: dict[tuple[str, bool, str, tuple[str, ...]], OwnerGroup] = {}
    for entry, status in found:
        key = (entry.name, status.at is None, status.folder, status.owners)
        if key not in seen:
            seen[key] = OwnerGroup(entry, status.folder, status.owners, [])
        seen[key].statuses.append(status)
    yield from seen.values()


def by_risk(plan: Plan) -> list[tuple[PlanEntry, PlanStatus]]:
    """Every status of every entry, the riskiest first; of equal risk in the order of entries."""
    return sorted(plan.all, key=lambda pair: (pair[1].existing, _RANK[pair[1].status]))
