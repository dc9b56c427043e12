"""What the reader child writes to its standard error, as log lines of the daemon.

It writes there when Python or a library ends it. Passed on as it is, whatever took the child over could act on the
operator's terminal and forge log lines. Bounded: the rest of what one child says is read and dropped.
"""

import asyncio
import logging

log = logging.getLogger(__name__)

MOST_LINES = 200  # of one child
LONGEST_BYTES = 4_000  # of one line


async def log_complaint(stream: asyncio.StreamReader) -> None:
    """Log the lines of the stream until its end."""
    rest, left = b"", MOST_LINES
    while data := await stream.read(LONGEST_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        left = _log(lines, left)
        if len(rest) > LONGEST_BYTES:
            left, rest = _log([rest], left), b""
    _log([rest], left)


def _log(lines: list[bytes], left: int) -> int:
    """Log as many lines as are left; how many are left then."""
    for line in [line for line in lines if line.strip()][:left]:
        left -= 1
        more = "" if left else "; what else it says is not logged"
        log.error("The reader said: %s%s", line[:LONGEST_BYTES].decode("utf-8", "backslashreplace"), more)
    return left
