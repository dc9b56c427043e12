"""Delivery: each destination with its rate, depth, age and last hour, a test, and its dead letters."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from starlette.responses import Response

from api import errors
from api.calls import Call, Subject
from api.pages import console, forms, resources, states
from api.pages.api_client import Api
from api.pages.console import View
from api.pages.forms import PagePath
from api.requests import Query

MOST_SHOWN = 100  # destinations; those with problems come first
MOST_DEAD = 20
MOST_MARKS = 5
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
    form = await forms.read_own_form(call)
    project, name = call.parameters["of"], call.parameters["name"]
    try:
        answer = await Api(call).ask("POST /v1/destinations/{name}/delivery/test", project=project, body={}, name=name)
    except errors.Problem as problem:
        return await console.refused(call, form, problem)
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
    own, _, component = name.partition(":")
    owner = {"project": project, "kind": "Configuration" if component else "Destination", "name": own}
    try:
        versions = await resources.history(view, owner, limit=MOST_MARKS)
    except errors.NotFound:  # a queue can outlive the store that it was filled from
        versions = []
    return view.page(
        "delivery",
        section="Delivery",
        live="delivery resource",
        project=project,
        delivery=delivery,
        charts=charts(hour["samples"], hour["interval"], now=delivery),
        box=(WIDTH, HEIGHT),
        step=STEP,
        marks=marks(versions, view.now),
        dead=dead,
        tested=tested,
        may_handle=view.may("replay", project=project),
        owner=states.resource_page(**owner),
        page_of=states.resource_page,
    )


class Point(NamedTuple):
    """A value of a chart as text, its time of day in UTC, and the middle of the place that shows both on hover."""

    x: float
    time: str
    value: str


class Chart(NamedTuple):
    """A line of the last hour: its title and unit, its path, its points, and the highest and the last value as text."""

    title: str
    unit: str
    path: str
    points: Sequence[Point]
    highest: str
    last: str
    is_bad: bool


def charts(samples: Sequence[Mapping[str, Any]], interval: int, *, now: Mapping[str, Any] | None = None) -> list[Chart]:
    """Draw the last hour: records delivered per second, records queued, and failures. A record counts at the time of
    its delivery.
    """
    delivered = [one["delivered"] / interval for one in samples]
    queued = [one["queued"] for one in samples]
    times = [f"{one['at'][11:16]} UTC" for one in samples]
    if now is not None:
        delivered.append(now["rates"]["delivered"])
        queued.append(now["queue"]["records"])
        times.append("now")
    failed = [one["retried"] + one["dead"] for one in samples]
    return [
        _chart("Delivered", "records/s", times, delivered),
        _chart("Queued", "records", times, queued),
        _chart("Retried or dead", "records/min", times, failed, is_bad=True),
    ]


MOST_POINTS = 61  # one for each minute of an hour, and now
STEP = WIDTH / (MOST_POINTS - 1)


def _chart(title: str, unit: str, times: Sequence[str], values: Sequence[float], *, is_bad: bool = False) -> Chart:
    """Draw one line, with the present at the right. A chart without values is empty."""
    top = max(values, default=0)
    begin = WIDTH - STEP * (len(times) - 1)
    points = [
        Point(begin + number * STEP, time, _figure(value))
        for number, (time, value) in enumerate(zip(times, values, strict=False))
    ]
    heights = [HEIGHT - 2 - (value / top * (HEIGHT - 4) if top else 0) for value in values]
    corners = [f"{point.x:.1f} {height:.1f}" for point, height in zip(points, heights, strict=True)]
    path = f"M{' L'.join(corners)}" if corners else ""
    return Chart(title, unit, path, points, _figure(top), points[-1].value if points else "0", is_bad and top > 0)


class Mark(NamedTuple):
    """A change in the last hour: its place in a chart, the version that it made, and the instant."""

    x: float
    version: int
    instant: str


HOUR = 3600  # seconds


def marks(versions: Sequence[Mapping[str, Any]], now: datetime) -> list[Mark]:
    """Return the changes of the last hour, in the order of the versions."""
    found = []
    for one in (version["metadata"] for version in versions):
        passed = max(0, (now - datetime.fromisoformat(one["dateModified"])).total_seconds())
        if passed < HOUR:
            found.append(Mark(round(WIDTH * (1 - passed / HOUR), 1), one["version"], one["dateModified"]))
    return found


def _figure(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 and value != int(value) else f"{value:,.0f}"
