"""The worker's views of the store: each has a connection of its own, which is opened before the worker is confined."""

from collections.abc import Iterable

from reconciler.store.contract import PlanningView
from reconciler.store.planning_view import StoredPlanningView
from reconciler.store.postgresql import database


def connect(connection: str, names: Iterable[str]) -> tuple[dict[str, PlanningView], tuple[int, ...]]:
    """Open a view for each name. Return them, and the sockets of their connections. Raises StoreFault."""
    opened = {name: database.open_reader(connection) for name in names}
    return {name: StoredPlanningView(one) for name, one in opened.items()}, tuple(map(database.socket, opened.values()))
