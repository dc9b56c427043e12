"""What others store while a plan is made: unless it meets the plan's footprint, the plan is what it would be then."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from reconciler.store.contract import Moved
from reconciler.worker.messages import CommitPlanned, RequestPlanned, Verb
from tests import worlds
from tests.scenarios.properties import documents
from tests.scenarios.properties.documents import Content, Document
from tests.scenarios.properties.profiles import profiles
from tests.worlds import Answered, Following, Options, Ran, World

ELSEWHERE = {"d1": "d8", "d2": "d9", "p1": "p8", "p2": "p9", "c1": "c8", "c2": "c9", "f1": "f8", "e1": "e8", "tb": "t8"}
# Plans of each sort that outlive what is stored meanwhile, and that do not, in the fewest examples.
OFTEN = {
    "Commit outlives": 10,
    "Commit is made again": 10,
    "Commit outlives a push": 3,
    "Commit is made again behind a push": 5,
    "Request outlives": 2,
    "Request is made again": 10,
    "Request outlives a push": 1,
    "Request is made again behind a push": 3,
    "written ahead, outlives": 3,
    "behind a push ahead, is made again": 3,
}

TABLES = (
    "select * from resource order by project, kind, name",
    "select * from version order by project, kind, name, version",
    "select * from reference order by project, kind, name, target_kind, target_name",
    "select * from audit order by at, actor, action, kind, name, version_after, detail",
    "select * from source_file order by repository, path",
    "select * from wanted order by repository, path, position",
    "select * from held order by repository, kind, name",
    "select * from run_status order by run, ordinal",
    "select * from repository order by name",
)

NUMBERS = frozenset({"id", "version_id"})  # of rows, in the order in which they were written

outlived: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class Write:
    """What somebody applies and deletes through the API, and how."""

    applied: Sequence[Document]
    deleted: Sequence[Document]
    options: Options


@dataclass(frozen=True, slots=True)
class Push:
    """What somebody pushes to another repository than that of the plan, which is looked at."""

    edit: Mapping[str, Content | None]


@dataclass(frozen=True, slots=True)
class Commit:
    """A look at a repository's head."""

    repository: str
    full: bool


@dataclass(frozen=True, slots=True)
class Request:
    """An apply or a delete."""

    verb: Verb
    body: Any
    options: Options


def elsewhere(one: Document) -> Document:
    """The same document under a name that no repository holds; what it refers to is the same."""
    name = one["metadata"].get("name")
    return one | {"metadata": one["metadata"] | {"name": ELSEWHERE.get(name, name)}}


def edited_elsewhere(edit: Mapping[str, Content | None]) -> Mapping[str, Content | None]:
    """The same for all documents of an edit."""
    return {
        path: content if content is None or isinstance(content, str) else [elsewhere(one) for one in content]
        for path, content in edit.items()
    }


# Types that repositories use and do not hold: through them, requests say something else of what repositories own.
FIRST = st.one_of(
    documents.FIRST,
    st.just(
        {
            documents.API: {"a.yaml": documents.BASE["a.yaml"]},
            "a": {path: content for path, content in documents.BASE.items() if path != "a.yaml"},
        }
    ),
)
# Half of what is written meanwhile stands beside what the repositories hold, and refers to the same.
SENT = st.one_of(documents.SENT.map(elsewhere), documents.SENT, documents.types())
KEYS = st.one_of(documents.KEYS.map(elsewhere), documents.KEYS)
# What is written ahead, trial by trial: the plan's own change, before others are quicker, or what is pushed.
AHEAD: Sequence[type[Commit | Push] | None] = (Commit, None, Commit, None, Commit, Push)
ADMIN = Options(accept_invalid=True)
OPTIONS = st.sampled_from([ADMIN, ADMIN, Options(), Options(role="user")])
WRITE = st.builds(Write, st.lists(SENT, min_size=1, max_size=3), st.lists(KEYS, max_size=1), OPTIONS)
PUSH = st.builds(Push, documents.EDITS.map(edited_elsewhere) | documents.EDITS)
WRITES: st.SearchStrategy[Sequence[Write | Push]] = st.one_of(
    st.lists(WRITE, min_size=1, max_size=3), st.lists(PUSH, min_size=1, max_size=2)
)
PLANS: st.SearchStrategy[Commit | Request] = st.one_of(
    st.builds(Commit, st.sampled_from(["a", "b"]), st.booleans()),
    st.builds(Commit, st.sampled_from(["a", "b"]), st.booleans()),
    st.builds(
        Request,
        st.just(Verb.APPLY),
        st.lists(SENT, min_size=1, max_size=3).map(lambda found: {"resources": found}),
        OPTIONS,
    ),
    st.builds(Request, st.just(Verb.DELETE), st.lists(KEYS, min_size=1, max_size=2), st.just(ADMIN)),
)


@profiles
def test_a_plan_that_nothing_meets_is_what_it_would_be_now(profile: settings) -> None:
    profile = settings(profile, max_examples=max(profile.max_examples, 20))  # fewer do not show every way
    outlived.clear()
    profile(overtaken)()
    assert all(outlived[told] >= often for told, often in OFTEN.items()), outlived


@given(
    first=FIRST,
    following=st.builds(Following, accept_invalid=st.booleans(), atomic=st.sampled_from([False, False, True])),
    before=st.lists(SENT, max_size=3),
    edits=st.lists(st.tuples(st.sampled_from(["a", "b"]), documents.EDITS), min_size=1, max_size=3),
    trials=st.lists(st.tuples(PLANS, WRITES), min_size=6, max_size=10),
)
def overtaken(
    first: Mapping[str, Mapping[str, Content]],
    following: Following,
    before: Sequence[Document],
    edits: Sequence[tuple[str, Mapping[str, Content | None]]],
    trials: Sequence[tuple[Commit | Request, Sequence[Write | Push]]],
) -> None:
    """Plans are made, and stored after others have written."""
    with worlds.world({"a": following, "b": Following()}) as world:
        trees: dict[str, dict[str, Content]] = {name: dict(first.get(name, {})) for name in ("a", "b")}
        for content in first.get(documents.API, {}).values():
            world.apply(content, ADMIN)
        for name, tree in trees.items():
            _push(world, name, tree)
        world.settle()
        world.apply(before, ADMIN)
        for name, edit in edits:
            edited = {**trees[name], **edit}
            trees[name] = {path: content for path, content in edited.items() if content is not None}
            _push(world, name, trees[name])
        for at, (plan, writes) in enumerate(trials):
            with world.fork() as late:
                _overtake(late, plan, writes, trees, ahead=AHEAD[at % len(AHEAD)])


def _push(world: World, name: str, tree: Mapping[str, Content]) -> None:
    world.push(name, {path: documents.text(content) for path, content in tree.items()})


def _overtake(
    late: World,
    plan: Commit | Request,
    writes: Sequence[Write | Push],
    trees: Mapping[str, Mapping[str, Content]],
    *,
    ahead: type[Commit | Push] | None,
) -> None:
    late.number += 1  # a run, and ids, of its own
    made = _plan(late, plan)
    staged = late.written_ahead(made) if isinstance(made, Ran) and ahead is Commit else None
    other = "a" if isinstance(plan, Commit) and plan.repository == "b" else "b"
    at, number = late.now, late.number
    for write in writes:
        if isinstance(write, Write):
            late.apply(write.applied, write.options)
            late.delete(write.deleted, write.options)
        else:
            tree = {**trees[other], **write.edit}
            _push(late, other, {path: content for path, content in tree.items() if content is not None})
            late.look(other, is_ahead=ahead is Push)
    late.now, late.number = at, number
    told = "a push" if any(isinstance(write, Push) for write in writes) else ""
    with _outlived(late, made.planned, type(plan).__name__, told) as later:
        is_ahead = staged is not None and staged.number is not None
        outlived["written ahead, outlives"] += int(is_ahead and later is not None)
        outlived["behind a push ahead, is made again"] += int(ahead is Push and told != "" and later is None)
        if later is None:
            return
        again = _plan(later, plan)
        assert _same(again.planned) == _same(made.planned)
        assert again.parts == made.parts
        if isinstance(plan, Commit) and isinstance(made, Ran) and isinstance(again, Ran):
            later.record(plan.repository, again)
            try:
                late.record(plan.repository, made, ahead=staged)
            except Moved:
                # What is written ahead may hold what a commit masks, so masking makes all of it void.
                assert is_ahead
                assert late.masked
                return
            assert _dump(late) == _dump(later)


@contextlib.contextmanager
def _outlived(late: World, planned: CommitPlanned | RequestPlanned, what: str, how: str) -> Iterator[World | None]:
    """The world in which others have written; None when they wrote nothing, or met the plan."""
    if late.revision == planned.revision:
        yield None
        return
    holds = late.recent.holds(planned.footprint, planned_at=planned.revision, revision=late.revision)
    told = f"{what} outlives" if holds else f"{what} is made again"
    told += how and f" {how}" if holds else how and f" behind {how}"
    event(told)
    outlived[told] += 1
    if not holds:
        yield None
        return
    with late.fork() as later:
        yield later


def _plan(world: World, plan: Commit | Request) -> Ran | Answered:
    if isinstance(plan, Commit):
        return world.plan(plan.repository, full=plan.full)
    return world.request(plan.verb, plan.body, plan.options)


def _same(planned: CommitPlanned | RequestPlanned) -> CommitPlanned | RequestPlanned:
    return msgspec.structs.replace(planned, revision=0)


def _dump(world: World) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """All that anybody can read."""
    found = {statement: world.all(statement) for statement in TABLES}
    return {
        statement: [{column: held for column, held in row.items() if column not in NUMBERS} for row in rows]
        for statement, rows in found.items()
    }
