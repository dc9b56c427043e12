"""The planner: desired and stored to one status per resource. Pure; every door calls it.

If several statuses hold, the first of these counts: forbidden by role, invalid, forbidden by owner (an equal resource
is `unchanged`), not-found, in-use, deprecated, then the rest. The same kind and name twice in one request or commit is
invalid in every place, and each names the others. A resource stays as long as one that stays refers to it. `pruning`
decides about resources that disappear from a repository.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from reconciler.model.desired import Desired
from reconciler.model.names import NAMED, Key
from reconciler.model.outcomes import REFUSED, Change, Outcome, StoredState, UpdateStatus
from reconciler.model.principals import Actor, Role


def find_duplicates(desired: Sequence[Desired]) -> dict[int, str]:
    """Return the reason for each duplicate, by ordinal."""
    by_key: dict[Key, list[int]] = defaultdict(list)
    for ordinal, document in enumerate(desired):
        if document.key is not None:
            by_key[document.key].append(ordinal)
    return {ordinal: _reason(ordinal, same, desired) for same in by_key.values() if len(same) > 1 for ordinal in same}


def _reason(ordinal: int, same: list[int], desired: Sequence[Desired]) -> str:
    document = desired[ordinal]
    assert document.key is not None
    # Only the first few are named: a request may hold ten thousand of one name.
    named = [other for other in same[: NAMED + 1] if other != ordinal][:NAMED]
    places = ", ".join(str(desired[other].place or f"item {other}") for other in named)
    left = len(same) - 1 - len(named)
    more = f" and {left} more" if left else ""
    prefix = "" if document.place is None else f"{document.place}: "
    kind, name = document.key
    return f"{prefix}{kind} {name} is given more than once, also at {places}{more}; keep one of them"


References: TypeAlias = Mapping[Key, Collection[Key]]
"""The resources that refer to each key: to those that matter at least."""


def resources_in_use(leaving: Iterable[Key], references: References) -> dict[Key, tuple[Key, ...]]:
    """Of what is to leave, what cannot, and the resources that refer to it and stay, in order.

    A resource that refers to itself alone does not keep itself; two that refer to each other may leave together.
    """
    going = set(leaving)
    kept: dict[Key, tuple[Key, ...]] = {}
    uses: dict[Key, list[Key]] = defaultdict(list)  # of what leaves, what else of that it refers to
    for target in going:
        for user in references.get(target, ()):
            uses[user].append(target)
    unsettled = [target for user, targets in uses.items() if user not in going for target in targets]
    while unsettled:
        target = unsettled.pop()
        if target in going:
            going.remove(target)
            unsettled += uses.get(target, ())
            kept[target] = ()
    return {target: tuple(sorted(set(references[target]) - going - {target})) for target in sorted(kept)}


NOBODY: frozenset[str] = frozenset()


def plan(
    desired: Sequence[Desired],
    stored: Mapping[Key, StoredState],
    *,
    actor: Actor,
    suspended: frozenset[str] = NOBODY,
) -> tuple[Outcome, ...]:
    """Return one outcome per document, in the order given; its ordinal is the document's position there.

    `stored` holds at least the stored resources whose keys occur in `desired`. What a `suspended` repository owns, an
    admin may change through the API.
    """
    twice = find_duplicates(desired)
    return tuple(
        _refusal(ordinal, one, twice, actor) or _planned(ordinal, one, stored, actor, suspended)
        for ordinal, one in enumerate(desired)
    )


def plan_deletes(
    desired: Sequence[Desired],
    stored: Mapping[Key, StoredState],
    *,
    references: References,
    actor: Actor,
    suspended: frozenset[str] = NOBODY,
) -> tuple[Outcome, ...]:
    """Return one outcome per key to delete, in the order given; only kind and name are read.

    `references` holds at least those to the keys that occur in `desired`. A resource that stays keeps its references
    alive. What a `suspended` repository owns, an admin may delete through the API.
    """
    twice = find_duplicates(desired)
    outcomes = [
        _refusal(ordinal, one, twice, actor) or _planned_delete(ordinal, one, stored, actor, suspended)
        for ordinal, one in enumerate(desired)
    ]
    leaving = [outcome.key for outcome in outcomes if outcome.change is Change.DELETE and outcome.key is not None]
    staying = resources_in_use(leaving, references)
    return tuple(
        one
        if one.change is not Change.DELETE or one.key is None or one.key not in staying
        else replace(one, status=UpdateStatus.IN_USE, change=Change.NONE, users=staying[one.key])
        for one in outcomes
    )


def is_free(present: StoredState, *, actor: Actor, suspended: frozenset[str]) -> bool:
    """Return True when the actor may change or delete what is stored, going by its owner.

    While a repository is suspended, an admin writes what it owns; another repository never does.
    """
    is_overruled = actor.repository is None and actor.role is Role.ADMIN and present.owner in suspended
    # Git keeps what it applied. What the API created is free, and the first repository to contain it adopts it.
    return is_overruled or present.owner in (None, actor.repository)


def refusals(outcomes: Iterable[Outcome], *, actor: Actor) -> tuple[Outcome, ...]:
    """Return the outcomes for which an atomic request or commit stores nothing."""
    tripping = REFUSED if actor.repository else REFUSED | {UpdateStatus.DEPRECATED}
    return tuple(outcome for outcome in outcomes if outcome.status in tripping)


def _refusal(ordinal: int, document: Desired, twice: Mapping[int, str], actor: Actor) -> Outcome | None:
    """Refuse a document whatever is stored: for the role first, then for every broken rule."""
    if not document.allowed or not _role_covers(actor, document.key):
        return Outcome(document.key, UpdateStatus.FORBIDDEN, ordinal=ordinal)
    again = twice.get(ordinal)
    if not document.reason and not again:
        return None
    reason = "\n".join(filter(None, (document.reason, again)))
    return Outcome(document.key, UpdateStatus.INVALID, ordinal=ordinal, reason=reason)


def _role_covers(actor: Actor, key: Key | None) -> bool:
    """Types decide what a parameter may be, so only an admin changes them; a viewer changes nothing."""
    if actor.role is Role.USER:
        return key is None or not key.kind.endswith("Type")
    return actor.role is Role.ADMIN


def _planned(
    ordinal: int, document: Desired, stored: Mapping[Key, StoredState], actor: Actor, suspended: frozenset[str]
) -> Outcome:
    assert document.key is not None
    outcome = _compared(ordinal, document, stored.get(document.key), actor, suspended)
    # It stays refused, whatever the unreadable document would be.
    is_refused = outcome.status in (UpdateStatus.FORBIDDEN, UpdateStatus.DEPRECATED) and outcome.change is Change.NONE
    if document.conflict is not None and not is_refused:
        return replace(outcome, status=UpdateStatus.ERROR, change=Change.NONE, reason=document.conflict)
    if document.recent is not None:
        # A rule of this version alone: a document that an earlier one stored stays, with a note.
        if outcome.status is UpdateStatus.UNCHANGED:
            return replace(outcome, notes=(*outcome.notes, *document.recent.split("\n")))
        return Outcome(document.key, UpdateStatus.INVALID, ordinal=ordinal, reason=document.recent)
    if document.fault is not None and not is_refused:
        return replace(outcome, status=UpdateStatus.ERROR, change=Change.NONE, reason=document.fault)
    return outcome


def _compared(
    ordinal: int, document: Desired, present: StoredState | None, actor: Actor, suspended: frozenset[str]
) -> Outcome:
    key = document.key
    if present is None:
        # The API creates nothing that is deprecated from the start; Git does, so that state follows Git.
        change = Change.CREATE if actor.repository or not document.deprecated else Change.NONE
        status = UpdateStatus.DEPRECATED if document.deprecated else UpdateStatus.CREATED
        return Outcome(key, status, change, ordinal)
    is_own = is_free(present, actor=actor, suspended=suspended)
    # The digest of a damaged version is that of the document that was stored; an equal one takes its place.
    if present.digest != document.digest or present.damaged:
        if not is_own:
            return Outcome(key, UpdateStatus.FORBIDDEN, ordinal=ordinal, stored=present)
        return Outcome(key, UpdateStatus.CONFIGURED, Change.UPDATE, ordinal, stored=present)
    change = Change.RENEW if present.renewed else Change.NONE
    if _head_differs(document, present, actor):
        change = Change.REPLACE_HEAD
    return Outcome(key, UpdateStatus.UNCHANGED, change, ordinal, stored=present)


def _planned_delete(
    ordinal: int, document: Desired, stored: Mapping[Key, StoredState], actor: Actor, suspended: frozenset[str]
) -> Outcome:
    assert document.key is not None
    present = stored.get(document.key)
    if present is None:
        return Outcome(document.key, UpdateStatus.NOT_FOUND, ordinal=ordinal)
    if not is_free(present, actor=actor, suspended=suspended):
        return Outcome(document.key, UpdateStatus.FORBIDDEN, ordinal=ordinal, stored=present)
    return Outcome(document.key, UpdateStatus.DELETED, Change.DELETE, ordinal, stored=present)


def _head_differs(document: Desired, present: StoredState, actor: Actor) -> bool:
    """An equal resource is adopted by a repository, its file or line moved, or the API stored it while its owner was
    suspended: the head follows without a version.
    """
    if actor.repository is None or present.owner not in (None, actor.repository) or document.place is None:
        return False
    place = (actor.repository, document.place.path, document.place.line)
    return present.drifted or (present.owner, present.path, present.line) != place
