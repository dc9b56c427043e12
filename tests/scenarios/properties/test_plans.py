"""A plan says what the reconcile after the merge does: the same statuses, for the same reasons."""

from collections.abc import Mapping
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import PlanEntry, PlanStatus
from tests import worlds
from tests.scenarios.properties import documents
from tests.scenarios.properties.documents import BASE, Content
from tests.scenarios.properties.profiles import profiles
from tests.worlds import Following, Ran, World

Tree = Mapping[str, Content]

FOLLOWING = st.builds(Following, accept_invalid=st.booleans(), atomic=st.booleans())
BASE_FILES = list(BASE.items())


@st.composite
def proposals(draw: st.DrawFn) -> tuple[Tree, Tree, Tree]:
    """A base, the base as it moved on, and a head: the two change different files."""
    base: dict[str, Content] = dict(draw(st.lists(st.sampled_from(BASE_FILES), unique_by=lambda file: file[0])))
    base.update(draw(changes(documents.FILES)))
    return base, draw(changed(base, documents.FILES[:2])), draw(changed(base, documents.FILES[2:]))


def changes(files: list[str]) -> st.SearchStrategy[dict[str, Content]]:
    """New content of some of these files."""
    return st.dictionaries(st.sampled_from(files), st.lists(documents.DOCUMENTS, max_size=3), max_size=2)


@st.composite
def changed(draw: st.DrawFn, tree: Tree, files: list[str]) -> Tree:
    """The tree with other content in some of the files, or without them."""
    gone = draw(st.lists(st.sampled_from(files), max_size=1))
    return {path: content for path, content in tree.items() if path not in gone} | draw(changes(files))


@profiles
def test_a_plan_says_what_the_reconcile_after_the_merge_does(profile: settings) -> None:
    profile(planned_and_merged)()


@given(
    proposal=proposals(),
    api=st.lists(documents.DOCUMENTS, max_size=3),
    following=FOLLOWING,
    is_read=st.booleans(),
)
def planned_and_merged(proposal: tuple[Tree, Tree, Tree], api: list[Any], following: Following, is_read: bool) -> None:
    base, moved, proposed = proposal
    merged = {path: moved[path] for path in moved if base.get(path) == proposed.get(path)}
    merged |= {path: content for path, content in proposed.items() if base.get(path) != content}
    with worlds.world({"a": following}) as world:
        world.apply(api)
        ancestor = world.push("a", texts(base))
        if is_read:
            world.settle()
        world.push("a", texts(moved))
        world.settle()
        head = world.mirrors["a"].propose(texts(proposed), onto=ancestor)
        planned = world.review("a", head)
        unchanged = world.revision
        ran = _after_the_merge(world, merged)
        assume(ran is not None)
        assert unchanged <= world.revision
        # What the base does not hold may be a guess at a stored secret, which counts as changed: nobody learns more.
        guesses = {_told(one) for one in planned.statuses if _is_guess(one, moved)}
        assert [one for one in _planned(planned) if one not in guesses] == [
            one for one in _ran(ran) if one not in guesses
        ]


def _after_the_merge(world: World, merged: Tree) -> Ran | None:
    world.push("a", texts(merged))
    return world.look("a")


def texts(tree: Tree) -> dict[str, str]:
    """The files of a tree."""
    return {path: documents.text(content) for path, content in tree.items()}


def _told(one: PlanStatus) -> tuple[Any, ...]:
    return one.kind, one.name, one.status.value, one.reason


def _is_guess(one: PlanStatus, base: Tree) -> bool:
    held = {
        (document["kind"], document["metadata"].get("name"))
        for content in base.values()
        if not isinstance(content, str)
        for document in content
    }
    is_secret = bool(one.fields) and all(field.sensitive for field in one.fields)
    return one.status is UpdateStatus.CONFIGURED and is_secret and (one.kind, one.name) not in held


def _planned(entry: PlanEntry) -> list[tuple[Any, ...]]:
    """Return the statuses of a plan. A held deletion is one there; a run has no status for what stays."""
    return sorted((_told(one) for one in entry.statuses if not one.held), key=repr)


def _ran(ran: Ran | None) -> list[tuple[Any, ...]]:
    assert ran is not None
    return sorted(((one.kind, one.name, one.status, one.reason) for one in ran.told), key=repr)
