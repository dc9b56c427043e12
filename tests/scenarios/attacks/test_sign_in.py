"""The attack table of sign-in: every attempt gets its answer, and lets nobody in."""

import json
from collections.abc import Iterator

import pytest

from tests.api.pages import documents, worlds
from tests.api.pages.browsers import Seen
from tests.api.pages.worlds import World
from tests.canaries import MARKER
from tests.scenarios.attacks.sign_in import ATTACKS, Attack

WANTED = 30  # rows


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with worlds.standing(tmp_path_factory.mktemp("sign-in")) as standing:
        for subject, role in (("member", "user"), ("an-admin", "admin"), ("known", "viewer"), ("guest", "viewer")):
            standing.member(subject, role=role)
        yield standing


def told(seen: Seen) -> str:
    """Return what the attacker reads."""
    if seen.status == 303:
        return f"303 {seen.location}"
    if seen.header("content-type").startswith("text/html"):
        return f"{seen.status} {seen.page.text}"
    return f"{seen.status} {' '.join(json.loads(seen.body)['errors']) if seen.body else ''}"


def everything(world: World) -> object:
    """Return who there is, and what opens something."""
    people = [{**one, "email": None, "displayName": None} for one in world.people()]
    return people, world.daemon.get("/v1/projects").body, world.daemon.get("/v1/api-keys").body


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_gets_its_answer_and_lets_nobody_in(attack: Attack, world: World) -> None:
    before = everything(world)
    seen = attack.attempt(world)
    found = told(seen)
    assert found == attack.answer if seen.status == 303 else found.startswith(attack.answer), found
    assert MARKER not in found
    assert all(not cookie.startswith(("reconciler=", "__Host-reconciler=")) for cookie in seen.cookies) or found == (
        "303 /"
    )
    if seen.header("content-type").startswith("text/html"):
        assert documents.faults(seen.body) == []
    assert everything(world) == before


def test_the_service_is_whole_after_all_of_them(world: World) -> None:
    assert world.daemon.process.poll() is None
    assert MARKER not in world.daemon.output()
    assert "Traceback" not in world.daemon.output()


def test_every_row_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)
    assert len(names) >= WANTED
