"""Small worlds for the planner's tests: who asks, what is wanted, what is stored, and a store to carry plans out on."""

from collections.abc import Iterable, Mapping

from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, StoredState
from reconciler.model.principals import Actor, Role, repository_actor
from reconciler.model.violations import Place

ADMIN = Actor(name="key:admin", role=Role.ADMIN)
USER = Actor(name="key:user", role=Role.USER)
VIEWER = Actor(name="key:viewer", role=Role.VIEWER)
TELEMETRY = repository_actor("telemetry")
OTHER = repository_actor("other")

KEY = Key("Destination", "a")
TYPE = Key("DestinationType", "a")
PLACE = Place("a.yaml", 1, 1)


def carried_out(
    stored: Mapping[Key, StoredState], outcomes: Iterable[Outcome], wanted: Mapping[int, Desired], *, actor: Actor
) -> dict[Key, StoredState]:
    """Return what is stored once the outcomes are, as the applier does it."""
    after = dict(stored)
    for outcome in outcomes:
        if outcome.change is Change.NONE:
            continue
        assert outcome.key is not None
        if outcome.change is Change.DELETE:
            del after[outcome.key]
            continue
        assert outcome.ordinal is not None
        document = wanted[outcome.ordinal]
        version = 0 if outcome.stored is None else outcome.stored.version
        after[outcome.key] = StoredState(
            key=outcome.key,
            digest=document.digest,
            version=version if outcome.change is Change.REPLACE_HEAD else version + 1,
            owner=actor.repository,
            path=None if document.place is None else document.place.path,
            line=None if document.place is None else document.place.line,
        )
    return after
