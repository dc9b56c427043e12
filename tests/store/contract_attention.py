"""Promises of a store about what somebody should look at: incomplete Configurations, what is deprecated and in use."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from reconciler.notifications import rendering
from reconciler.store.contract import Store
from reconciler.store.records import Attention, Changes, DeprecatedRow, Record, Some
from tests.store import rows

NOTHING = Attention(Some(0, ()), ())


async def commit(store: Store, *parts: Changes) -> None:
    await store.commit(parts, record=Record())


def configurations(*names: str, incomplete: bool) -> Changes:
    """Configurations, all of them incomplete or none."""
    part = rows.stored(*names)
    return replace(
        part,
        versions=[one._replace(kind="Configuration") for one in part.versions],
        heads=[one._replace(kind="Configuration", incomplete=int(incomplete)) for one in part.heads],
    )


def holding(name: str, number: int = 1, **metadata: Any) -> Changes:
    """A resource whose metadata holds this."""
    part = rows.stored(name, number=number)
    document = {"metadata": {"name": name, **metadata}, "spec": {"note": '"deprecated":true'}}
    body = msgspec.json.encode(document, order="sorted")
    return replace(part, versions=[one._replace(body=body) for one in part.versions])


class AttentionPromises:
    """Resources that somebody should look at."""

    pytestmark = pytest.mark.anyio

    async def test_incomplete_configurations_are_counted_and_the_first_named(self, store: Store) -> None:
        assert await store.attention(rows.PROJECT, named=2) == NOTHING
        await commit(store, configurations("c", "b", "a", incomplete=True), configurations("d", incomplete=False))
        found = await store.attention(rows.PROJECT, named=2)
        assert found == Attention(Some(3, ("a", "b")), ())
        assert await store.attention("other", named=2) == NOTHING

    async def test_what_else_is_incomplete_is_told_with_its_kind(self, store: Store) -> None:
        part = rows.stored("b", number=9)
        heads = [head._replace(kind="Destination", incomplete=1) for head in part.heads]
        versions = [version._replace(kind="Destination") for version in part.versions]
        await commit(store, replace(part, heads=heads, versions=versions))
        found = await store.attention(rows.PROJECT, named=2)
        assert found == Attention(Some(0, ()), (), others=Some(1, ("Destination b",)))

    async def test_what_is_deprecated_and_in_use_is_told_with_its_users(self, store: Store) -> None:
        info = {"message": "use `new`"}
        await commit(store, holding("old", deprecated=True, additionalInfo=info), holding("plain"))
        assert await store.attention(rows.PROJECT, named=2) == NOTHING
        await commit(store, *[rows.referring(name, "old", "plain", "missing") for name in "zyx"])
        old = DeprecatedRow(rows.KIND, "old", "use `new`", Some(3, ("Destination x", "Destination y")))
        assert await store.attention(rows.PROJECT, named=2) == Attention(Some(0, ()), (old,))
        await commit(store, holding("old", 2, deprecated=False))
        assert await store.attention(rows.PROJECT, named=2) == NOTHING

    async def test_of_a_long_message_no_more_comes_than_a_sentence_takes(self, store: Store) -> None:
        info = {"message": "x" * 100_000}
        await commit(store, holding("old", deprecated=True, additionalInfo=info), rows.referring("a", "old"))
        [found] = (await store.attention(rows.PROJECT, named=2)).deprecated
        assert found.message == "x" * (rendering.MOST + 1)

    @pytest.mark.parametrize("info", [None, {}, {"message": 7}, "text"])
    async def test_a_deprecated_resource_need_not_say_what_replaces_it(self, store: Store, info: object) -> None:
        metadata: dict[str, Any] = {} if info is None else {"additionalInfo": info}
        await commit(store, holding("old", deprecated=True, **metadata), rows.referring("a", "old"))
        [found] = (await store.attention(rows.PROJECT, named=2)).deprecated
        assert (found.message, found.users) == ("", Some(1, ("Destination a",)))
