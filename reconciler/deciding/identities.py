"""`metadata.id`: a new resource may bring its own, and no two resources of a project have the same."""

from collections import Counter
from collections.abc import Mapping, Sequence

from reconciler.deciding.candidates import Candidate
from reconciler.model import builtins
from reconciler.model.names import Key
from reconciler.model.outcomes import StoredState
from reconciler.store.planning_view import PlanningView


def id_conflicts(
    found: Sequence[Candidate],
    stored: Mapping[Key, StoredState],
    view: PlanningView,
    *,
    project: str,
    leaving: Sequence[Key] = (),
) -> dict[int, str]:
    """By ordinal, why a new resource cannot have the id that it brings. An existing resource keeps its own anyway; of
    several new ones that bring the same, none gets it, since their order must not matter.

    The ids of what is `leaving` with the same change are free: a resource that is renamed keeps its id. The id of what
    is built in is for nothing but what stands in its place, so that what is shown of it can be edited and applied.
    """
    proposed = {
        ordinal: candidate.draft.proposed_id
        for ordinal, candidate in enumerate(found)
        if candidate.draft is not None and candidate.draft.proposed_id is not None and candidate.key not in stored
    }
    if not proposed:
        return {}
    freed = {identity.resource_id for identity in view.identities(project, leaving).values()}
    taken = view.taken_ids(project, sorted(set(proposed.values()))) - freed
    bringing = Counter(proposed.values())
    reasons = {}
    for ordinal, resource_id in proposed.items():
        is_built_in = builtins.built_in_ids().get(resource_id, found[ordinal].key) != found[ordinal].key
        if resource_id in taken or bringing[resource_id] > 1 or is_built_in:
            place = found[ordinal].place
            prefix = "" if place is None else f"{place}: "
            reasons[ordinal] = f"{prefix}/metadata/id: another resource of the project has this id; leave it out"
    return reasons
