"""Changed fields in an answer, as lines of the form that plans use."""

from collections.abc import Iterable

import msgspec

from reconciler.cli import client
from reconciler.model.errors import Refused
from reconciler.model.plan import MOST_VALUE_BYTES, CutText, PlanField
from reconciler.model.text import counted
from reconciler.model.values import Value


def field_lines(changed: Value) -> str:
    """Return the lines of the `fields` of an update, of a resource in a run, or between two versions."""
    given = client.at(changed, "fields")
    if not given:
        return ""
    from reconciler.review import text  # noqa: PLC0415 - most answers have none

    try:
        found = with_cuts(msgspec.convert(given, type=tuple[PlanField, ...]))
    except msgspec.ValidationError:
        raise Refused(client.NOT_OURS) from None
    lines = [line for field in found for line in text.shown_field(field, None)]
    left_out = int(client.number(changed, "fieldsLeftOut"))
    lines += [f"# and {counted(left_out, 'more field')}"] if left_out else []
    return "".join(f"  {line}\n" for line in lines)


def with_cuts(fields: Iterable[PlanField]) -> tuple[PlanField, ...]:
    """Return the fields with CutText for each shortened value. In JSON it is a mapping of two facts."""

    def value(given: object) -> object:
        match given:
            case {"begins": str(begins), "bytes": int(size), **rest} if not rest and size > MOST_VALUE_BYTES:
                return CutText(begins=begins, bytes=size)
        return given

    return tuple(msgspec.structs.replace(one, old=value(one.old), new=value(one.new)) for one in fields)
