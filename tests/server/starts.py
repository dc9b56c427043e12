"""A start of the service as far as it concerns people, on real files.

It imports no test library, since processes that a test kills run it too.
"""

from datetime import UTC, datetime
from pathlib import Path

from reconciler.auth.accounts import Accounts
from reconciler.model.directory import Directory
from reconciler.model.errors import Refused
from reconciler.server import sign_in
from reconciler.store.operations import SqliteOperations
from reconciler.store.sqlite import SqliteStore


class Start:
    """A start, the answers to it, and its traces."""

    def __init__(self, folder: Path) -> None:
        self.store, self.operations = SqliteStore(folder / "store.db"), SqliteOperations(folder / "ops.db")
        self.unusable = ""  # why the provider cannot be used

    async def check(self) -> None:
        if self.unusable:
            raise Refused(self.unusable)

    async def settle(self, configured: str, *, is_confirmed: bool = False) -> str:
        """Return what it says; empty when it goes on."""
        clock = datetime(2026, 11, 22, tzinfo=UTC)
        accounts = Accounts(self.store, await self.store.directory(), clock=lambda: clock)
        try:
            await sign_in.settle_auth(
                accounts,
                self.store,
                self.operations,
                configured=configured,
                is_confirmed=is_confirmed,
                check=self.check,
            )
        except Refused as refused:
            return refused.message
        assert accounts.directory == await self.store.directory()
        return ""

    async def state(self) -> tuple[str | None, Directory, int]:
        """How people sign in, who there is, and how many sessions."""
        return (
            await self.store.auth_type(),
            await self.store.directory(),
            len(await self.operations.sessions()),
        )

    async def close(self) -> None:
        await self.operations.close()
        await self.store.close()
