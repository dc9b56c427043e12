"""Access that two replicas change: each decides on the directory that is there when its change is written."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from reconciler.auth import changes
from reconciler.auth.accounts import Accounts, Decide
from reconciler.auth.changes import Conflict
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Amendment
from reconciler.model.principals import Role
from reconciler.store.contract import Store
from tests.auth import directories
from tests.auth.conftest import Watch
from tests.store.contract_access import amend, whole
from tests.store.engines import SqliteEngine
from tests.waiting import until

pytestmark = pytest.mark.anyio
KEY = directories.key(directories.text(1))


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Two users of one store, which do not hear of each other."""
    engine = SqliteEngine(tmp_path / "store.db")
    opened = [engine.open(), engine.open()]
    plain = directories.directory(KEY)
    both = {**plain.users, "eva": directories.user("eva", organization_admin=True)}
    await amend(opened[0], whole(replace(plain, users=both)))
    yield opened
    for one in opened:
        await one.close()


@pytest.fixture
async def replicas(stores: list[Store], watch: Watch) -> list[Accounts]:
    return [Accounts(store, await store.directory(), clock=watch) for store in stores]


async def change(accounts: Accounts, decide: Decide) -> Amendment | None:
    return await accounts.amend(decide, actor="user:root", request="R")


async def test_two_that_remove_each_other_s_last_admin_leave_one(replicas: list[Accounts]) -> None:
    removed = await asyncio.gather(
        *(
            change(accounts, partial(changes.remove_user, name=name))
            for accounts, name in zip(replicas, ("root", "eva"), strict=True)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Conflict) for one in removed) == 1
    for accounts in replicas:
        await accounts.reload()
        assert sum(user.organization_admin for user in accounts.directory.users.values()) == 1


async def test_of_two_that_take_one_name_the_second_is_told_of_the_first(replicas: list[Accounts]) -> None:
    for number, accounts in enumerate(replicas):
        new = replace(directories.user("new"), id=f"id-{number}")
        if number == 0:
            await change(accounts, partial(changes.create_user, user=new))
        else:
            with pytest.raises(Conflict, match="exists already"):
                await change(accounts, partial(changes.create_user, user=new))
    assert replicas[1].directory.users["new"].id == "id-0"


async def test_many_changes_from_both_are_all_kept_and_counted(replicas: list[Accounts], stores: list[Store]) -> None:
    roles = (Role.ADMIN, Role.USER, Role.VIEWER)
    await asyncio.gather(
        *(
            change(accounts, partial(changes.set_member, project="payments", name=name, role=role))
            for accounts, name in zip(replicas, ("una", "vic"), strict=True)
            for role in roles
        )
    )
    stored = await stores[0].directory()
    members = {name: stored.members["payments"][f"id-{name}"] for name in ("una", "vic")}
    assert members == {"una": Role.VIEWER, "vic": Role.VIEWER}
    assert stored.number == 1 + 2 * len(roles)
    for accounts in replicas:
        await accounts.reload()
        assert accounts.directory == stored


async def test_an_amendment_that_comes_twice_brings_no_revoked_key_back(
    replicas: list[Accounts], stores: list[Store]
) -> None:
    key = directories.key(directories.text(2), identifier="K2")
    made = await change(replicas[0], partial(changes.create_key, key=key))
    assert made is not None
    await change(replicas[0], partial(changes.revoke_key, key=key))
    await replicas[1].reload()
    stores[1].announce(replace(made, number=2))  # it was read before its notice came
    assert replicas[1].holder(directories.text(2)) is None


async def test_a_revocation_counts_at_once_even_if_an_amendment_before_it_was_missed(
    replicas: list[Accounts], stores: list[Store]
) -> None:
    await change(replicas[0], partial(changes.create_user, user=directories.user("new")))
    revoked = await change(replicas[0], partial(changes.revoke_key, key=KEY))
    assert revoked is not None
    stores[1].announce(replace(revoked, number=3))
    assert replicas[1].holder(directories.text(1)) is None
    await until(lambda: "new" in replicas[1].directory.users)
    assert (replicas[1].directory, replicas[1].directory.number) == (await stores[0].directory(), 3)


async def test_the_last_use_of_a_key_is_the_later_of_both_replicas(replicas: list[Accounts], watch: Watch) -> None:
    async def tell(used: Mapping[str, str]) -> None:
        replicas[1].follow_uses(used)

    replicas[0].tell_uses = tell
    for accounts in replicas[::-1]:
        watch.time += timedelta(minutes=1)
        accounts.holder(directories.text(1))
    for accounts in replicas:
        await accounts.touch()
    [shown] = replicas[1].directory.keys.values()
    assert shown.last_used_at == rfc3339(watch.time)
