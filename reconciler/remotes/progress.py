"""How many objects a fetch brings, read off what git tells of its progress, so that too many can be refused early.

Pure: bytes in, a reason to stop out.
"""

import re

TAIL_BYTES = 200  # of a piece, for a line that goes on in the next one

# Git's own lines stand at the beginning; before what the remote says of its side there is `remote: `.
_RECEIVING = re.compile(rb"[\r\n](?:Receiving|Unpacking|Indexing) objects: +[0-9]+% \([0-9]+/([0-9]{1,18})\)")


class ObjectLimit:
    """Watches one fetch with `--progress`; called with each piece of its standard error."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tail = b"\n"

    def __call__(self, piece: bytes) -> str | None:
        """Why the fetch has to be stopped; None as long as it may go on."""
        text = self._tail + piece
        self._tail = text[-TAIL_BYTES:]
        coming = max((int(found) for found in _RECEIVING.findall(text)), default=0)
        if coming <= self._most:
            return None
        return f"it sends {coming} objects, and one fetch may bring {self._most}"
