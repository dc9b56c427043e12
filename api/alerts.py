"""Alerts: trying whether one arrives.

Belongs here: what a body says, and what is told of an attempt. Does not: sending (`reconciler.notifying`).
"""

import json
from typing import Any

from starlette.responses import Response

from api import errors, objects, queries
from api.answers import Json
from api.calls import Call
from reconciler.notifications.outbox import TriedAlert


async def send_test_alert(call: Call) -> Response:
    """POST /v1/alerts/test"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=("target",))
    target = body.text("target")
    body.check()
    outbox = call.services.outbox
    if outbox is None:
        raise errors.NotFound("The settings name nobody who is alerted; name a target in `alerts`.")
    tried = await outbox.test(target, request=call.request)
    if not tried:
        known = ", ".join(outbox.targets)
        raise errors.NotFound(f"The settings name no such target of alerts; those of `alerts` are {known}.")
    answer = {"tests": [_shown(one) for one in tried]}
    return Json(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def _shown(one: TriedAlert) -> dict[str, Any]:
    return {
        "target": one.target,
        "taken": one.came.is_taken,
        "status": one.came.status,
        "seconds": round(one.seconds, 3),
        "message": one.came.why,
    }
