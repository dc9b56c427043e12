"""The page that notifications lead to: what each type means and what to do.

Belongs here: showing it. Does not: the sentences (`reconciler.notifications.texts`).

It tells nothing of this installation, so that nobody need sign in for it.
"""

import re

from starlette.responses import Response

from api.calls import Call
from api.pages import rendering
from reconciler.notifications.texts import EXPLAINED

_CODE = re.compile(r"`([^`]*)`")


async def show_explained(_call: Call) -> Response:
    """GET /docs/notifications"""
    types = [(type_.value, [_pieces(sentence) for sentence in explained]) for type_, explained in EXPLAINED.items()]
    return rendering.page("notifications", types=types)


def _pieces(sentence: str) -> list[tuple[bool, str]]:
    """The sentence cut at its backticks; what stood between two of them is code."""
    return [(place % 2 == 1, piece) for place, piece in enumerate(_CODE.split(sentence)) if piece]
