"""Resources that are incomplete, Configurations that deliver by an earlier version, and what is deprecated and in use:
looked for in a project after it changed.

Belongs here: when to look at which project. Does not: finding it (`Store.attention`), sentences.

A look at a large project takes a while, on a thread of its own; such a project is not looked at again before twenty
times as long has passed, so that this never takes more than a twentieth of a processor.
"""

from collections.abc import Callable

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import Cause, Domain, Facts, Finding, Look
from reconciler.notifications.texts import NAMED
from reconciler.notifying.turns import QUICK, in_slices
from reconciler.reconcile.apply import AppliedChange
from reconciler.store.contract import Attention, Store

PAUSE = 20.0  # times what the last look at a project took


class ConfigurationObserver:
    """Hears of changes, and looks later."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._changed: dict[str, None] = {}
        self._not_before: dict[str, float] = {}
        self._has_begun = False

    def heard(self, told: AppliedChange) -> None:
        """The store changed. Called in the middle of a change, so it only takes note."""
        if told.changed and told.project is not None:
            self._changed[told.project] = None

    async def look(self) -> list[Look]:
        """The projects that changed since the last look; at the first, all of them. Raises StoreFault."""
        if not self._has_begun:
            self._changed |= dict.fromkeys(await self._store.projects())
            self._has_begun = True
        looks: dict[str, Look] = {}
        for project in [*self._changed]:
            begun = self._monotonic()
            if begun < self._not_before.get(project, begun):
                continue
            del self._changed[project]  # before it is read: what changes meanwhile is looked at again
            try:
                found = await _findings(project, await self._store.attention(project, named=NAMED))
            except BaseException:  # what was found is lost with it
                self._changed |= dict.fromkeys((*looks, project))
                raise
            now = self._monotonic()
            self._not_before[project] = now + PAUSE * (now - begun)
            looks[project] = Look(Domain.CONFIGURATIONS, tuple(found), part=project)
        return [*looks.values()]


async def _findings(project: str, found: Attention) -> list[Finding]:
    findings = []
    if found.incomplete.total or found.others.total:
        facts: Facts = {"total": found.incomplete.total, "names": found.incomplete.first}
        if found.others.total:
            facts = {**facts, "others": found.others.total, "other_names": found.others.first}
        findings.append(Finding(Cause(NotificationType.CONFIGURATION_INCOMPLETE, "", project), Severity.WARNING, facts))
    if found.stale.total:
        facts = {"total": found.stale.total, "names": found.stale.first}
        findings.append(Finding(Cause(NotificationType.DELIVERY_STALE, "", project), Severity.WARNING, facts))
    async for slice_ in in_slices(found.deprecated, QUICK):
        for one in slice_:
            cause = Cause(NotificationType.RESOURCE_DEPRECATED, f"{one.kind} {one.name}", project)
            used: Facts = {"users": one.users.total, "names": one.users.first, "instead": one.message}
            findings.append(Finding(cause, Severity.INFO, used))
    return findings
