"""The planner: what is wanted and what is stored make one status per resource. Pure; every door calls it.

What disappears from a repository is `pruning`'s business. Precedence when several statuses hold: forbidden by role,
invalid (duplicates too), forbidden by owner (an equal resource is `unchanged`), not-found, deprecated, then the rest.
"""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.access.actors import Actor, Role
from reconciler.planning import duplicates
from reconciler.planning.models import Change, Outcome, Stored, Wanted
from reconciler.planning.statuses import REFUSED, UpdateStatus
from reconciler.resources.keys import Key


def plan(wanted: Sequence[Wanted], stored: Mapping[Key, Stored], *, actor: Actor) -> tuple[Outcome, ...]:
    """One outcome per wanted document, in the order given.

    `stored` holds at least the stored resources whose keys occur in `wanted`.
    """
    twice = duplicates.find(wanted)
    return tuple(_judge(document, stored, twice, actor) for document in wanted)


def plan_deletes(wanted: Sequence[Wanted], stored: Mapping[Key, Stored], *, actor: Actor) -> tuple[Outcome, ...]:
    """One outcome per key that is to go, in the order given; kind and name alone are looked at."""
    twice = duplicates.find(wanted)
    return tuple(_judge_delete(document, stored, twice, actor) for document in wanted)


def refusals(outcomes: Iterable[Outcome], *, actor: Actor) -> tuple[Outcome, ...]:
    """The outcomes for which an atomic request or commit stores nothing."""
    tripping = REFUSED if actor.repository else REFUSED | {UpdateStatus.DEPRECATED}
    return tuple(outcome for outcome in outcomes if outcome.status in tripping)


def _judge(document: Wanted, stored: Mapping[Key, Stored], twice: Mapping[int, str], actor: Actor) -> Outcome:
    refused = _refuse(document, twice, actor)
    if refused is not None:
        return refused
    assert document.key is not None
    present = stored.get(document.key)
    if present is None:
        return _create(document, actor)
    if present.digest == document.digest:
        change = Change.REPLACE_HEAD if _head_differs(document, present, actor) else Change.NONE
        return _outcome(document, UpdateStatus.UNCHANGED, change=change, present=present)
    if _is_of_another_owner(present, actor):
        return _outcome(document, UpdateStatus.FORBIDDEN, present=present)
    return _outcome(document, UpdateStatus.CONFIGURED, change=Change.UPDATE, present=present)


def _judge_delete(document: Wanted, stored: Mapping[Key, Stored], twice: Mapping[int, str], actor: Actor) -> Outcome:
    refused = _refuse(document, twice, actor)
    if refused is not None:
        return refused
    assert document.key is not None
    present = stored.get(document.key)
    if present is None:
        return _outcome(document, UpdateStatus.NOT_FOUND)
    if _is_of_another_owner(present, actor):
        return _outcome(document, UpdateStatus.FORBIDDEN, present=present)
    return _outcome(document, UpdateStatus.DELETED, change=Change.DELETE, present=present)


def _refuse(document: Wanted, twice: Mapping[int, str], actor: Actor) -> Outcome | None:
    """What refuses a document whatever is stored: the role first, then every broken rule."""
    if not document.allowed or not _role_covers(actor, document.key):
        return _outcome(document, UpdateStatus.FORBIDDEN)
    reasons = [reason for reason in (document.reason, twice.get(document.ordinal)) if reason]
    if reasons:
        return _outcome(document, UpdateStatus.INVALID, reason="\n".join(reasons))
    return None


def _create(document: Wanted, actor: Actor) -> Outcome:
    """A new resource that is already deprecated: the API does not create it, Git does, so that state follows Git."""
    if not document.deprecated:
        return _outcome(document, UpdateStatus.CREATED, change=Change.CREATE)
    change = Change.CREATE if actor.repository else Change.NONE
    return _outcome(document, UpdateStatus.DEPRECATED, change=change)


def _role_covers(actor: Actor, key: Key | None) -> bool:
    """Types decide what a parameter may be, so only an admin changes them; a viewer changes nothing."""
    if actor.role is Role.USER:
        return key is None or not key.kind.endswith("Type")
    return actor.role is Role.ADMIN


def _is_of_another_owner(present: Stored, actor: Actor) -> bool:
    """Git keeps what it applied. What the API created is free, and the first repository to contain it adopts it."""
    return present.owner is not None and present.owner != actor.repository


def _head_differs(document: Wanted, present: Stored, actor: Actor) -> bool:
    """An equal resource is adopted by a repository, or its file or line moved: the head follows without a version."""
    if actor.repository is None or _is_of_another_owner(present, actor) or document.place is None:
        return False
    return (present.owner, present.path, present.line) != (actor.repository, document.place.path, document.place.line)


def _outcome(
    document: Wanted,
    status: UpdateStatus,
    *,
    change: Change = Change.NONE,
    present: Stored | None = None,
    reason: str | None = None,
) -> Outcome:
    return Outcome(
        key=document.key, status=status, change=change, ordinal=document.ordinal, reason=reason, stored=present
    )
