"""Forms that count once: what a browser sends again, when its page is loaded anew, makes nothing again.

Belongs here: remembering which were sent, and no more than fit. Does not: reading forms (`api.pages`).

A restart forgets them, and so do a thousand later ones: it saves people from a mistake, and keeps nobody out.
"""

import base64
import re
from collections import OrderedDict
from typing import Final

RANDOM_BYTES = 16
MOST = 1_000
_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{22}")


def form_token(randomness: bytes) -> str:
    """What a form carries hidden, another one for each that is shown. `randomness` is `RANDOM_BYTES`, random ones."""
    assert len(randomness) == RANDOM_BYTES
    return base64.urlsafe_b64encode(randomness).decode().rstrip("=")


def is_form_token(text: str) -> bool:
    """Whether a text may be one."""
    return _VALUE.fullmatch(text) is not None


class SentForms:
    """Those that were sent, of everybody."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._sent: OrderedDict[tuple[str, str], None] = OrderedDict()

    def take(self, who: str, value: str) -> bool:
        """Whether somebody sends it for the first time; `value` is one."""
        if (who, value) in self._sent:
            return False
        if len(self._sent) >= self._most:
            self._sent.popitem(last=False)
        self._sent[(who, value)] = None
        return True

    def give_back(self, who: str, value: str) -> None:
        """Forget one that came to nothing."""
        self._sent.pop((who, value), None)
