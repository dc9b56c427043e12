"""What of a plan is hidden from somebody who may not read the raw text of Configurations, in which nothing is masked.

Pure. Secrets are masked before they reach a plan, for everybody; who may read what is the door's business.
"""

from typing import Any

import msgspec

from reconciler.model.plan import SENSITIVE, SENSITIVE_CHANGED, PlanField, PlanStatus

CONFIGURATION = "Configuration"  # the one kind that may have such a text
SPEC, RAW = "spec", "raw"


def without_raw(status: PlanStatus) -> PlanStatus:
    """The same status without the text; the very same where there is none."""
    if status.kind != CONFIGURATION:
        return status
    fields = tuple(_hidden(field) for field in status.fields)
    if all(hidden is field for hidden, field in zip(fields, status.fields, strict=True)):
        return status
    return msgspec.structs.replace(status, fields=fields)


def _hidden(field: PlanField) -> PlanField:
    if _is_raw(field.path):
        return _masked(field)
    # Of a whole spec the beginning may be all there is, in which the text may stand.
    return _masked(field) if field.path in ("", SPEC) and (_has_raw(field.old) or _has_raw(field.new)) else field


def _is_raw(path: str) -> bool:
    whole = f"{SPEC}.{RAW}"
    return path == whole or path.startswith((f"{whole}.", f"{whole}["))


def _has_raw(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys().isdisjoint({SPEC, RAW, "begins"})


def _masked(field: PlanField) -> PlanField:
    """As a secret: that it changed is told, and neither what it was nor what it is."""
    had, has = field.old is not msgspec.UNSET, field.new is not msgspec.UNSET
    old = SENSITIVE if had else msgspec.UNSET
    new = (SENSITIVE_CHANGED if had else SENSITIVE) if has else msgspec.UNSET
    return msgspec.structs.replace(field, old=old, new=new, sensitive=True)
