"""A dry run must not tell whoever may send a secret but not read one whether it is the stored one.

So a secret that comes in clear always counts as changed, and no hash that covers it is shown (decisions on secrets:
whether a guess is right never shows in a dry run). A secret that `(sensitive)` stands for is no guess.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from reconciler.access.actors import Actor
from reconciler.deciding.changes import Decided
from reconciler.planning import planner
from reconciler.planning.models import Change, Outcome
from reconciler.planning.statuses import UpdateStatus
from reconciler.resources import canonical
from reconciler.resources.keys import Key


def hidden(decided: Decided, *, actor: Actor, suspended: frozenset[str]) -> Decided:
    """What a dry run may say in place of what was decided: what the call itself would say of any other secret."""
    told = (
        _as_if_changed(outcome, actor=actor, suspended=suspended) if _is_guess(outcome, decided) else outcome
        for outcome in decided.outcomes
    )
    return replace(decided, outcomes=tuple(told))


def without_hashes(shown: Mapping[Key, bytes], decided: Decided) -> dict[Key, bytes]:
    """The resources that would be stored, less the hashes that follow from a guess."""
    guessed = {outcome.key for outcome in decided.outcomes if _is_guess(outcome, decided)}
    return {key: _without_hash(resource) if key in guessed else resource for key, resource in shown.items()}


def _as_if_changed(outcome: Outcome, *, actor: Actor, suspended: frozenset[str]) -> Outcome:
    if outcome.status is not UpdateStatus.UNCHANGED or outcome.stored is None:
        return outcome
    if not planner.is_free(outcome.stored, actor=actor, suspended=suspended):
        return replace(outcome, status=UpdateStatus.FORBIDDEN)
    return replace(outcome, status=UpdateStatus.CONFIGURED, change=Change.UPDATE)


def _is_guess(outcome: Outcome, decided: Decided) -> bool:
    if outcome.ordinal is None or outcome.ordinal not in decided.fits:
        return False
    kept = decided.kept.get(outcome.ordinal, frozenset())
    return any(pointer not in kept for pointer, _ in decided.fits[outcome.ordinal].secrets)


def _without_hash(resource: bytes) -> bytes:
    decoded: dict[str, Any] = msgspec.json.decode(resource)
    decoded["metadata"].pop("hash", None)
    return canonical.encode(decoded)
