"""Leases on PostgreSQL: rows of two tables, whose instants are of its clock.

They have a connection of their own, so that a beat never waits for anything else of this replica.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor

from reconciler.store import statements
from reconciler.store.contract import NameTaken, StoreFault
from reconciler.store.postgresql.connection import session_parameters
from reconciler.store.postgresql.notices import in_time
from reconciler.store.replica_records import LEASE_SECONDS, Beat, HeldLease, Lease, ReplicaRow

T = TypeVar("T")
Beats = AsyncConnection[tuple[object, ...]]


class PostgresqlLeases:
    """See `contract.Leases` for what each method promises."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._queries = statements.load("reconciler.store.postgresql")
        self._connection: Beats | None = None
        self._one = asyncio.Lock()
        self._is_known = False  # the process of this replica has beaten

    async def beat(self, replica: ReplicaRow) -> Beat:
        beat = await self._transact(lambda: self._beat(replica))
        self._is_known = True
        return beat

    async def _beat(self, replica: ReplicaRow) -> Beat:
        if not self._is_known:
            # Whoever had the name before is gone, and its runs must not be stored any more.
            await self._run("release_all_leases", replica.name)
            await self._run("put_replica", *replica)
        elif not await self._run("beat", *replica):
            if await self._value("has_replica", replica.name):
                raise NameTaken(
                    f"Another process took the name {replica.name} of this replica; give each one a `replica.name`."
                )
            await self._run("put_replica", *replica)  # it was forgotten
        await self._run("renew_leases", replica.name, LEASE_SECONDS)
        living = [ReplicaRow(*row) for row in await self._all("living_replicas", LEASE_SECONDS)]
        held = [HeldLease(*row) for row in await self._all("held_leases")]
        return Beat(tuple(living), tuple(held))

    async def take(self, holder: str, groups: Sequence[Sequence[str]]) -> list[Lease]:
        return await self._transact(lambda: self._take(holder, groups))

    async def _take(self, holder: str, groups: Sequence[Sequence[str]]) -> list[Lease]:
        taken: list[Lease] = []
        await self._run("lock_takes")
        for group in map(list, groups):
            if await self._value("has_other_holder", group, holder):
                continue
            number = await self._value("count_leases", group)
            if len(await self._all("lock_leases", group)) < number:
                continue  # a run is being stored under one that has ended
            taken += [Lease(*row) for row in await self._all("take_leases", group, holder, LEASE_SECONDS)]
        return taken

    async def release(self, holder: str, repositories: Collection[str]) -> None:
        await self._transact(lambda: self._run("release_leases", holder, list(repositories)))

    async def leave(self, replica: ReplicaRow) -> None:
        async def leave() -> None:
            if await self._run("forget_replica", replica.name, replica.process):
                await self._run("release_all_leases", replica.name)

        await self._transact(leave)

    async def ages(self) -> dict[str, timedelta]:
        return dict(await self._transact(lambda: self._all("replica_ages")))

    async def forget(self, age: timedelta) -> None:
        await self._transact(lambda: self._run("forget_replicas", age))

    async def close(self) -> None:
        async with self._one:
            await self._disconnect()

    # Statements by name, in one transaction

    async def _transact(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work in one transaction. Raises StoreFault if the server does not answer it in time."""
        async with self._one:
            try:
                if self._connection is None:
                    self._connection = await self._connect()
                return await in_time(self._connection, self._work(self._connection, work))
            except (psycopg.Error, OSError) as fault:
                why = " ".join(str(fault).split()) or type(fault).__name__
                raise StoreFault(f"The leases of this replica could not be written ({why}).") from fault
            finally:
                if self._connection is not None and self._connection.info.transaction_status != _IDLE:
                    await self._disconnect()

    async def _work(self, connection: Beats, work: Callable[[], Awaitable[T]]) -> T:
        async with connection.transaction():
            return await work()

    async def _connect(self) -> Beats:
        return await AsyncConnection.connect(
            **session_parameters(self._url, "reconciler leases"), autocommit=True, cursor_factory=AsyncRawCursor
        )

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()

    async def _run(self, name: str, *arguments: object) -> int:
        assert self._connection is not None
        return (await self._connection.execute(self._queries[name].encode(), arguments)).rowcount

    async def _all(self, name: str, *arguments: object) -> list[tuple[Any, ...]]:
        assert self._connection is not None
        cursor = await self._connection.execute(self._queries[name].encode(), arguments)
        return await cursor.fetchall()

    async def _value(self, name: str, *arguments: object) -> Any:
        [(value, *_)] = await self._all(name, *arguments)
        return value


_IDLE = psycopg.pq.TransactionStatus.IDLE
