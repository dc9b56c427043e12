"""Keys that change at the provider are found without a restart, and nobody can make us ask without end."""

import asyncio

import pytest

from reconciler.auth.oidc.provider import NotProved, ProviderUnreachable
from tests.auth.oidc import hostile
from tests.auth.oidc.scene import scene

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("same_ids", [False, True], ids=["new names", "the same names"])
async def test_new_keys_are_taken_at_once(same_ids: bool) -> None:
    async with scene() as made:
        await made.sign_in()
        made.provider.rotate(same_ids=same_ids)
        await made.sign_in()
        await made.sign_in()
    assert made.provider.counted("keys") == 2


async def test_new_keys_without_names_are_taken_at_once() -> None:
    async with scene() as made:
        made.behaviour.header = {"kid": hostile.GONE}
        await made.sign_in()
        made.provider.rotate()
        await made.sign_in()
    assert made.provider.counted("keys") == 2


async def test_old_keys_count_no_more() -> None:
    async with scene() as made:
        old = made.provider.key()
        await made.sign_in()
        made.provider.rotate()
        await made.sign_in()
        made.behaviour.write = lambda header, claims: hostile.signed({**header, "kid": old.kid}, claims, old)
        with pytest.raises(NotProved, match="is not signed with a key of the provider's"):
            await made.sign_in()


async def test_unknown_keys_have_the_set_asked_for_once_in_ten_seconds() -> None:
    async with scene() as made:
        await made.sign_in()
        own = hostile.fresh_key("RS256", -1)
        for turn in range(5):
            name = f"canary-{turn}"
            made.behaviour.write = lambda header, claims, name=name: hostile.signed(
                {**header, "kid": name}, claims, own
            )
            with pytest.raises(NotProved):
                await made.sign_in()
        assert made.provider.counted("keys") == 2
        made.wait(10)
        with pytest.raises(NotProved):
            await made.sign_in()
        assert made.provider.counted("keys") == 3
        made.behaviour.write = None
        await made.sign_in()


async def test_a_set_that_cannot_be_asked_for_proves_nobody_with_a_new_key() -> None:
    async with scene() as made:
        await made.sign_in()
        made.provider.rotate()
        made.behaviour.answers = {"keys": hostile.failing()}
        with pytest.raises(ProviderUnreachable, match=r"The key set at .* was not given"):
            await made.sign_in()
        made.behaviour.answers = {}
        made.wait(10)
        await made.sign_in()


async def test_keys_that_moved_are_found_by_reading_the_document_again() -> None:
    async with scene() as made:
        moved = f"{made.provider.issuer}/moved-keys"
        await made.sign_in()
        made.provider.rotate()
        made.behaviour.document = {"jwks_uri": moved}
        made.behaviour.answers = {
            "keys": hostile.failing(404),
            "moved-keys": hostile.json_of(made.provider.published()),
        }
        await made.sign_in()
        made.wait(4000)
        await made.sign_in()
    assert made.provider.counted("moved-keys") == 2


async def test_an_old_key_set_that_still_answers_does_not_hide_the_new_one() -> None:
    async with scene() as made:
        old = made.provider.published()
        await made.sign_in()
        made.provider.rotate()
        made.behaviour.document = {"jwks_uri": f"{made.provider.issuer}/moved-keys"}
        made.behaviour.answers = {
            "keys": hostile.json_of(old),
            "moved-keys": hostile.json_of(made.provider.published()),
        }
        await made.sign_in()


async def test_a_key_set_that_fails_has_the_document_read_once_in_ten_seconds() -> None:
    async with scene() as made:
        made.behaviour.answers = {"keys": hostile.failing()}
        for _ in range(5):
            with pytest.raises(ProviderUnreachable, match=r"The key set at .* was not given"):
                await made.service.check()
            made.wait(1.5)
    assert (made.provider.counted("keys"), made.provider.counted("discovery")) == (5, 2)


async def test_known_keys_serve_while_the_set_is_out_of_reach() -> None:
    async with scene() as made:
        await made.sign_in()
        made.behaviour.answers = {"keys": hostile.failing(), "discovery": hostile.failing()}
        made.wait(4000)
        await made.sign_in()


async def test_many_sign_ins_ask_for_the_document_and_the_keys_once() -> None:
    async with scene() as made:
        people = await asyncio.gather(*(made.sign_in() for _ in range(30)))
    assert len({proved.claims["nonce"] for proved in people}) == 30
    assert (made.provider.counted("discovery"), made.provider.counted("keys")) == (1, 1)


async def test_many_sign_ins_ask_a_broken_provider_once_in_a_second() -> None:
    async with scene() as made:
        made.behaviour.answers = {"discovery": hostile.failing()}
        for expected in (1, 2):
            ends = await asyncio.gather(*(made.sign_in() for _ in range(30)), return_exceptions=True)
            assert {type(end) for end in ends} == {ProviderUnreachable}
            with pytest.raises(ProviderUnreachable):
                await made.sign_in()
            assert made.provider.counted("discovery") == expected
            made.wait(1)
        made.behaviour.answers = {}
        await made.sign_in()


async def test_a_document_is_asked_for_again_after_an_hour() -> None:
    async with scene() as made:
        await made.sign_in()
        made.wait(3599)
        await made.sign_in()
        assert made.provider.counted("discovery") == 1
        made.wait(2)
        await made.sign_in()
        assert made.provider.counted("discovery") == 2
