"""Writes between the reading of a commit and the lock of its project."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from reconciler.worker import commits
from tests.projects import NEEDED, OPTIONAL, Resource, configuration, destination, labelled, resource, type_of
from tests.worlds import Options, Ran, World

ACCEPTING = Options(accept_invalid=True)


@dataclass(frozen=True, slots=True)
class Case:
    """`before` is in the store, `applied` in the repository's last commit, `head` in its next one, while somebody
    writes.
    """

    head: tuple[Resource, ...]
    meanwhile: Callable[[World], Any]
    before: tuple[Resource, ...] = ()
    applied: tuple[Resource, ...] = ()


def apply(*resources: Resource) -> Callable[[World], Any]:
    return lambda world: world.apply(resources, ACCEPTING)


def delete(*resources: Resource) -> Callable[[World], Any]:
    return lambda world: world.delete(resources)


def bring(*resources: Resource) -> Callable[[World], Any]:
    """Another repository does."""

    def pushed(world: World) -> Ran | None:
        push(world, *resources, repository="b", beside="b-always")
        return world.look("b")

    return pushed


own, strict = type_of("own", OPTIONAL), type_of("own", OPTIONAL, NEEDED)
one, two = destination("one"), destination("two")

CASES = {
    "what it creates is created": Case((one,), apply(destination("one", optional=1)), before=(own,)),
    "what it creates is created as it is": Case((one,), apply(one), before=(own,)),
    "what it creates another repository brings": Case((one,), bring(one), before=(own,)),
    "what it lacks another repository brings": Case((one,), bring(own)),
    "another repository refers to what is to go": Case(
        (two,), bring(configuration("all", "one")), before=(own,), applied=(one, two)
    ),
    "what it adopts is changed": Case((one,), apply(destination("one", optional=1)), before=(own, one)),
    "what it adopts goes": Case((one,), delete(one), before=(own, one)),
    "what it refers to goes": Case((one,), delete(own), before=(own,)),
    "what it lacks comes": Case((one,), apply(own)),
    "what it refers to says something else": Case((one,), apply(strict), before=(own,)),
    "what it names becomes incomplete": Case((configuration("all", "two"),), apply(strict), before=(own, two)),
    "its id is taken": Case((labelled(one, id="mine"),), apply(labelled(two, id="mine")), before=(own,)),
    "its id becomes free": Case((labelled(one, id="mine"),), delete(two), before=(own, labelled(two, id="mine"))),
    "somebody refers to what is to go": Case(
        (two,), apply(configuration("all", "one")), before=(own,), applied=(one, two)
    ),
    "somebody uses the type that it changes": Case((strict,), apply(two), applied=(own,)),
    "what it owns becomes incomplete": Case((one, two), apply(strict), before=(own,), applied=(one,)),
    "what it changes becomes incomplete": Case(
        (destination("one", optional=1),), apply(strict), before=(own,), applied=(one,)
    ),
    "others come": Case((one,), apply(two), before=(own,)),
    "another repository brings others": Case((one,), bring(two), before=(own,)),
    "others are changed": Case((one,), apply(destination("two", optional=1)), before=(own, two)),
    "others go": Case((one,), delete(two), before=(own, two)),
    "others use the type that it uses": Case((one, own), apply(destination("two", "otlp")), applied=(own,)),
    "another type comes": Case((one,), apply(type_of("other", NEEDED)), before=(own,)),
    "another refers to what it refers to": Case(
        (configuration("all", "two"),), apply(configuration("more", "two")), before=(own, two)
    ),
    "another has an id of its own": Case((labelled(one, id="mine"),), apply(labelled(two, id="yours")), before=(own,)),
    "others go while something is to go": Case(
        (one,), delete(resource("Fleet", "f")), before=(own, resource("Fleet", "f")), applied=(one, two)
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("full", [True, False], ids=["full", "changed"])
def test_a_commit_that_was_read_before_a_write_is_planned_as_if_it_was_read_after_it(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch, *, full: bool
) -> None:
    # Which commit changed a file is looked up before the lock; of what could not be stored then, it is found later.
    monkeypatch.setattr(commits, "lineage_of_run", lambda *_, **__: {})
    case = CASES[name]
    if case.before:
        assert set(world.apply(case.before, ACCEPTING).statuses) == {"created"}
    push(world, *case.applied)
    world.look("a")
    push(world, *case.head)
    at, number = world.now, world.number
    with world.read("a", full=full) as finish:
        case.meanwhile(world)
        planned = finish()
    world.now, world.number = at, number
    again = world.plan("a", full=full)
    assert (planned.planned, planned.parts) == (again.planned, again.parts)


def push(world: World, *found: Resource, repository: str = "a", beside: str = "always") -> None:
    """A head with these documents, each in a file of its own."""
    other = resource("Fleet", beside)
    world.push(
        repository, {f"{one['kind']}-{one['metadata']['name']}.yaml": json.dumps(one) for one in (other, *found)}
    )
