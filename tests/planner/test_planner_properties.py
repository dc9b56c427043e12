"""Properties of every plan: one outcome a document, no order matters, and a plan carried out leaves nothing to do."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, StoredState, UpdateStatus
from reconciler.model.principals import Actor
from reconciler.model.violations import Place
from reconciler.planner import planner
from reconciler.planner.planner import References
from tests.planner.worlds import ADMIN, OTHER, TELEMETRY, USER, VIEWER, carried_out

KEYS = st.builds(Key, st.sampled_from(["Destination", "Source", "SourceType"]), st.sampled_from("abcd"))
DIGESTS = st.sampled_from([b"1", b"2", b"3"])
PLACES = st.builds(Place, st.sampled_from(["a.yaml", "b.yaml"]), st.integers(1, 3), st.just(1))
ACTORS = st.sampled_from([ADMIN, USER, VIEWER, TELEMETRY, OTHER])
STORED = st.dictionaries(
    KEYS,
    st.builds(
        StoredState,
        key=st.just(Key("", "")),
        digest=DIGESTS,
        version=st.integers(1, 9),
        owner=st.sampled_from([None, "telemetry", "other"]),
        path=st.sampled_from([None, "a.yaml"]),
        line=st.sampled_from([None, 1]),
        protected=st.booleans(),
    ),
).map(lambda found: {key: replace(stored, key=key) for key, stored in found.items()})


REFERENCES = st.dictionaries(KEYS, st.sets(KEYS, max_size=3))


@st.composite
def requests(draw: st.DrawFn) -> tuple[Actor, list[Desired]]:
    """An actor and documents as it sends them: with places from Git, without from the API."""
    actor = draw(ACTORS)
    document = st.builds(
        Desired,
        key=KEYS,
        digest=DIGESTS,
        reason=st.sampled_from([None, None, None, "/spec: bad"]),
        place=PLACES if actor.repository else st.none(),
        deprecated=st.booleans(),
        allowed=st.booleans() if actor.repository else st.just(True),
    )
    nameless = st.builds(Desired, key=st.none(), reason=st.just("/kind: is required"))
    return actor, draw(st.lists(document | nameless, max_size=8))


def plans(
    wanted: list[Desired], stored: dict[Key, StoredState], references: References, *, actor: Actor
) -> list[tuple[Outcome, ...]]:
    """Return what becomes of documents that somebody wants stored, and of the same keys when they are to go."""
    return [
        planner.plan(wanted, stored, actor=actor),
        planner.plan_deletes(wanted, stored, references=references, actor=actor),
    ]


def essence(outcome: Outcome) -> tuple[object, ...]:
    """All of an outcome but its rank, and but the reason, in which duplicates are listed in the order given."""
    return (outcome.key, outcome.status, outcome.change, outcome.stored, outcome.users)


@given(requests(), STORED, REFERENCES)
def test_there_is_one_outcome_for_each_document_in_its_order(
    request: tuple[Actor, list[Desired]], stored: dict[Key, StoredState], references: References
) -> None:
    actor, wanted = request
    for outcomes in plans(wanted, stored, references, actor=actor):
        expected = [(ordinal, document.key) for ordinal, document in enumerate(wanted)]
        assert [(outcome.ordinal, outcome.key) for outcome in outcomes] == expected


@given(requests(), STORED, REFERENCES, st.data())
def test_the_order_of_what_is_wanted_changes_no_outcome(
    request: tuple[Actor, list[Desired]],
    stored: dict[Key, StoredState],
    references: References,
    data: st.DataObject,
) -> None:
    actor, wanted = request
    order = data.draw(st.permutations(range(len(wanted))))
    shuffled = [wanted[at] for at in order]
    both = zip(
        plans(wanted, stored, references, actor=actor), plans(shuffled, stored, references, actor=actor), strict=True
    )
    for before, after in both:
        assert [essence(outcome) for outcome in after] == [essence(before[at]) for at in order]


@given(requests(), STORED)
def test_what_else_is_stored_changes_no_outcome(
    request: tuple[Actor, list[Desired]], stored: dict[Key, StoredState]
) -> None:
    actor, wanted = request
    keys = {document.key for document in wanted}
    needed = {key: one for key, one in stored.items() if key in keys}
    assert planner.plan(wanted, needed, actor=actor) == planner.plan(wanted, stored, actor=actor)


@given(requests(), STORED)
def test_a_plan_carried_out_leaves_nothing_to_do(
    request: tuple[Actor, list[Desired]], stored: dict[Key, StoredState]
) -> None:
    actor, wanted = request
    documents = dict(enumerate(wanted))
    first = planner.plan(wanted, stored, actor=actor)
    after = carried_out(stored, first, documents, actor=actor)
    second = planner.plan(wanted, after, actor=actor)
    assert {outcome.change for outcome in second} <= {Change.NONE}
    for before, again in zip(first, second, strict=True):
        done = before.change is not Change.NONE
        assert again.status is (UpdateStatus.UNCHANGED if done else before.status)


@given(requests(), STORED, REFERENCES)
def test_deletes_carried_out_leave_nothing_to_delete(
    request: tuple[Actor, list[Desired]], stored: dict[Key, StoredState], references: References
) -> None:
    actor, wanted = request
    first = planner.plan_deletes(wanted, stored, references=references, actor=actor)
    after = carried_out(stored, first, {}, actor=actor)
    left = {target: set(users) - (stored.keys() - after.keys()) for target, users in references.items()}
    second = planner.plan_deletes(wanted, after, references=left, actor=actor)
    for before, again in zip(first, second, strict=True):
        gone = before.status is UpdateStatus.DELETED
        assert (again.status, again.change) == (UpdateStatus.NOT_FOUND if gone else before.status, Change.NONE)


@given(requests(), STORED, REFERENCES)
def test_nobody_changes_what_a_repository_owns_but_that_repository(
    request: tuple[Actor, list[Desired]], stored: dict[Key, StoredState], references: References
) -> None:
    actor, wanted = request
    documents = dict(enumerate(wanted))
    for outcomes in plans(wanted, stored, references, actor=actor):
        after = carried_out(stored, outcomes, documents, actor=actor)
        kept = {key: one for key, one in stored.items() if one.owner not in (None, actor.repository)}
        assert {key: after.get(key) for key in kept} == kept


@given(requests(), STORED, REFERENCES)
def test_a_reason_is_there_for_what_is_invalid_and_users_for_what_is_in_use(
    request: tuple[Actor, list[Desired]], stored: dict[Key, StoredState], references: References
) -> None:
    actor, wanted = request
    for outcomes in plans(wanted, stored, references, actor=actor):
        for outcome in outcomes:
            assert (outcome.reason is not None) == (outcome.status is UpdateStatus.INVALID)
            assert bool(outcome.users) == (outcome.status is UpdateStatus.IN_USE)


@given(requests(), STORED, REFERENCES)
def test_nothing_that_stays_refers_to_what_goes(
    request: tuple[Actor, list[Desired]], stored: dict[Key, StoredState], references: References
) -> None:
    actor, wanted = request
    outcomes = planner.plan_deletes(wanted, stored, references=references, actor=actor)
    gone = {outcome.key for outcome in outcomes if outcome.change is Change.DELETE}
    assert all(set(references.get(key, ())) <= gone for key in gone if key is not None)
