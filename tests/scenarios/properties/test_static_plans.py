"""A plan without a server says what one against a store that holds the base says, and reads few files for it."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings

from reconciler.git import merging
from reconciler.model.plan import PlanEntry
from reconciler.review import static
from reconciler.review.static import EntrySettings, StaticOptions
from tests import worlds
from tests.scenarios.properties.profiles import profiles
from tests.scenarios.properties.test_plans import Tree, proposals, texts
from tests.worlds import API_VERSIONS, UNBOUNDED, Following, World

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FEW, WHOLE = StaticOptions(strict=True), StaticOptions(strict=True, whole=True)
ENTRY = EntrySettings(name="a", prune_min_count=UNBOUNDED)  # the budget has tests of its own
GOING = {"deleted", "in-use"}


@profiles
def test_few_files_say_what_all_files_say(profile: settings) -> None:
    profile(few_and_all)()


@given(proposal=proposals())
def few_and_all(proposal: tuple[Tree, Tree, Tree]) -> None:
    with worlds.world({"a": Following()}) as world:
        base, head = _propose(world, proposal)
        few, every = (_static(world, base, head, options) for options in (FEW, WHOLE))
        # What was so before is told as far as it stands in files that were read.
        fewer, all_ = ({_shown(one) for one in entry.statuses if not one.existing} for entry in (few, every))
        assert fewer >= all_
        # That nothing goes, since a file cannot be read or none holds anything, only reading all of them shows.
        guarded = GOING if every.notes else set()
        assert {status for _, _, status, _ in fewer - all_} <= guarded


@profiles
def test_it_says_what_a_server_that_holds_the_base_says(profile: settings) -> None:
    profile(static_and_live)()


@given(proposal=proposals())
def static_and_live(proposal: tuple[Tree, Tree, Tree]) -> None:
    with worlds.world({"a": Following()}) as world:
        base, head = _propose(world, proposal)
        world.settle()
        found, live = _static(world, base, head, WHOLE), world.review("a", head)
        assert {_shown(one) for one in found.statuses} == {_shown(one) for one in live.statuses}


def _propose(world: World, proposal: tuple[Tree, Tree, Tree]) -> tuple[str, str]:
    """The base as it is now, and the head, which was made before the base moved."""
    before, moved, proposed = proposal
    ancestor = world.push("a", texts(before))
    head = world.mirrors["a"].propose(texts(proposed), onto=ancestor)
    return world.push("a", texts(moved)), head


def _static(world: World, base: str, head: str, options: StaticOptions) -> PlanEntry:
    with merging.open_mirrors(world.mirrors["a"].path, None) as repository:
        merged = merging.merge(repository, base, head)
        [entry] = static.plan_static(merged, [ENTRY], api_versions=API_VERSIONS, now=NOW, options=options)
    return entry


def _shown(one: Any) -> tuple[str | None, str | None, str, str | None]:
    return one.kind, one.name, one.status.value, one.reason
