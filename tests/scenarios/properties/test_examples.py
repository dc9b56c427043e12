"""Cases that the properties found, as small as it gets."""

import pytest

from tests import worlds
from tests.scenarios.properties import checks
from tests.scenarios.properties.documents import DEFINITIONS, PARAMETERS, Document, document, text
from tests.worlds import Following, World

FOLLOWING = {"a": Following(), "b": Following()}
FLEET = document("Fleet", "f", {})
DESTINATION = document("Destination", "d", {"type": "t", "parameters": PARAMETERS[4]})


def component_type(definitions: int) -> Document:
    return document("DestinationType", "t", {"parameters": DEFINITIONS[definitions]})


def configuration(*names: str) -> Document:
    return document("Configuration", "c", {"destinations": [{"name": name} for name in names]})


def push(world: World, repository: str, *found: Document) -> None:
    world.push(repository, {"a.yaml": text(found)})
    world.settle()


def owners(world: World) -> dict[str, str]:
    return {row["kind"]: row["owner"] for row in world.stored()}


def test_what_was_let_go_while_in_use_passes_on_when_another_head_holds_it_later() -> None:
    with worlds.world(FOLLOWING) as world:
        push(world, "a", component_type(6), DESTINATION, configuration("d"))
        push(world, "a", component_type(6), configuration("d"))
        push(world, "b", DESTINATION)
        assert owners(world) == {"Configuration": "a", "Destination": "b", "DestinationType": "a"}


def test_a_type_that_passes_on_and_changes_completes_what_the_same_commit_stores() -> None:
    with worlds.world(FOLLOWING) as world:
        push(world, "b", component_type(6), DESTINATION, configuration(), FLEET)
        push(world, "b", component_type(0), DESTINATION, configuration(), FLEET)
        push(world, "a", component_type(6), DESTINATION)
        push(world, "b", configuration("d"), FLEET)
        assert owners(world) == {"Configuration": "b", "Destination": "a", "DestinationType": "a", "Fleet": "b"}
        checks.consistent(world)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["straight", "reversed"])
def test_two_new_resources_with_the_same_id_are_both_invalid_in_either_order(order: slice) -> None:
    with worlds.world({}) as world:
        sent = [document("Fleet", name, {}, id="same") for name in ("one", "two")]
        assert world.apply(sent[order]).statuses == ["invalid", "invalid"]
