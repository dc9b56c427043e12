"""The overview: is my last commit live, and is anything wrong?"""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from api.pages import console, parts, states
from api.pages.console import View
from api.pages.forms import PagePath
from reconciler.model.text import counted

MOST_NAMES = 100  # in a fold, and rows of repositories
MOST_SHOWN = 12  # lines of a part; the part's own page has the rest
LIVE = "repository run resource delivery notification"


@console.page(f"GET {PagePath.HOME}", known=("after",))
async def show(view: View) -> Response:
    """Show repositories, Configurations, queues and open notifications of the chosen projects."""
    repositories = await states.repositories(view)
    deliveries = await states.deliveries(view)
    configurations = await states.configurations(view, deliveries)
    busy = [one for one in deliveries if one["queue"]["records"] or not _is_fine(one)]
    notifications = await states.notifications(view)
    in_trouble = [one for one in deliveries if not _is_fine(one)]
    return view.page(
        "overview",
        section="Overview",
        live=LIVE,
        most=MOST_SHOWN,
        verdict=_verdict(view, repositories, in_trouble, configurations, notifications),
        repositories=repositories,
        part=parts.of(view, sorted(repositories, key=_is_live), most=MOST_NAMES),
        configurations=configurations,
        most_names=MOST_NAMES,
        deliveries=deliveries,
        busy=busy,
        notifications=notifications,
    )


def _is_live(repository: dict[str, Any]) -> bool:
    return bool(repository["verdict"].word == states.LIVE)


def _is_fine(delivery: dict[str, Any]) -> bool:
    return delivery["state"] in states.FINE and not delivery["deadLetters"]["batches"]


def _verdict(
    view: View,
    repositories: Sequence[Mapping[str, Any]],
    deliveries: Sequence[Mapping[str, Any]],
    configurations: states.Configurations,
    notifications: Sequence[Mapping[str, Any]],
) -> states.State:
    """Answer both questions in a sentence."""
    if not repositories:
        return states.State("no repository", "No repository fills what you see here.")
    behind = [one for one in repositories if one["verdict"].word != states.LIVE]
    wrong = []
    if behind:
        total = counted(len(repositories), "repository", "repositories")
        wrong.append(f"{len(behind)} of {total} not wholly live")
    if wanting := configurations.wanting:
        works = "does not work as declared" if len(wanting) == 1 else "do not work as declared"
        least = "at least " if configurations.has_more_wanting else ""
        wrong.append(f"{least}{counted(len(wanting), 'Configuration')} {works}")
    if deliveries:
        wrong.append(f"{counted(len(deliveries), 'destination')} failing, held or with dead letters")
    if view.missing:
        wrong.append(f"{counted(len(view.missing), 'instance')} missing")
    if notifications:
        wrong.append(counted(len(notifications), "open notification"))
    if wrong:
        return states.State("needs attention", f"{'; '.join(wrong)}.")
    if view.unread:
        return states.State("starting", "Every commit is applied; delivery is not known yet.")
    return states.State("all is live", "Every commit is applied, and everything delivers that should.")
