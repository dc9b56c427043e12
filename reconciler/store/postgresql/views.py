"""The worker's views of the store: each has a connection of its own, which is opened before the worker is confined."""

from collections.abc import Iterable

from reconciler.store.contract import PlanningView
from reconciler.store.planning_view import StoredPlanningView
from reconciler.store.postgresql.connection import PostgresqlConnection


def connect(connection: str, names: Iterable[str]) -> tuple[dict[str, PlanningView], tuple[int, ...]]:
    """Open a view for each name. Return them, and the sockets of their connections. Raises StoreFault, Refused."""
    opened = {name: PostgresqlConnection(connection, name="reconciler-worker") for name in names}
    sockets = tuple(one.descriptor() for one in opened.values())
    return {name: StoredPlanningView(one) for name, one in opened.items()}, sockets
