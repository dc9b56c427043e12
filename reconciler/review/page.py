"""A plan as one HTML page for an artifact of a pipeline. It loads nothing, and shows text from outside only as text."""

from pathlib import Path
from typing import Any

from reconciler.model.plan import Plan, PlanEntry, PlanStatus
from reconciler.model.text import counted
from reconciler.review import plan as review_plan
from reconciler.review import text
from reconciler.review.annotations import NoPlan
from reconciler.review.plan import SYMBOLS, PlanSection, ResourceGroup, clean_text

_TEMPLATE = Path(__file__).with_name("page.html")


def render_page(plan: Plan, *, command: str = "") -> str:
    """Return the page; `command` makes the plan again."""
    return _page(
        title=review_plan.first_line(plan),
        about=[line.strip() for line in text.about_lines(plan)],
        entries=list(map(_entry, plan.entries)),
        sections=[
            {"summary": one.summary, "is_open": one.is_open, "groups": [_group(plan, one, each) for each in one.groups]}
            for one in review_plan.sections(plan)
        ],
        last=review_plan.last_line(review_plan.tally_plan(plan.entries)),
        command=review_plan.pasteable(command),
    )


def absent_page(found: NoPlan) -> str:
    """Return the page that says why there is no plan."""
    title = f"No plan for {clean_text(found.head)}: {clean_text(found.sentence, review_plan.VALUE)}"
    return _page(title=title, about=found.lines(), entries=[], sections=[], last="", command="")


def _page(**told: Any) -> str:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - few plans are pages

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return f"{template.render(again=review_plan.AGAIN, **told)}\n"


def _entry(entry: PlanEntry) -> dict[str, Any]:
    """Return the parts of an entry beside its resources, for the template."""
    shown, folded = review_plan.parted_flows(entry)
    refused = [f"nothing of this entry would be stored: {review_plan.REFUSED}"] if entry.refused else []
    return {
        "name": clean_text(entry.name),
        "verdict": review_plan.plan_verdict(review_plan.tally_plan([entry])),
        "notes": [*refused, *(clean_text(note, review_plan.VALUE) for note in entry.notes)],
        "flows": list(map(str, shown)),
        "folded_flows": list(map(str, folded)),
        "more_flows": counted(len(entry.flows) - len(shown), "more flow"),
        "for_collectors": text.FOR_COLLECTORS.capitalize(),
        "renderings": [
            {
                "title": f"{one.mark} {one.title}",
                "place": "" if one.at is None else review_plan.place_at_line(one.at),
                "violations": list(map(str, one.violations)),
                "lines": list(map(str, one.difference)),
                "summary": counted(len(one.difference), "line"),
            }
            for one in text.shown_renderings(entry)
        ],
        "left_out": text.renderings_left_out(entry),
    }


def _group(plan: Plan, section: PlanSection, group: ResourceGroup) -> dict[str, Any]:
    entry = f"entry {clean_text(group.entry.name)}, " if len(plan.entries) > 1 else ""
    owners = f", owned by {', '.join(group.owned_by)}" if group.owners else ""
    return {
        "heading": f"{entry}{group.heading}{owners}",
        "lines": list(map(str, group.cause)),
        "resources": [_resource(plan, section, group, one) for one in group.statuses],
    }


def _resource(plan: Plan, section: PlanSection, group: ResourceGroup, status: PlanStatus) -> dict[str, Any]:
    lines = list(text.status_lines(status, with_reason=not group.cause))
    place = review_plan.place_at_line(status.at) if status.at is not None and status.name else ""
    address = review_plan.address(plan, group.entry, status) or ""
    return {
        "symbol": SYMBOLS[status.status],
        "title": review_plan.status_title(status),
        "word": f"{review_plan.word(status)}{review_plan.WAS_SO if status.existing else ''}",
        "place": place,
        "address": address if place and address.startswith(("https://", "http://")) else "",
        "lines": lines,
        "summary": counted(len(lines), "line"),
        "is_open": len(lines) <= section.open_lines(group),
    }
