"""Attacks on a sign-in, by a provider or on the way from one, are refused with one sentence."""

import logging
import traceback

import pytest

from reconciler.model.errors import ReconcilerError
from tests import canaries
from tests.auth.oidc import attacks
from tests.auth.oidc.attacks import Attack
from tests.auth.oidc.scene import Scene, scene

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("attack", attacks.ALL, ids=lambda attack: attack.name)
async def test_is_refused_in_one_sentence_without_a_secret(attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with scene() as made:
        attack.prepare(made.provider)
        with pytest.raises(ReconcilerError) as caught:
            await _tried(made, attack)
        sentence = attack.sentence.format(issuer=made.provider.issuer, origin=made.provider.origin)
    assert (type(caught.value), caught.value.message) == (attack.refused, sentence)
    assert canaries.leaks("".join(traceback.format_exception_only(caught.value)).encode()) == []
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


async def _tried(made: Scene, attack: Attack) -> None:
    flow = made.flow()
    await made.service.proved(*attack.tamper(await made.visit(flow), flow))


def test_each_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in attacks.ALL]
    assert len(names) >= 40
    assert len(set(names)) == len(names)
