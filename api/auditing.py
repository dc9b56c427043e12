"""Audit events of what people do that no transaction of the store's resources tells of: signing in and out, and looking
after queues.

Belongs here: writing one, with who asked, by which request and from where. Does not: reading them (`audit_events`),
refused attempts, which are counted (`reconciler.auth.rate_limits`).
"""

import json
import logging

from api.calls import Call
from reconciler.model.clock import rfc3339
from reconciler.model.directory import User
from reconciler.store.contract import AuditRow, StoreFault

log = logging.getLogger(__name__)

PASSWORD = "password"  # noqa: S105 - how somebody came in


async def signed_in(call: Call, user: User) -> None:
    """Somebody came in with a browser: by a password, or through a provider."""
    by = PASSWORD if user.identity is None else user.identity.issuer
    await _tell(call, actor=f"user:{user.name}", action="signed-in", kind="Session", name=user.name, detail={"by": by})


async def signed_out(call: Call, user: User | None) -> None:
    """Somebody left; None: they are no more."""
    if user is not None:
        await _tell(call, actor=f"user:{user.name}", action="signed-out", kind="Session", name=user.name)


async def handled_delivery(call: Call, name: str, action: str, detail: dict[str, object]) -> None:
    """Somebody replayed or discarded what waits for a destination of the call's project."""
    actor, project = call.principal.name, call.project
    await _tell(call, actor=actor, action=action, kind="Destination", name=name, project=project, detail=detail)


async def _tell(
    call: Call,
    *,
    actor: str,
    action: str,
    kind: str,
    name: str,
    project: str = "",
    detail: dict[str, object] | None = None,
) -> None:
    """Write it. What happened has happened: where the disk fails, the log has it, and nobody is refused for it."""
    event = AuditRow(
        at=rfc3339(call.services.clock()),
        project=project,
        actor=actor,
        action=action,
        kind=kind,
        name=name,
        version_before=None,
        version_after=None,
        run=None,
        request=call.request,
        detail=None if detail is None else json.dumps(detail, sort_keys=True),
        address=call.address,
    )
    try:
        await call.services.store.tell((event,))
    except StoreFault as fault:
        log.error("The audit misses that %s %s %s %s: %s", actor, action, kind, name, fault.message)
