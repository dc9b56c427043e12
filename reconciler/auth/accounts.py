"""The directory of the running service: recognising keys, and one change at a time."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from reconciler.auth import changes
from reconciler.model import directory, log_context
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Amendment, Directory, Key, User, amended
from reconciler.model.principals import OF_ROLE, Permission, Principal, Role
from reconciler.store.contract import StaleChange, Store, StoreFault
from reconciler.store.records import AuditRow

# Loss of access: a change that takes access from a person ends all of their sessions.
#
# Each such change also raises the person's count `User.losses` in the same transaction. A session has the count of its
# beginning and is valid only while both are equal. So one transaction ends access and sessions, even if the process
# crashes afterwards or the file of sessions cannot be written.

NOTHING: frozenset[Permission] = frozenset()


def has_lost_access(one: User, *, before: Directory, after: Directory) -> bool:
    """Return True if a person of `before` was removed, lost a role, or has another password or identity."""
    user = after.user(one.id)
    if user is None or (user.password, user.identity) != (one.password, one.identity):
        return True
    if user.organization_admin or one.organization_admin:
        return not user.organization_admin
    roles = after.roles_of(user)
    return any(not _permits(role) <= _permits(roles.get(project)) for project, role in before.roles_of(one).items())


def count_lost(directory: Directory, amendment: Amendment) -> Amendment:
    """Return the amendment with the losses of access counted for each remaining person.

    Its own counts are replaced: they may come from an older directory.
    """
    more = {user.id: user for user in _counted(directory, amendment)}
    others = tuple(user for user in amendment.users if user.id not in more)
    return replace(amendment, users=(*others, *more.values())) if more else amendment


def _counted(directory: Directory, amendment: Amendment) -> Iterator[User]:
    """Yield the people whose count changes. Only people in the amendment are compared: comparing all is slow."""
    touched = {user.id for user in amendment.users} | {member.user for member in amendment.members}
    known = [user for user in map(directory.user, sorted(touched)) if user is not None]
    after = amended(directory, amendment) if known else directory
    for before in known:
        user = after.user(before.id)
        losses = before.losses + has_lost_access(before, before=directory, after=after)
        if user is not None and losses != user.losses:
            yield replace(user, losses=losses)


def _permits(role: Role | None) -> frozenset[Permission]:
    return NOTHING if role is None else OF_ROLE[role]


# The directory in memory: recognising keys, and changing access.
#
# The store announces each amendment before the write returns, and the directory follows it. So a revoked key stops
# working at once.

log = logging.getLogger(__name__)

TRIES = 20  # of a change of access, when other replicas change it at the same moment
TOUCH_SECONDS = 60.0  # between two writes of when keys were used

Decide = Callable[[Directory], Amendment | None]
"""Returns the change to make, given the directory, or None; raises an error to refuse it."""


class Accounts:
    """The current directory."""

    def __init__(self, store: Store, directory: Directory, *, clock: Clock) -> None:
        self.directory = directory
        self._store = store
        self._clock = clock
        self._changing = asyncio.Lock()
        self._reloading: asyncio.Task[None] | None = None
        self.tell_uses: Callable[[Mapping[str, str]], Awaitable[None]] | None = None  # tells other replicas
        self._used: dict[str, datetime] = {}  # by the ids of keys, since they were written last
        store.subscribe(Amendment, self._follow)

    def _follow(self, amendment: Amendment) -> None:
        """Follow an amendment, unless the directory was read after it. If one before it is missing, read it all."""
        number = self.directory.number
        if amendment.number > number:
            self.directory = directory.amended(self.directory, amendment)
        if amendment.number > number + 1:
            self.directory = replace(self.directory, number=number)
            self._reloading = asyncio.create_task(self._reload_or_log(), name="read the directory again")

    async def _reload_or_log(self) -> None:
        try:
            await self.reload()
        except StoreFault as fault:  # the next amendment tries again
            log.warning("Changes of access by another replica could not be read: %s", fault.message)

    async def reload(self) -> None:
        """Read the directory again, because amendments of other replicas were missed. Raises StoreFault."""
        while True:
            known = self.directory.number
            found = await self._store.directory()
            # The rows may lack an amendment that came meanwhile.
            if found.number >= self.directory.number or self.directory.number == known:
                self.directory = found
                return

    def holder(self, key: str) -> Principal | None:
        """Return the holder of a key; None for one that is unknown, revoked or expired."""
        found = self.directory.key_of(key)
        return self.directory.holder_of(found) if found is not None and self.uses(found, at=self._clock()) else None

    def uses(self, key: Key, *, at: datetime) -> bool:
        """Record the use of a key. Return False, without a record, if the key is expired."""
        # This runs for every request with a key, and parsing the text is cheaper than formatting the instant.
        if key.expires_at is not None and datetime.fromisoformat(key.expires_at) <= at:
            return False
        self._used[key.id] = at
        return True

    def still(self, principal: Principal, *, since: Directory) -> Principal | None:
        """Return the present state of a principal from the directory `since`; None if the access has ended."""
        if self.directory is since:
            return principal
        return self.directory.still(principal, since=since, now=rfc3339(self._clock()))

    async def amend(self, decide: Decide, *, actor: str, request: str | None) -> Amendment | None:
        """Decide one change on the present directory, store it, then make it visible; nothing if `decide` returns None.
        If another replica changes the directory meanwhile, `decide` is called again with the new one.

        A cancelled caller does not stop the change, because memory must not miss a write. The same step ends the
        sessions of people who lose access (`count_lost`). Raises StoreFault and the exceptions of `decide`.
        """
        return await asyncio.shield(
            asyncio.create_task(self._amend(decide, actor=actor, request=request), name="amend access")
        )

    async def _amend(self, decide: Decide, *, actor: str, request: str | None) -> Amendment | None:
        async with self._changing:
            for _ in range(TRIES):
                known = self.directory
                decided = decide(known)
                if decided is None:
                    return None
                amendment = count_lost(known, decided)
                audit = self._audit(amendment, actor=actor, request=request)
                try:
                    await self._store.amend(amendment, after=known.number, audit=audit)
                except StaleChange:  # of another replica, which has changed the directory
                    await self.reload()
                else:
                    return amendment
            raise StaleChange("Access is being changed by others at this moment; try again.")

    async def ensure_project(self, name: str) -> bool:
        """Create a project that the settings name, unless it exists. Return True if this call created it.

        Raises StoreFault, Refused.
        """
        at = rfc3339(self._clock())

        def decide(known: Directory) -> Amendment | None:
            return None if name in known.projects else changes.create_project(known, name, at=at)

        return await self.amend(decide, actor="settings", request=None) is not None

    async def keep_touched(self, *, every: float = TOUCH_SECONDS) -> None:
        """Store the times of use of keys, until cancelled. Later ones are lost; no decision depends on them."""
        while True:
            await asyncio.sleep(every)
            await self.touch()

    async def touch(self) -> None:
        """Store the times of use since the last call."""
        used = {key: rfc3339(at) for key, at in self._used.items()}
        self._used = {}
        if not used:
            return
        try:
            await self._store.touch_keys(used)
        except StoreFault as fault:
            log.warning("When keys were used could not be written: %s", fault.message)
            return
        self.follow_uses(used)
        if self.tell_uses is not None:
            with contextlib.suppress(StoreFault):  # others read it with their next start
                await self.tell_uses(used)

    def follow_uses(self, used: Mapping[str, str]) -> None:
        """Show when keys were used, here or at another replica: the later time of each."""
        before = {key.id: key.last_used_at or "" for key in self.directory.keys.values() if key.id in used}
        later = {key: used[key] for key, at in before.items() if used[key] > at}
        self.directory = directory.with_key_use(self.directory, later)

    def _audit(self, amendment: Amendment, *, actor: str, request: str | None) -> AuditRow:
        audited = amendment.audited
        return AuditRow(
            at=rfc3339(self._clock()),
            project=audited.project,
            actor=actor,
            action=audited.action,
            kind=audited.kind,
            name=audited.name,
            request=request,
            detail=None if audited.detail is None else json.dumps(audited.detail, sort_keys=True),
            address=log_context.request_address(),
        )
