"""The planner: desired and stored to one status per resource. Pure; every door calls it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from msgspec.structs import replace

from reconciler.model.names import Key
from reconciler.model.outcomes import REFUSED, Change, Outcome, StoredState, UpdateStatus, WantedState
from reconciler.model.principals import Actor, Role

# The same kind and name twice in one request or commit: all of them are invalid, each naming the others' places.

NAMED = 5  # a reason names this many other places, and counts the rest


def find_duplicates(wanted: Iterable[WantedState]) -> dict[int, str]:
    """The reason for each duplicate, by ordinal."""
    known = [document for document in wanted if document.key is not None]
    if len({document.key for document in known}) == len(known):
        return {}  # as nearly always, and then a list for each key would cost more than all else
    by_key: dict[Key | None, list[WantedState]] = defaultdict(list)
    for document in known:
        by_key[document.key].append(document)
    return {document.ordinal: _reason(document, same) for same in by_key.values() if len(same) > 1 for document in same}


def _reason(document: WantedState, same: list[WantedState]) -> str:
    assert document.key is not None
    # The first few alone are looked at: a request may hold ten thousand of one name.
    named = [other for other in same[: NAMED + 1] if other is not document][:NAMED]
    places = ", ".join(_place(other) for other in named)
    left = len(same) - 1 - len(named)
    more = f" and {left} more" if left else ""
    prefix = "" if document.place is None else f"{document.place}: "
    kind, name = document.key
    return f"{prefix}{kind} {name} is given more than once, also at {places}{more}; keep one of them"


def _place(document: WantedState) -> str:
    return f"item {document.ordinal}" if document.place is None else str(document.place)


# What is in use: a resource stays as long as one that stays refers to it. Pure.

References: TypeAlias = Mapping[Key, Collection[Key]]
"""What refers to each key: to those that matter at least."""


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


# The planner: what is wanted and what is stored make one status per resource. Pure; every door calls it.
#
# What disappears from a repository is `pruning`'s business. Precedence when several statuses hold: forbidden by role,
# invalid (duplicates too), forbidden by owner (an equal resource is `unchanged`), not-found, in-use, deprecated, then
# the rest.

NOBODY: frozenset[str] = frozenset()


def plan(
    wanted: Sequence[WantedState],
    stored: Mapping[Key, StoredState],
    *,
    actor: Actor,
    suspended: frozenset[str] = NOBODY,
) -> tuple[Outcome, ...]:
    """One outcome per wanted document, in the order given.

    `stored` holds at least the stored resources whose keys occur in `wanted`. What a `suspended` repository owns, an
    admin may change through the API.
    """
    twice = find_duplicates(wanted)
    return tuple(_judge(document, stored, twice, actor, suspended) for document in wanted)


def plan_deletes(
    wanted: Sequence[WantedState],
    stored: Mapping[Key, StoredState],
    *,
    references: References,
    actor: Actor,
    suspended: frozenset[str] = NOBODY,
) -> tuple[Outcome, ...]:
    """One outcome per key that is to go, in the order given; kind and name alone are looked at.

    `references` holds at least those to the keys that occur in `wanted`. Whatever stays keeps what it refers to. What a
    `suspended` repository owns, an admin may delete through the API.
    """
    twice = find_duplicates(wanted)
    outcomes = [_judge_delete(document, stored, twice, actor, suspended) for document in wanted]
    leaving = [outcome.key for outcome in outcomes if outcome.change is Change.DELETE and outcome.key is not None]
    staying = resources_in_use(leaving, references)
    return tuple(_in_use(outcome, staying) for outcome in outcomes)


def is_free(present: StoredState, *, actor: Actor, suspended: frozenset[str]) -> bool:
    """Whether the actor may change or delete what is stored, going by who owns it."""
    return not _is_of_another_owner(present, actor) or _may_overrule(present, actor, suspended)


def refusals(outcomes: Iterable[Outcome], *, actor: Actor) -> tuple[Outcome, ...]:
    """The outcomes for which an atomic request or commit stores nothing."""
    tripping = REFUSED if actor.repository else REFUSED | {UpdateStatus.DEPRECATED}
    return tuple(outcome for outcome in outcomes if outcome.status in tripping)


def damaged(outcomes: Iterable[Outcome], *, limit: int) -> tuple[tuple[str, str, int], ...]:
    """Kind, name and version of the damaged resources that were compared, the first of them."""
    met = (one.stored for one in outcomes if one.stored is not None and one.stored.damaged)
    return tuple((*stored.key, stored.version) for stored in islice(met, limit))


def _judge(
    document: WantedState,
    stored: Mapping[Key, StoredState],
    twice: Mapping[int, str],
    actor: Actor,
    suspended: frozenset[str],
) -> Outcome:
    refused = _refuse(document, twice, actor)
    if refused is not None:
        return refused
    assert document.key is not None
    outcome = _compare(document, stored.get(document.key), actor, suspended)
    if document.conflict is not None and not _stays_refused(outcome):
        return replace(outcome, status=UpdateStatus.ERROR, change=Change.NONE, reason=document.conflict)
    if document.recent is not None:
        return _by_recent_rules(document, outcome)
    if document.fault is None or _stays_refused(outcome):
        return outcome
    return replace(outcome, status=UpdateStatus.ERROR, change=Change.NONE, reason=document.fault)


def _compare(document: WantedState, present: StoredState | None, actor: Actor, suspended: frozenset[str]) -> Outcome:
    if present is None:
        return _create(document, actor)
    if present.digest == document.digest:
        if present.damaged:
            return _restore(document, present, actor, suspended)
        change = Change.RENEW if present.renewed else Change.NONE
        if _head_differs(document, present, actor):
            change = Change.REPLACE_HEAD
        return _outcome(document, UpdateStatus.UNCHANGED, change=change, present=present)
    if not is_free(present, actor=actor, suspended=suspended):
        return _outcome(document, UpdateStatus.FORBIDDEN, present=present)
    return _outcome(document, UpdateStatus.CONFIGURED, change=Change.UPDATE, present=present)


def _by_recent_rules(document: WantedState, outcome: Outcome) -> Outcome:
    """A document that breaks a rule of this version alone: what is stored by an earlier one stays, and is told."""
    assert document.recent is not None
    is_equal = outcome.status in (UpdateStatus.UNCHANGED, UpdateStatus.ERROR) or outcome.change is Change.RESTORE
    if is_equal:
        return replace(outcome, notes=(*outcome.notes, *document.recent.split("\n")))
    return _outcome(document, UpdateStatus.INVALID, reason=document.recent)


def _restore(document: WantedState, present: StoredState, actor: Actor, suspended: frozenset[str]) -> Outcome:
    """An equal document is all that it takes to make a damaged version anew, from whoever may write it."""
    if is_free(present, actor=actor, suspended=suspended):
        return _outcome(document, UpdateStatus.CONFIGURED, change=Change.RESTORE, present=present)
    reason = (
        f"what is stored of the {present.key.kind} {present.key.name} is damaged; "
        f"the next full read of the repository {present.owner} restores it"
    )
    return _outcome(document, UpdateStatus.ERROR, present=present, reason=reason)


def _stays_refused(outcome: Outcome) -> bool:
    """Whether it is refused however a document that nobody can judge would turn out."""
    refusing = outcome.status in (UpdateStatus.FORBIDDEN, UpdateStatus.DEPRECATED)
    return refusing and outcome.change is Change.NONE


def _judge_delete(
    document: WantedState,
    stored: Mapping[Key, StoredState],
    twice: Mapping[int, str],
    actor: Actor,
    suspended: frozenset[str],
) -> Outcome:
    refused = _refuse(document, twice, actor)
    if refused is not None:
        return refused
    assert document.key is not None
    present = stored.get(document.key)
    if present is None:
        return _outcome(document, UpdateStatus.NOT_FOUND)
    if not is_free(present, actor=actor, suspended=suspended):
        return _outcome(document, UpdateStatus.FORBIDDEN, present=present)
    return _outcome(document, UpdateStatus.DELETED, change=Change.DELETE, present=present)


def _refuse(document: WantedState, twice: Mapping[int, str], actor: Actor) -> Outcome | None:
    """What refuses a document whatever is stored: the role first, then every broken rule."""
    if not document.allowed or not _role_covers(actor, document.key):
        return _outcome(document, UpdateStatus.FORBIDDEN)
    again = twice.get(document.ordinal)
    if not document.reason and not again:
        return None
    reasons = [reason for reason in (document.reason, again) if reason]
    return _outcome(document, UpdateStatus.INVALID, reason="\n".join(reasons))


def _in_use(outcome: Outcome, staying: Mapping[Key, tuple[Key, ...]]) -> Outcome:
    if outcome.change is not Change.DELETE or outcome.key is None or outcome.key not in staying:
        return outcome
    return replace(outcome, status=UpdateStatus.IN_USE, change=Change.NONE, users=staying[outcome.key])


def _create(document: WantedState, actor: Actor) -> Outcome:
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


def _is_of_another_owner(present: StoredState, actor: Actor) -> bool:
    """Git keeps what it applied. What the API created is free, and the first repository to contain it adopts it."""
    return present.owner is not None and present.owner != actor.repository


def _may_overrule(present: StoredState, actor: Actor, suspended: frozenset[str]) -> bool:
    """While a repository is suspended, an admin writes what it owns; another repository never does."""
    return actor.repository is None and actor.role is Role.ADMIN and present.owner in suspended


def _head_differs(document: WantedState, present: StoredState, actor: Actor) -> bool:
    """An equal resource is adopted by a repository, its file or line moved, or the API stored it while its owner was
    suspended: the head follows without a version.
    """
    if actor.repository is None or _is_of_another_owner(present, actor) or document.place is None:
        return False
    place = (actor.repository, document.place.path, document.place.line)
    return present.drifted or (present.owner, present.path, present.line) != place


def _outcome(
    document: WantedState,
    status: UpdateStatus,
    *,
    change: Change = Change.NONE,
    present: StoredState | None = None,
    reason: str | None = None,
) -> Outcome:
    return Outcome(
        key=document.key, status=status, change=change, ordinal=document.ordinal, reason=reason, stored=present
    )
