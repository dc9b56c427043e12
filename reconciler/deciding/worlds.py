"""What a change meets: one snapshot of the store, and what is built in.

Belongs here: what stands under a key before the change. Does not: deciding anything (`decisions`).
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

from reconciler.deciding.changes import Decided, Stock
from reconciler.model import builtins, names, resource
from reconciler.model.names import Key
from reconciler.model.outcomes import BUILT_IN, Change, StoredState
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from reconciler.store.planning_view import PlanningView

KEEPING = frozenset({Change.UPDATE, Change.REPLACE_HEAD, Change.RENEW, Change.RESTORE})
"""What leaves a resource its id."""


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """What a change meets: one snapshot of the store, and what is built in."""

    view: PlanningView
    project: str
    hmac_key: bytes = field(repr=False)
    at: str = ""  # when it happens, RFC 3339
    hide_guesses: bool = False  # a dry run: nothing may show whether a secret that comes in is the stored one
    suspended: frozenset[str] = frozenset()  # repositories whose resources an admin may write
    available: AvailableSecrets | None = (
        NO_SECRETS  # the secrets that the project may refer to; None when nobody can say
    )
    check: Callable[[], object] = bool  # called while documents are judged: raises when there is no time left
    assumed: Set[Key] = frozenset()  # taken to be there, since nobody can say
    lenient: bool = False  # what recent rules have against a document does not count
    refuse_unknown: bool = False  # parameters without a definition are refused whoever executes their type
    known: Mapping[Key, bytes] = field(default_factory=dict)  # by digest: what whoever asks has read; it is no guess

    def stored(self, keys: Iterable[Key]) -> dict[Key, StoredState]:
        """What is stored under these keys, or stands for a name that nobody else may have."""
        wanted = set(keys)
        reserved = {key: self._built_in(key) for key in wanted & builtins.RESERVED}
        return reserved | self.view.compared(self.project, wanted)

    def removable(self, keys: Iterable[Key]) -> dict[Key, StoredState]:
        """What a deletion of these keys meets: what is built in cannot go, whatever its name."""
        wanted = set(keys)
        built_in = {key: self._built_in(key) for key in wanted & builtins.built_in().keys()}
        return built_in | self.view.stored(self.project, wanted)

    def _built_in(self, key: Key) -> StoredState:
        return StoredState(key, digest=_built_in_digest(key, self.hmac_key), version=1, owner=BUILT_IN)


def stock_of(decided: Decided, view: PlanningView, *, project: str) -> Stock:
    """What the rows of these outcomes need to know of what was stored."""
    kept, created = list[Key](), list[Key]()
    for outcome in decided.outcomes:
        if outcome.key is not None:
            if outcome.change is Change.CREATE:
                created.append(outcome.key)
            elif outcome.change in KEEPING:
                kept.append(outcome.key)
    holding = [key for key, one, _ in decided.storing_secrets() if one.change is Change.UPDATE]
    return Stock(
        identities=view.identities(project, kept),
        last_versions=view.last_versions(project, created),
        before=view.documents(project, holding),
    )


def _built_in_digest(key: Key, hmac_key: bytes) -> bytes:
    document = builtins.built_in()[key]
    owned = {name: document[name] for name in ("apiVersion", "kind", "metadata", "spec")}
    return resource.digest_draft(resource.without_absent(owned, names.exact_kind(key.kind)), hmac_key=hmac_key)
