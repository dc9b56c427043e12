"""How often the log tells of deliveries that were refused: anybody may send as many as they like. The time is an
argument. What the log says is elsewhere.
"""

from collections import OrderedDict
from dataclasses import dataclass

SECONDS = 60.0  # between two lines about one repository
MOST = 1_000  # repositories kept; of more, the longest quiet may get a line too many


@dataclass(slots=True)
class _Told:
    at: float
    since: int = 0  # refused, and not told


class LoggedRefusals:
    """When each repository was last told of. All that are unknown share one name, whatever they are called."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, _Told] = OrderedDict()

    def due(self, repository: str, *, now: float) -> int | None:
        """Count one more. None: the log is to keep quiet; else how many it kept quiet about since its last line.

        `now` is any clock in seconds that does not go back.
        """
        told = self._told.get(repository)
        if told is not None and now - told.at < SECONDS:
            told.since += 1
            return None
        self._told[repository] = _Told(now)
        self._told.move_to_end(repository)
        if len(self._told) > MOST:
            self._told.popitem(last=False)
        return 0 if told is None else told.since

    def __len__(self) -> int:
        return len(self._told)
