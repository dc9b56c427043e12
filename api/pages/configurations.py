"""The page of a Configuration: its flow as a picture, its rates, why it does not deliver, and what Collectors run."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from api import errors
from api.pages import console, flow_picture, resources, states, words
from api.pages.console import View
from api.pages.forms import PagePath
from reconciler.model import components

KIND = "Configuration"
MOST_COMPARED = 500_000  # characters of two texts; more would take long to compare
TOO_LARGE = "The texts are too large to be compared here; the API has both."
SAME = "No line differs from what was in force before."
FORBIDDEN_STATUS, FORBIDDEN = 403, "Your role may not read what Collectors load."


@console.page(f"GET {PagePath.CONFIGURATIONS}/{{of}}/{{name}}", known=("version", "from"))
async def show(view: View) -> Response:
    """Show one Configuration."""
    project, name = view.call.parameters["of"], view.call.parameters["name"]
    facts = await resources.read(view, project, KIND, name)
    spec = facts["resource"].get("spec") or {}
    deliveries = await _deliveries(view, project, name, spec)
    mine = [one for one in deliveries.values() if name in one["configurations"]]
    if facts["verdict"].word == "delivers":
        facts["verdict"] = states.of_delivering(mine)
    rendered = await _rendered(view, project, name)
    return view.page(
        "configuration",
        section="Resources",
        live="resource delivery",
        page_of=states.resource_page,
        project=project,
        picture=flow_picture.draw(spec, _describe(project, name, deliveries)),
        box=(flow_picture.WIDTH, flow_picture.HEIGHT),
        deliveries=mine,
        rendered=rendered,
        **facts,
    )


async def _deliveries(
    view: View, project: str, configuration: str, spec: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the deliveries to the destinations that are drawn, by name."""
    found = {}
    for one in flow_picture.components(spec, "destinations")[: flow_picture.MOST]:
        name = _destination(configuration, one)
        answer = await view.api.maybe("GET /v1/destinations/{name}/delivery", project=project, name=name)
        if answer:
            found[name] = answer["delivery"]
    return found


def _destination(configuration: str, component: Mapping[str, Any]) -> str:
    """Return the name by which a component is a destination of delivery."""
    named = component.get("name")
    return components.unversioned(named) if isinstance(named, str) else f"{configuration}:{component.get('id')}"


async def _rendered(view: View, project: str, name: str) -> dict[str, Any]:
    """Return the `text` that Collectors run, or the `reason` why it is missing or hidden; and the `change` from the
    previous text, which has lines or a `reason` too.
    """
    text, reason = await _text(view, project, name)
    if reason:
        return {"text": "", "reason": reason, "change": None}
    old, reason = await _text(view, project, name, previous="true")
    if len(old) + len(text) > MOST_COMPARED:
        reason = reason or TOO_LARGE
    change = words.difference("", "") if reason else words.difference(old, text)
    return {"text": text, "reason": "", "change": {**change, "reason": reason or SAME}}


async def _text(view: View, project: str, name: str, **query: str) -> tuple[str, str]:
    """Return what Collectors run, and the reason if there is none or the visitor may not read it."""
    try:
        text = await view.api.ask(
            "GET /v1/resources/{kind}/{name}/collector.yaml", project=project, query=query, kind=KIND, name=name
        )
    except errors.Problem as problem:
        return "", FORBIDDEN if problem.status == FORBIDDEN_STATUS else " ".join(problem.sentences)
    return text, ""


def _describe(project: str, configuration: str, deliveries: Mapping[str, Mapping[str, Any]]) -> flow_picture.Describe:
    """Return the words in the box of a component: rate and state for a destination that the service delivers to,
    otherwise its type.
    """

    def describe(kind: str, component: Mapping[str, Any]) -> tuple[str, str, str, str]:
        named, kind_of = component.get("name"), str(component.get("type") or "")
        name = components.unversioned(named) if isinstance(named, str) else ""
        page = states.resource_page(project, kind, name) if name else ""
        title = name or str(component.get("id") or kind_of or kind)
        if component.get("disabled") is True:
            return title, "disabled", page, "off"
        of_delivery = _destination(configuration, component)
        if kind == "Destination" and (delivery := deliveries.get(of_delivery)):
            state, rate = delivery["state"], delivery["rates"]["delivered"]
            told, tone = f"{state}, {words.number(rate)}/s", words.tone(state)
            if rate and state in states.FINE:  # its queue may be empty at this moment
                told, tone = f"delivers {words.number(rate)}/s", "good"
            return title, told, f"{PagePath.DELIVERY}/{project}/{of_delivery}", tone
        return title, kind_of or kind.lower(), page, "calm"

    return describe
