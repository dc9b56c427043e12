"""A dry run must not tell whoever may send a secret but not read one whether it is the stored one.

So a secret that comes in clear always counts as changed, which `decisions` sees to, and no hash that covers it is
shown. A secret that `(sensitive)` stands for is no guess.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from reconciler.deciding.changes import Decided
from reconciler.model import values
from reconciler.model.names import Key
from reconciler.model.outcomes import Outcome


def without_hashes(shown: Mapping[Key, bytes], decided: Decided) -> dict[Key, bytes]:
    """The resources that would be stored, less the hashes that follow from a guess."""
    guessed = _guessed(decided)
    return {key: _without_hash(resource) if key in guessed else resource for key, resource in shown.items()}


def without_equals(wanted: Mapping[Key, bytes | None], decided: Decided) -> dict[Key, bytes | None]:
    """What owners want by digest, but of what holds a guess: that has drifted, even when it is what its owner wants."""
    guessed = _guessed(decided)
    return {key: None if key in guessed else digest for key, digest in wanted.items()}


def _guessed(decided: Decided) -> set[Key | None]:
    return {outcome.key for outcome in decided.outcomes if _is_guess(outcome, decided)}


def _is_guess(outcome: Outcome, decided: Decided) -> bool:
    if outcome.ordinal is None or outcome.ordinal not in decided.fits:
        return False
    kept = decided.kept.get(outcome.ordinal, frozenset())
    return any(pointer not in kept for pointer, _ in decided.fits[outcome.ordinal].secrets)


def _without_hash(resource: bytes) -> bytes:
    decoded: dict[str, Any] = msgspec.json.decode(resource)
    decoded["metadata"].pop("hash", None)
    return values.canonical_json(decoded)
