"""Delivery: each destination with its rate, depth, age and last hour, a test, and its dead letters."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from api.calls import Call, Subject
from api.pages import console, forms, states
from api.pages.api_client import Api
from api.pages.console import View
from api.pages.forms import PagePath
from api.requests import Query

MOST_SHOWN = 100  # destinations; those with problems come first
MOST_DEAD = 20
WIDTH, HEIGHT = 300, 60  # of a chart, in the units of the SVG
ONE = f"{PagePath.DELIVERY}/{{of}}/{{name}}"


@console.page(f"GET {PagePath.DELIVERY}", known=("all",))
async def show_all(view: View) -> Response:
    """Show the destinations of the chosen projects."""
    found = await states.deliveries(view)
    is_all = bool(view.text("all"))
    return view.page(
        "deliveries",
        section="Delivery",
        live="delivery",
        deliveries=found if is_all else found[:MOST_SHOWN],
        total=len(found),
        of_all=view.link(PagePath.DELIVERY, all="1"),
    )


@console.page(f"GET {ONE}")
async def show(view: View) -> Response:
    """Show one destination."""
    return await _shown(view, tested=None)


@console.page(f"GET {ONE}/test")
async def lead_back(view: View) -> Response:
    """Lead to the page of the destination: only its button sends a test."""
    return forms.elsewhere(view.call.scope["path"].removesuffix("/test"))


@console.routes.add(f"POST {ONE}/test", Subject.PUBLIC)
async def test(call: Call) -> Response:
    """Send a test record, and show the result on the page of the destination."""
    await forms.read_own_form(call)
    project, name = call.parameters["of"], call.parameters["name"]
    answer = await Api(call).ask("POST /v1/destinations/{name}/delivery/test", project=project, body={}, name=name)
    view = View(call, Query(b"", known=frozenset(), strict=False), here=f"{PagePath.DELIVERY}/{project}/{name}")
    return await _shown(view, tested=answer["test"])


async def _shown(view: View, *, tested: Mapping[str, Any] | None) -> Response:
    project, name = view.call.parameters["of"], view.call.parameters["name"]
    about: dict[str, Any] = {"project": project, "name": name}
    answer = await view.api.ask("GET /v1/destinations/{name}/delivery", **about)
    delivery = answer["delivery"]
    states.note_missing(view, answer)
    hour = await view.api.ask("GET /v1/destinations/{name}/delivery/history", **about)
    query = {"limit": MOST_DEAD}
    dead = await view.api.maybe("GET /v1/destinations/{name}/delivery/dead-letters", query=query, **about)
    configuration, _, _ = name.partition(":")
    is_inline = configuration != name
    return view.page(
        "delivery",
        section="Delivery",
        live="delivery",
        project=project,
        delivery=delivery,
        charts=charts(hour["samples"], hour["interval"], now=delivery),
        box=(WIDTH, HEIGHT),
        dead=dead,
        tested=tested,
        may_handle=view.may("replay", project=project),
        owner=states.resource_page(
            project, "Configuration" if is_inline else "Destination", configuration if is_inline else name
        ),
        page_of=states.resource_page,
    )


class Chart(NamedTuple):
    """A line of the last hour: its title, the path of the line, the highest and the last value as text."""

    title: str
    path: str
    highest: str
    last: str
    is_bad: bool


def charts(samples: Sequence[Mapping[str, Any]], interval: int, *, now: Mapping[str, Any] | None = None) -> list[Chart]:
    """Draw the last hour: records delivered per second, records queued, and failures. A record counts at the time of
    its delivery.
    """
    delivered = [one["delivered"] / interval for one in samples]
    queued = [one["queued"] for one in samples]
    if now is not None:
        delivered.append(now["rates"]["delivered"])
        queued.append(now["queue"]["records"])
    failed = [one["retried"] + one["dead"] for one in samples]
    return [
        _chart("Delivered per second", delivered),
        _chart("Queued", queued),
        _chart("Retried or dead in a minute", failed, is_bad=True),
    ]


MOST_POINTS = 61  # one for each minute of an hour, and now


def _chart(title: str, values: Sequence[float], *, is_bad: bool = False) -> Chart:
    """Draw one line, with the newest value at the right. A chart without values is empty."""
    top = max(values, default=0)
    step = WIDTH / (MOST_POINTS - 1)
    begin = WIDTH - step * (len(values) - 1)
    points = [
        f"{begin + number * step:.1f} {HEIGHT - 2 - (value / top * (HEIGHT - 4) if top else 0):.1f}"
        for number, value in enumerate(values)
    ]
    path = f"M{' L'.join(points)}" if points else ""
    return Chart(title, path, _figure(top), _figure(values[-1] if values else 0), is_bad and top > 0)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
