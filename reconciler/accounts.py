"""The directory of everybody as the running service knows it: recognising keys, and changing who may do what.

Belongs here: what is current, one change at a time, the order of store and memory. Does not: the rules (`access`), rows
(the store), passwords (`signing_in`).

One process has the store, so the directory in memory is what is stored; a change is written first and seen then.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import datetime

from reconciler.access import changing, losing, reporting
from reconciler.model import directory, log_context
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Amendment, Directory, Key, is_expired
from reconciler.model.principals import Principal
from reconciler.store.contract import AuditRow, Store, StoreFault

log = logging.getLogger(__name__)

TOUCH_SECONDS = 60.0  # between two writes of when keys were used

Decide = Callable[[Directory], Amendment]
"""What is to change, given what there is; raises what refuses it."""

Settle = Callable[[Directory], Amendment | None]
"""The same where there may be nothing to change."""


class Accounts:
    """The current directory."""

    def __init__(self, store: Store, directory: Directory, *, clock: Clock) -> None:
        self.directory = directory
        self._store = store
        self._clock = clock
        self._changing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._used: dict[str, datetime] = {}  # by the ids of keys, since they were written last

    def holder(self, key: str) -> Principal | None:
        """Whose key this is, or None: unknown, revoked or expired."""
        found = self.directory.key_of(key)
        return self.directory.holder_of(found) if found is not None and self.uses(found, at=self._clock()) else None

    def uses(self, key: Key, *, at: datetime) -> bool:
        """Note that somebody uses a key of the directory; False, and nothing is noted, for one that is expired."""
        # The instant is written as text where it decides alone, which costs as much as all the rest.
        if key.expires_at is not None and is_expired(key, now=rfc3339(at)):
            return False
        self._used[key.id] = at
        return True

    def still(self, principal: Principal, *, since: Directory) -> Principal | None:
        """Somebody who was recognised by the directory `since`, as they are now; None when that is over."""
        if self.directory is since:
            return principal
        return self.directory.still(principal, since=since, now=rfc3339(self._clock()))

    async def amend(self, decide: Decide, *, actor: str, request: str | None) -> Amendment:
        """Decide one change on what there is now, write it, then let it be seen.

        Raises what `decide` does, StoreFault. Whoever is cancelled meanwhile leaves a change that is made all the same:
        what is in memory must not miss what is being written. It ends the sessions of whoever loses something, by the
        same step (`access.losing`): nobody need end them.
        """
        amendment = await self.settle(decide, actor=actor, request=request)
        assert amendment is not None
        return amendment

    async def settle(self, decide: Settle, *, actor: str, request: str | None) -> Amendment | None:
        """The same, where nothing is written when there is nothing to change (None)."""
        return await asyncio.shield(
            asyncio.create_task(self._amend(decide, actor=actor, request=request), name="amend access")
        )

    async def _amend(self, decide: Settle, *, actor: str, request: str | None) -> Amendment | None:
        async with self._changing:
            decided = decide(self.directory)
            if decided is None:
                return None
            amendment = losing.count_lost(self.directory, decided)
            await self._store.amend(amendment, audit=self._audit(amendment, actor=actor, request=request))
            self.directory = directory.amended(self.directory, amendment)
            self._changed.set()
            self._changed = asyncio.Event()
        if amendment.audited.kind != "Project":  # a new one alone changes nobody's access
            fields = {} if request is None else {"request": request}
            log.info("%s", reporting.access_sentence(amendment.audited, actor=actor), extra={"fields": fields})
        return amendment

    async def change(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    async def ensure_project(self, name: str) -> bool:
        """Have a project that the settings name, whoever else creates it meanwhile; whether it was made by this call.

        Raises StoreFault, Refused.
        """
        if name in self.directory.projects:
            return False
        at = rfc3339(self._clock())
        try:
            await self.amend(
                lambda directory: changing.create_project(directory, name, at=at), actor="settings", request=None
            )
        except changing.Conflict:
            if name not in self.directory.projects:
                raise
            return False
        return True

    async def keep_touched(self, *, every: float = TOUCH_SECONDS) -> None:
        """Write when keys were used, until cancelled; what was not written then is lost, and nobody decides by it."""
        while True:
            await asyncio.sleep(every)
            await self.touch()

    async def touch(self) -> None:
        """Write when keys were used since the last time."""
        used = {key: rfc3339(at) for key, at in self._used.items()}
        self._used = {}
        if not used:
            return
        try:
            await self._store.touch_keys(used)
        except StoreFault as fault:
            log.warning("When keys were used could not be written: %s", fault.message)
            return
        self.directory = directory.with_key_use(self.directory, used)

    def _audit(self, amendment: Amendment, *, actor: str, request: str | None) -> AuditRow:
        audited = amendment.audited
        return AuditRow(
            at=rfc3339(self._clock()),
            project=audited.project,
            actor=actor,
            action=audited.action,
            kind=audited.kind,
            name=audited.name,
            version_before=None,
            version_after=None,
            run=None,
            request=request,
            detail=None if audited.detail is None else json.dumps(audited.detail, sort_keys=True),
            address=log_context.request_address(),
        )
