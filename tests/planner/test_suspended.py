"""Resources of a suspended repository: an admin may write it for now, nobody else; its owner mends what has drifted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import BUILT_IN, Change, StoredState
from reconciler.model.outcomes import UpdateStatus as Status
from reconciler.model.principals import Actor
from reconciler.model.violations import Place
from reconciler.planner import planner
from tests.planner.worlds import ADMIN, KEY, OTHER, PLACE, TELEMETRY, USER, VIEWER

SAME, DIFFERENT = b"same", b"different"
OWN = StoredState(key=KEY, digest=SAME, version=4, owner="telemetry", path=PLACE.path, line=PLACE.line)
SUSPENDED = frozenset({"telemetry"})
REASON = "/spec: bad"


@pytest.mark.parametrize(
    ("actor", "suspended", "status", "change"),
    [
        (ADMIN, SUSPENDED, Status.CONFIGURED, Change.UPDATE),
        (ADMIN, frozenset({"other"}), Status.FORBIDDEN, Change.NONE),
        (ADMIN, frozenset(), Status.FORBIDDEN, Change.NONE),
        (USER, SUSPENDED, Status.FORBIDDEN, Change.NONE),
        (OTHER, SUSPENDED, Status.FORBIDDEN, Change.NONE),
    ],
)
def test_an_admin_alone_changes_it(actor: Actor, suspended: frozenset[str], status: Status, change: Change) -> None:
    place = PLACE if actor.repository else None
    document = Desired(key=KEY, digest=DIFFERENT, place=place)
    [outcome] = planner.plan([document], {KEY: OWN}, actor=actor, suspended=suspended)
    assert (outcome.status, outcome.change, outcome.stored) == (status, change, OWN)


@pytest.mark.parametrize(
    ("actor", "suspended", "status", "change"),
    [
        (ADMIN, SUSPENDED, Status.DELETED, Change.DELETE),
        (ADMIN, frozenset({"other"}), Status.FORBIDDEN, Change.NONE),
        (USER, SUSPENDED, Status.FORBIDDEN, Change.NONE),
    ],
)
def test_an_admin_alone_deletes_it(actor: Actor, suspended: frozenset[str], status: Status, change: Change) -> None:
    document = Desired(key=KEY)
    [outcome] = planner.plan_deletes([document], {KEY: OWN}, references={}, actor=actor, suspended=suspended)
    assert (outcome.status, outcome.change) == (status, change)


def test_it_stays_when_something_refers_to_it() -> None:
    user = KEY._replace(kind="Configuration")
    document = Desired(key=KEY)
    references = {KEY: {user}}
    [outcome] = planner.plan_deletes([document], {KEY: OWN}, references=references, actor=ADMIN, suspended=SUSPENDED)
    assert (outcome.status, outcome.change, outcome.users) == (Status.IN_USE, Change.NONE, (user,))


@pytest.mark.parametrize(
    ("actor", "document", "status"),
    [
        (ADMIN, Desired(key=KEY, digest=SAME), Status.UNCHANGED),
        (ADMIN, Desired(key=KEY, digest=DIFFERENT, reason=REASON), Status.INVALID),
        (VIEWER, Desired(key=KEY, digest=DIFFERENT), Status.FORBIDDEN),
    ],
)
def test_all_else_about_a_call_stays_as_it_is(actor: Actor, document: Desired, status: Status) -> None:
    [outcome] = planner.plan([document], {KEY: OWN}, actor=actor, suspended=SUSPENDED)
    assert (outcome.status, outcome.change) == (status, Change.NONE)


def test_what_is_built_in_is_nobodys_to_change() -> None:
    built_in = replace(OWN, owner=BUILT_IN, path=None, line=None)
    document = Desired(key=KEY, digest=DIFFERENT)
    [outcome] = planner.plan([document], {KEY: built_in}, actor=ADMIN, suspended=SUSPENDED)
    assert outcome.status is Status.FORBIDDEN


@pytest.mark.parametrize(
    ("actor", "digest", "place", "status", "change"),
    [
        (TELEMETRY, DIFFERENT, PLACE, Status.CONFIGURED, Change.UPDATE),
        (TELEMETRY, SAME, PLACE, Status.UNCHANGED, Change.REPLACE_HEAD),
        (TELEMETRY, SAME, Place("b.yaml", 1, 1), Status.UNCHANGED, Change.REPLACE_HEAD),
        (OTHER, SAME, PLACE, Status.UNCHANGED, Change.NONE),
        (ADMIN, SAME, None, Status.UNCHANGED, Change.NONE),
    ],
)
def test_its_owner_mends_what_has_drifted_and_takes_over_what_is_equal(
    actor: Actor, digest: bytes, place: Place | None, status: Status, change: Change
) -> None:
    drifted = replace(OWN, drifted=True)
    document = Desired(key=KEY, digest=digest, place=place)
    [outcome] = planner.plan([document], {KEY: drifted}, actor=actor)
    assert (outcome.status, outcome.change) == (status, change)


DIGESTS = st.sampled_from([b"1", b"2", b"3"])
HEADS = st.dictionaries(st.builds(Key, st.just("Destination"), st.sampled_from("abcd")), DIGESTS)


@given(HEADS, st.lists(st.tuples(st.sampled_from("abcd"), st.none() | DIGESTS), max_size=8), HEADS)
def test_whatever_an_admin_does_the_resume_leaves_what_the_head_says(
    before: dict[Key, bytes], night: list[tuple[str, bytes | None]], head: dict[Key, bytes]
) -> None:
    stored = {key: replace(OWN, key=key, digest=digest) for key, digest in before.items()}
    for name, digest in night:
        _write(stored, Key("Destination", name), digest)
    wanted = [Desired(key, digest=digest, place=PLACE) for key, digest in sorted(head.items())]
    for document, outcome in zip(wanted, planner.plan(wanted, stored, actor=TELEMETRY), strict=True):
        assert outcome.key is not None
        present = stored.get(outcome.key)
        mended = outcome.change is not Change.NONE
        is_right = present is not None and (present.owner, present.digest) == ("telemetry", document.digest)
        assert mended != (is_right and present is not None and not present.drifted)
        assert (outcome.status is Status.UNCHANGED) == (present is not None and present.digest == document.digest)


def _write(stored: dict[Key, StoredState], key: Key, digest: bytes | None) -> None:
    """Carry out what an admin applies, or deletes when there is no digest."""
    document = Desired(key=key, digest=digest or b"")
    if digest is None:
        [outcome] = planner.plan_deletes([document], stored, references={}, actor=ADMIN, suspended=SUSPENDED)
    else:
        [outcome] = planner.plan([document], stored, actor=ADMIN, suspended=SUSPENDED)
    assert outcome.status in (Status.CREATED, Status.CONFIGURED, Status.UNCHANGED, Status.DELETED, Status.NOT_FOUND)
    if outcome.change is Change.DELETE:
        del stored[key]
    elif outcome.change is Change.CREATE:
        stored[key] = StoredState(key=key, digest=document.digest, version=1, owner=None)
    elif outcome.change is Change.UPDATE:
        owner = stored[key].owner
        stored[key] = replace(stored[key], digest=document.digest, drifted=owner is not None)
