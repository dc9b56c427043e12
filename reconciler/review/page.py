"""A plan as one page for an artifact of a pipeline: it asks for nothing else, and what comes from outside is text."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reconciler.model.plan import Plan, PlanEntry, PlanStatus
from reconciler.model.text import counted
from reconciler.review import plan as review_plan
from reconciler.review import text
from reconciler.review.plan import SYMBOLS, ResourceGroup, clean_text, resource_groups

_TEMPLATE = Path(__file__).with_name("page.html")
_OPEN = 20  # lines of a resource that are open; more are folded


class _Resource(NamedTuple):
    """One resource as the template writes it. `address`: where it is at the forge, or empty."""

    symbol: str
    title: str
    word: str
    place: str
    address: str
    lines: tuple[str, ...]
    summary: str
    is_open: bool


class _Group(NamedTuple):
    heading: str
    owners: str
    lines: tuple[str, ...]
    resources: tuple[_Resource, ...]


class _Entry(NamedTuple):
    name: str
    verdict: str
    notes: tuple[str, ...]
    flows: tuple[str, ...]
    groups: tuple[_Group, ...]


def render_page(plan: Plan, *, command: str = "") -> str:
    """Return the page; `command` makes the plan again."""
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - few plans are pages

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    told = template.render(
        title=review_plan.first_line(plan),
        about=[line.strip() for line in text.about_lines(plan)],
        entries=[_entry(plan, entry) for entry in plan.entries],
        last=review_plan.last_line(review_plan.tally_plan(plan.entries)),
        again=review_plan.AGAIN,
        command=review_plan.pasteable(command),
    )
    return f"{told}\n"


def _entry(plan: Plan, entry: PlanEntry) -> _Entry:
    refused = (f"nothing of this entry would be stored: {review_plan.REFUSED}",) if entry.refused else ()
    groups = resource_groups((entry, one) for one in sorted(entry.statuses, key=lambda one: one.existing))
    return _Entry(
        name=clean_text(entry.name),
        verdict=review_plan.plan_verdict(review_plan.tally_plan([entry])),
        notes=(*refused, *(clean_text(note, review_plan.VALUE) for note in entry.notes)),
        flows=tuple(map(str, review_plan.flow_lines(entry))),
        groups=tuple(_group(plan, group) for group in groups),
    )


def _group(plan: Plan, group: ResourceGroup) -> _Group:
    return _Group(
        heading=group.heading,
        owners=", ".join(group.owned_by),
        lines=tuple(map(str, group.cause)),
        resources=tuple(_resource(plan, group, one) for one in group.statuses),
    )


def _resource(plan: Plan, group: ResourceGroup, status: PlanStatus) -> _Resource:
    lines = tuple(_lines(status, with_reason=not group.cause))
    place = review_plan.place_at_line(status.at) if status.at is not None and status.name else ""
    address = review_plan.address(plan, group.entry, status) or ""
    return _Resource(
        symbol=SYMBOLS[status.status],
        title=review_plan.status_title(status),
        word=f"{review_plan.word(status)}{review_plan.WAS_SO if status.existing else ''}",
        place=place,
        address=address if place and address.startswith(("https://", "http://")) else "",
        lines=lines,
        summary=counted(len(lines), "line"),
        is_open=len(lines) <= _OPEN,
    )


def _lines(status: PlanStatus, *, with_reason: bool) -> Iterator[str]:
    if with_reason:
        yield from map(str, review_plan.status_reason(status))
    for field in status.fields:
        yield from text.shown_field(field, status.at)
    yield from map(str, review_plan.beside(status))
