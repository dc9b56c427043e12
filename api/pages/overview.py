"""The overview: is my last commit live, and is anything wrong?"""

from collections import Counter
from typing import Any

from starlette.responses import Response

from api.pages import console, states
from api.pages.console import View
from api.pages.forms import PagePath
from reconciler.model.text import counted

MOST_SHOWN = 12  # lines of a part; the part's own page has the rest
MOST_CONFIGURATIONS = 2_000  # of a project that are looked at for one page
LIVE = "repository run resource delivery notification"


@console.page(f"GET {PagePath.HOME}")
async def show(view: View) -> Response:
    """Show repositories, Configurations, queues and open notifications of the chosen projects."""
    repositories = await states.repositories(view)
    configurations, counts = await _configurations(view)
    deliveries = await states.deliveries(view)
    busy = [one for one in deliveries if one["queue"]["records"] or not _is_fine(one)]
    notifications = await states.notifications(view)
    return view.page(
        "overview",
        section="Overview",
        live=LIVE,
        most=MOST_SHOWN,
        verdict=_verdict(repositories, [one for one in deliveries if not _is_fine(one)], configurations),
        repositories=repositories,
        configurations=configurations,
        counts=counts,
        deliveries=deliveries,
        busy=busy,
        notifications=notifications,
    )


async def _configurations(view: View) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the Configurations that are not fine, and how many there are in each state."""
    found, counts = [], Counter[str]()
    for project in view.scope:
        query = {"limit": MOST_CONFIGURATIONS}
        answer = await view.api.maybe("GET /v1/resources/{kind}", project=project, query=query, kind="Configuration")
        for one in (answer or {}).get("resources", ()):
            state = states.of_resource("Configuration", one["status"])
            counts[state.word] += 1
            if state.word not in states.FINE:
                found.append({"project": project, "name": one["metadata"]["name"], "verdict": state})
    return found, counts


def _is_fine(delivery: dict[str, Any]) -> bool:
    return delivery["state"] in states.FINE and not delivery["deadLetters"]["batches"]


def _verdict(
    repositories: list[dict[str, Any]], deliveries: list[dict[str, Any]], configurations: list[dict[str, Any]]
) -> states.State:
    """Answer both questions in a sentence."""
    behind = [one for one in repositories if one["verdict"].word != states.LIVE]
    if not repositories:
        return states.State("nothing is followed", "The settings name no repository: `repositories` lists them.")
    wrong = []
    if behind:
        wrong.append(f"{len(behind)} of {counted(len(repositories), 'repository', 'repositories')} not wholly live")
    if configurations:
        wrong.append(f"{counted(len(configurations), 'Configuration')} without the effect that it declares")
    if deliveries:
        wrong.append(f"{counted(len(deliveries), 'destination')} to look at")
    if not wrong:
        return states.State("all is live", "Every commit is applied, and everything delivers that should.")
    sentence = "; ".join(wrong)
    return states.State("look here", f"{sentence[0].upper()}{sentence[1:]}.")
