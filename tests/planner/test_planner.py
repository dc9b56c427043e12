"""The planner's table of statuses: which one a resource gets, which wins when several hold, and what is done."""

import pytest
from msgspec.structs import replace

from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, StoredState
from reconciler.model.outcomes import UpdateStatus as Status
from reconciler.model.principals import Actor
from reconciler.model.violations import Place
from reconciler.planner import planner
from tests.planner.worlds import ADMIN, KEY, PLACE, TELEMETRY, TYPE, USER, VIEWER

SAME, DIFFERENT = b"same", b"different"
REASON = "a.yaml:3:5: /spec/type: is not a string"


def stored(owner: str | None, *, key: Key = KEY, place: Place | None = PLACE) -> StoredState:
    path, line = (None, None) if owner is None or place is None else (place.path, place.line)
    return StoredState(key=key, digest=SAME, version=4, owner=owner, path=path, line=line)


def wanted(
    digest: bytes = DIFFERENT,
    *,
    key: Key | None = KEY,
    reason: str | None = None,
    deprecated: bool = False,
    allowed: bool = True,
    place: Place | None = None,
) -> Desired:
    return Desired(key=key, digest=digest, reason=reason, deprecated=deprecated, allowed=allowed, place=place)


FREE, OWN, FOREIGN = stored(None), stored("telemetry"), stored("other")
FREE_TYPE = stored(None, key=TYPE)
BROKEN, OWN_BROKEN = replace(FREE, damaged=True), replace(OWN, damaged=True)
NONE = Change.NONE

PLANS = [
    # nothing is stored
    ("a new one", ADMIN, wanted(), None, Status.CREATED, Change.CREATE),
    ("a new one, by a user", USER, wanted(), None, Status.CREATED, Change.CREATE),
    ("a new one, from Git", TELEMETRY, wanted(place=PLACE), None, Status.CREATED, Change.CREATE),
    ("a new type", ADMIN, wanted(key=TYPE), None, Status.CREATED, Change.CREATE),
    ("a new one, deprecated", ADMIN, wanted(deprecated=True), None, Status.DEPRECATED, NONE),
    ("from Git, deprecated", TELEMETRY, wanted(deprecated=True, place=PLACE), None, Status.DEPRECATED, Change.CREATE),
    # the API's own is stored
    ("a different one", ADMIN, wanted(), FREE, Status.CONFIGURED, Change.UPDATE),
    ("a different one, by a user", USER, wanted(), FREE, Status.CONFIGURED, Change.UPDATE),
    ("an equal one", ADMIN, wanted(SAME), FREE, Status.UNCHANGED, NONE),
    ("an existing one, deprecated", ADMIN, wanted(deprecated=True), FREE, Status.CONFIGURED, Change.UPDATE),
    ("an equal one, deprecated", ADMIN, wanted(SAME, deprecated=True), FREE, Status.UNCHANGED, NONE),
    ("different, adopted", TELEMETRY, wanted(place=PLACE), FREE, Status.CONFIGURED, Change.UPDATE),
    ("equal, adopted", TELEMETRY, wanted(SAME, place=PLACE), FREE, Status.UNCHANGED, Change.REPLACE_HEAD),
    # a repository's own is stored
    ("its own, equal", TELEMETRY, wanted(SAME, place=PLACE), OWN, Status.UNCHANGED, NONE),
    ("its own, different", TELEMETRY, wanted(place=PLACE), OWN, Status.CONFIGURED, Change.UPDATE),
    ("another column", TELEMETRY, wanted(SAME, place=Place("a.yaml", 1, 9)), OWN, Status.UNCHANGED, NONE),
    (
        "another line",
        TELEMETRY,
        wanted(SAME, place=Place("a.yaml", 2, 1)),
        OWN,
        Status.UNCHANGED,
        Change.REPLACE_HEAD,
    ),
    (
        "another file",
        TELEMETRY,
        wanted(SAME, place=Place("b.yaml", 1, 1)),
        OWN,
        Status.UNCHANGED,
        Change.REPLACE_HEAD,
    ),
    # another owner's is stored
    ("Git's, by an admin", ADMIN, wanted(), OWN, Status.FORBIDDEN, NONE),
    ("Git's and equal, by an admin", ADMIN, wanted(SAME), OWN, Status.UNCHANGED, NONE),
    ("another repository's", TELEMETRY, wanted(place=PLACE), FOREIGN, Status.FORBIDDEN, NONE),
    ("another repository's, equal", TELEMETRY, wanted(SAME, place=PLACE), FOREIGN, Status.UNCHANGED, NONE),
    ("another's, deprecated", TELEMETRY, wanted(deprecated=True, place=PLACE), FOREIGN, Status.FORBIDDEN, NONE),
    # what is stored is damaged
    ("damaged and equal", ADMIN, wanted(SAME), BROKEN, Status.CONFIGURED, Change.UPDATE),
    ("damaged and equal, from Git", TELEMETRY, wanted(SAME, place=PLACE), OWN_BROKEN, Status.CONFIGURED, Change.UPDATE),
    ("Git's, damaged and equal, by an admin", ADMIN, wanted(SAME), OWN_BROKEN, Status.FORBIDDEN, NONE),
]

# What is stored is not looked at, so the outcome does not hold it.
REFUSALS = [
    # the role does not cover it, whatever else holds
    ("a type, by a user", USER, wanted(key=TYPE), None, Status.FORBIDDEN),
    ("an equal type, by a user", USER, wanted(SAME, key=TYPE), FREE_TYPE, Status.FORBIDDEN),
    ("an invalid type, by a user", USER, wanted(key=TYPE, reason=REASON), None, Status.FORBIDDEN),
    ("anything, by a viewer", VIEWER, wanted(), None, Status.FORBIDDEN),
    ("an equal one, by a viewer", VIEWER, wanted(SAME), FREE, Status.FORBIDDEN),
    ("an invalid one, by a viewer", VIEWER, wanted(reason=REASON, key=None), None, Status.FORBIDDEN),
    ("outside of what is allowed", TELEMETRY, wanted(allowed=False, place=PLACE), None, Status.FORBIDDEN),
    ("outside and invalid", TELEMETRY, wanted(allowed=False, reason=REASON), None, Status.FORBIDDEN),
    ("outside and equal", TELEMETRY, wanted(SAME, allowed=False, place=PLACE), FREE, Status.FORBIDDEN),
    # it breaks a rule, whatever is stored
    ("an invalid new one", ADMIN, wanted(reason=REASON), None, Status.INVALID),
    ("one without a key", USER, wanted(reason=REASON, key=None), None, Status.INVALID),
    ("an invalid one over a stored one", ADMIN, wanted(SAME, reason=REASON), FREE, Status.INVALID),
    ("an invalid one over Git's", ADMIN, wanted(reason=REASON), OWN, Status.INVALID),
    ("an invalid deprecated one", TELEMETRY, wanted(reason=REASON, deprecated=True), None, Status.INVALID),
]


@pytest.mark.parametrize(
    ("actor", "document", "present", "status", "change"), [case[1:] for case in PLANS], ids=[case[0] for case in PLANS]
)
def test_the_status_of_what_is_wanted(
    actor: Actor, document: Desired, present: StoredState | None, status: Status, change: Change
) -> None:
    [outcome] = planner.plan([document], {} if present is None else {present.key: present}, actor=actor)
    assert outcome == Outcome(key=document.key, status=status, change=change, ordinal=0, stored=present)


FAULT = "the DestinationType own is damaged in the store"


@pytest.mark.parametrize(
    ("actor", "document", "present", "status"),
    [
        (ADMIN, wanted(), None, Status.ERROR),
        (ADMIN, wanted(), FREE, Status.ERROR),
        (ADMIN, wanted(SAME), FREE, Status.ERROR),
        (ADMIN, wanted(SAME), OWN, Status.ERROR),
        (ADMIN, wanted(), OWN, Status.FORBIDDEN),
        (ADMIN, wanted(deprecated=True), None, Status.DEPRECATED),
        (TELEMETRY, wanted(deprecated=True, place=PLACE), None, Status.ERROR),
        (TELEMETRY, wanted(SAME, place=PLACE), FREE, Status.ERROR),
        (TELEMETRY, wanted(place=PLACE), FOREIGN, Status.FORBIDDEN),
    ],
)
def test_what_cannot_be_judged_is_an_error_unless_it_is_refused_anyway(
    actor: Actor, document: Desired, present: StoredState | None, status: Status
) -> None:
    world = {} if present is None else {present.key: present}
    [outcome] = planner.plan([replace(document, fault=FAULT)], world, actor=actor)
    reason = FAULT if status is Status.ERROR else None
    assert outcome == Outcome(key=KEY, status=status, ordinal=0, reason=reason, stored=present)


@pytest.mark.parametrize(
    ("actor", "document", "present", "status"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_the_status_of_what_is_refused_whatever_is_stored(
    actor: Actor, document: Desired, present: StoredState | None, status: Status
) -> None:
    [outcome] = planner.plan([document], {} if present is None else {present.key: present}, actor=actor)
    reason = document.reason if status is Status.INVALID else None
    assert outcome == Outcome(key=document.key, status=status, ordinal=0, reason=reason)


DELETES = [
    ("a stored one", ADMIN, KEY, FREE, Outcome(KEY, Status.DELETED, Change.DELETE, 0, stored=FREE)),
    ("a stored one, by a user", USER, KEY, FREE, Outcome(KEY, Status.DELETED, Change.DELETE, 0, stored=FREE)),
    ("a type", ADMIN, TYPE, FREE_TYPE, Outcome(TYPE, Status.DELETED, Change.DELETE, 0, stored=FREE_TYPE)),
    ("one that is not there", ADMIN, KEY, None, Outcome(KEY, Status.NOT_FOUND, NONE, 0)),
    ("Git's", ADMIN, KEY, OWN, Outcome(KEY, Status.FORBIDDEN, NONE, 0, stored=OWN)),
    ("a type, by a user", USER, TYPE, FREE_TYPE, Outcome(TYPE, Status.FORBIDDEN, NONE, 0)),
    ("a type that is not there, by a user", USER, TYPE, None, Outcome(TYPE, Status.FORBIDDEN, NONE, 0)),
    ("anything, by a viewer", VIEWER, KEY, None, Outcome(KEY, Status.FORBIDDEN, NONE, 0)),
    ("no key at all", ADMIN, None, None, Outcome(None, Status.INVALID, NONE, 0, reason=REASON)),
]


@pytest.mark.parametrize(
    ("actor", "key", "present", "expected"), [case[1:] for case in DELETES], ids=[case[0] for case in DELETES]
)
def test_the_status_of_what_is_to_go(
    actor: Actor, key: Key | None, present: StoredState | None, expected: Outcome
) -> None:
    reason = REASON if key is None else None
    document = Desired(key=key, reason=reason, deprecated=True)  # deprecated never keeps one from going
    present_by_key = {} if present is None else {present.key: present}
    assert planner.plan_deletes([document], present_by_key, references={}, actor=actor) == (expected,)


B, C = Key("Destination", "b"), Key("Destination", "c")
USED = {KEY: [B], B: [C]}  # C refers to B, which refers to KEY
STOCK = {key: stored(None, key=key) for key in (KEY, B, C)}


def going(*keys: Key) -> dict[Key, tuple[Status, Change, tuple[Key, ...]]]:
    """Return what becomes of a deletion of these keys."""
    wishes = [*(wanted(key=key) for key in keys)]
    outcomes = planner.plan_deletes(wishes, STOCK | {TYPE: FREE_TYPE}, references=USED, actor=ADMIN)
    assert [outcome.ordinal for outcome in outcomes] == list(range(len(keys)))
    return {outcome.key: (outcome.status, outcome.change, outcome.users) for outcome in outcomes if outcome.key}


GONE = (Status.DELETED, Change.DELETE, ())


def test_what_a_remaining_resource_refers_to_is_in_use() -> None:
    assert going(KEY, TYPE) == {KEY: (Status.IN_USE, NONE, (B,)), TYPE: GONE}


def test_what_is_deleted_together_uses_nothing_whatever_the_order() -> None:
    assert going(KEY, B, C) == going(C, B, KEY) == {KEY: GONE, B: GONE, C: GONE}


def test_what_is_in_use_keeps_what_it_refers_to() -> None:
    assert going(KEY, B) == {KEY: (Status.IN_USE, NONE, (B,)), B: (Status.IN_USE, NONE, (C,))}


def test_what_may_not_go_keeps_what_it_refers_to() -> None:
    present = {KEY: FREE, B: stored("telemetry", key=B)}
    wishes = [wanted(), wanted(key=B), wanted(key=C)]
    outcomes = planner.plan_deletes(wishes, present, references={KEY: {B}}, actor=ADMIN)
    assert outcomes == (
        Outcome(KEY, Status.IN_USE, NONE, 0, stored=FREE, users=(B,)),
        Outcome(B, Status.FORBIDDEN, NONE, 1, stored=present[B]),
        Outcome(C, Status.NOT_FOUND, NONE, 2),
    )


def test_duplicates_in_git_are_all_invalid_and_name_each_others_places() -> None:
    places = [Place("a.yaml", 1, 1), Place("b.yaml", 7, 3), Place("c.yaml", 2, 1)]
    other = wanted(key=Key("Destination", "b"), place=Place("d.yaml", 1, 1))
    documents = [*(wanted(SAME, place=place) for place in places), other]
    outcomes = planner.plan(documents, {KEY: OWN}, actor=TELEMETRY)
    given = "Destination a is given more than once, also at"
    assert [outcome.reason for outcome in outcomes] == [
        f"a.yaml:1:1: {given} b.yaml:7:3, c.yaml:2:1; keep one of them",
        f"b.yaml:7:3: {given} a.yaml:1:1, c.yaml:2:1; keep one of them",
        f"c.yaml:2:1: {given} a.yaml:1:1, b.yaml:7:3; keep one of them",
        None,
    ]
    assert [outcome.status for outcome in outcomes] == [Status.INVALID] * 3 + [Status.CREATED]
    assert [outcome.change for outcome in outcomes] == [Change.NONE] * 3 + [Change.CREATE]


def test_duplicates_in_a_request_name_each_others_items() -> None:
    documents = [wanted(), wanted(key=TYPE), wanted()]
    reasons = [outcome.reason for outcome in planner.plan(documents, {}, actor=ADMIN)]
    given = "Destination a is given more than once, also at"
    assert reasons == [f"{given} item 2; keep one of them", None, f"{given} item 0; keep one of them"]


def test_a_duplicate_tells_its_own_violations_too() -> None:
    documents = [wanted(reason=REASON, place=PLACE), wanted(place=Place("b.yaml", 1, 1))]
    [first, second] = planner.plan(documents, {}, actor=TELEMETRY)
    assert first.reason == f"{REASON}\na.yaml:1:1: Destination a is given more than once, also at b.yaml:1:1; " + (
        "keep one of them"
    )
    assert second.status is Status.INVALID


def test_the_same_name_of_two_kinds_is_no_duplicate() -> None:
    outcomes = planner.plan([wanted(), wanted(key=TYPE)], {}, actor=ADMIN)
    assert [outcome.status for outcome in outcomes] == [Status.CREATED] * 2


def test_a_name_deleted_twice_is_invalid_and_stays() -> None:
    outcomes = planner.plan_deletes([wanted(), wanted()], {KEY: FREE}, references={}, actor=ADMIN)
    assert [(outcome.status, outcome.change) for outcome in outcomes] == [(Status.INVALID, Change.NONE)] * 2


def test_ten_thousand_of_one_name_are_told_in_short() -> None:
    documents = [*[wanted()] * 10_000]
    reasons = [outcome.reason for outcome in planner.plan(documents, {}, actor=ADMIN)]
    given = "Destination a is given more than once, also at"
    assert reasons[0] == f"{given} item 1, item 2, item 3, item 4, item 5 and 9994 more; keep one of them"
    assert reasons[9_999] == f"{given} item 0, item 1, item 2, item 3, item 4 and 9994 more; keep one of them"


@pytest.mark.parametrize(("copies", "more"), [(2, ""), (6, ""), (7, " and 1 more")])
def test_up_to_five_other_places_are_named(copies: int, more: str) -> None:
    [first, *_] = planner.plan([*[wanted()] * copies], {}, actor=ADMIN)
    items = ", ".join(f"item {number}" for number in range(1, min(copies, 6)))
    assert first.reason == f"Destination a is given more than once, also at {items}{more}; keep one of them"


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("actor", [ADMIN, TELEMETRY], ids=["api", "git"])
def test_what_makes_an_atomic_change_store_nothing(status: Status, actor: Actor) -> None:
    tripping = {Status.INVALID, Status.ERROR, Status.IN_USE, Status.FORBIDDEN}
    tripping |= {Status.DEPRECATED} if actor is ADMIN else set()
    good = Outcome(key=KEY, status=Status.CREATED, change=Change.CREATE, ordinal=0)
    outcome = Outcome(key=KEY, status=status, ordinal=1)
    assert planner.refusals([good, outcome], actor=actor) == ((outcome,) if status in tripping else ())


def test_the_refusals_keep_the_order_of_the_request() -> None:
    documents = [wanted(reason=REASON, key=None), wanted(), wanted(key=Key("Destination", "b")), wanted(key=TYPE)]
    outcomes = planner.plan(documents, {KEY: FOREIGN}, actor=ADMIN)
    assert [outcome.ordinal for outcome in planner.refusals(outcomes, actor=ADMIN)] == [0, 1]
