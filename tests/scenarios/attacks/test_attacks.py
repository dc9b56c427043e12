"""The attack table: every attempt gets its answer, and leaves everything as it was."""

from collections.abc import Iterator

import pytest

from tests.canaries import MARKER
from tests.scenarios.attacks import scene as scenes
from tests.scenarios.attacks.rows import ATTACKS
from tests.scenarios.attacks.scene import Scene
from tests.scenarios.attacks.table import Attack

WANTED = 40  # rows


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scenes.standing(tmp_path_factory.mktemp("scene")) as standing:
        yield standing


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_gets_its_answer_and_changes_nothing(attack: Attack, scene: Scene) -> None:
    before = scene.stored()
    found = attack.attempt(scene)
    assert attack.is_answered_by(found), found
    assert MARKER not in found
    assert found.replace("\n", "").isprintable()
    assert scene.stored() == before
    assert scene.executed() == []


def test_the_service_is_whole_after_all_of_them(scene: Scene) -> None:
    assert scene.daemon.process.poll() is None
    assert scene.daemon.get("/readyz").status == 200
    assert MARKER not in scene.daemon.output()
    assert "Traceback" not in scene.daemon.output()


def test_every_row_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)
    assert len(names) >= WANTED
