"""The plan as JSON, for programs: docs/plan-format.md says every field.

Belongs here: what stands beside the shapes of `models`, and that the text harms nothing that shows it. Does not:
reading such a document.
"""

from typing import Any

import msgspec

from reconciler.model.plan import FORMAT, Plan, PlanEntry
from reconciler.model.text import visible_json
from reconciler.plans.showing import ORDERS


def render_json(plan: Plan) -> bytes:
    """One JSON document on one line.

    What a terminal acts on is written with JSON's escapes, and so is the bracket of what a forge's runner takes for an
    order wherever it stands in a log (`##[add-mask]`): the document is the same.
    """
    shown = visible_json(msgspec.json.encode(_whole(plan)).decode())
    if "##" in shown:  # only in a string
        shown = ORDERS.sub(r"\1\\u005b", shown)
    return f"{shown}\n".encode()


def _whole(plan: Plan) -> dict[str, Any]:
    fields = {**_fields(plan), "counts": plan.counts, "entries": [_entry(entry) for entry in plan.entries]}
    return {"formatVersion": FORMAT, **fields}


def _entry(entry: PlanEntry) -> dict[str, Any]:
    return {**_fields(entry), "counts": entry.counts, "statuses": entry.statuses}


def _fields(shape: Plan | PlanEntry) -> dict[str, Any]:
    """The fields of a shape by their names in JSON, without what is empty or false."""
    found = {}
    for field in msgspec.structs.fields(shape):
        value = getattr(shape, field.name)
        if field.required or value != field.default:
            found[field.encode_name] = value
    return found
