"""The planner: from desired and stored resources to one status for each. Pure; Git, the API and reviews all use it.

If several statuses apply, the first of these counts: forbidden by role, invalid, forbidden by owner (an equal resource
is `unchanged`), not-found, in-use, deprecated, then the rest. If a kind and name occur twice in one request or commit,
all of these documents are invalid, and each names the others. A resource cannot be deleted while one that stays refers
to it. `pruning` decides about resources that disappear from a repository.
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
    # Only the first few are named: a request may have ten thousand documents with one name.
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
    """Return those resources to delete that must stay, each with the staying resources that refer to it, in order.

    A reference to itself does not keep a resource. Two that refer to each other may be deleted together.
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

    `stored` has at least the stored resources whose keys occur in `desired`. An admin may change resources of a
    `suspended` repository through the API.
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

    `references` has at least those to the keys that occur in `desired`. A resource that stays keeps the resources that
    it refers to. An admin may delete resources of a `suspended` repository through the API.
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
    """Return True if the owner of a stored resource allows that the actor changes or deletes it.

    While a repository is suspended, an admin may write its resources; another repository never may.
    """
    is_overruled = actor.repository is None and actor.role is Role.ADMIN and present.owner in suspended
    # Only Git changes what Git applied. A resource from the API is free: the first repository that has it adopts it.
    return is_overruled or present.owner in (None, actor.repository)


def refusals(outcomes: Iterable[Outcome], *, actor: Actor) -> tuple[Outcome, ...]:
    """Return the outcomes for which an atomic request or commit stores nothing."""
    tripping = REFUSED if actor.repository else REFUSED | {UpdateStatus.DEPRECATED}
    return tuple(outcome for outcome in outcomes if outcome.status in tripping)


def _refusal(ordinal: int, document: Desired, twice: Mapping[int, str], actor: Actor) -> Outcome | None:
    """Refuse a document for reasons that do not depend on the store: the role first, then every broken rule."""
    if not document.allowed or not _role_covers(actor, document.key):
        return Outcome(document.key, UpdateStatus.FORBIDDEN, ordinal=ordinal)
    again = twice.get(ordinal)
    if not document.reason and not again:
        return None
    reason = "\n".join(filter(None, (document.reason, again)))
    return Outcome(document.key, UpdateStatus.INVALID, ordinal=ordinal, reason=reason)


def _role_covers(actor: Actor, key: Key | None) -> bool:
    """Return True if the role may change this kind: only admins change types, and viewers change nothing."""
    if actor.role is Role.USER:
        return key is None or not key.kind.endswith("Type")
    return actor.role is Role.ADMIN


def _planned(
    ordinal: int, document: Desired, stored: Mapping[Key, StoredState], actor: Actor, suspended: frozenset[str]
) -> Outcome:
    assert document.key is not None
    outcome = _compared(ordinal, document, stored.get(document.key), actor, suspended)
    # A conflict or a fault does not change a refusal.
    is_refused = outcome.status in (UpdateStatus.FORBIDDEN, UpdateStatus.DEPRECATED) and outcome.change is Change.NONE
    if document.conflict is not None and not is_refused:
        return replace(outcome, status=UpdateStatus.ERROR, change=Change.NONE, reason=document.conflict)
    if document.recent is not None:
        # The rule is new in this version. A document that an earlier version stored stays, with a note.
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
        # The API creates no deprecated resource. Git does, so that the store follows Git.
        change = Change.CREATE if actor.repository or not document.deprecated else Change.NONE
        status = UpdateStatus.DEPRECATED if document.deprecated else UpdateStatus.CREATED
        return Outcome(key, status, change, ordinal)
    is_own = is_free(present, actor=actor, suspended=suspended)
    # The digest of a damaged version is still right. Even an equal document replaces the damaged version.
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
    """Return True if only the head of an equal resource changes, without a new version: a repository adopts it, its
    file or line moved, or the API stored it while its owner was suspended.
    """
    if actor.repository is None or present.owner not in (None, actor.repository) or document.place is None:
        return False
    place = (actor.repository, document.place.path, document.place.line)
    return present.drifted or (present.owner, present.path, present.line) != place
