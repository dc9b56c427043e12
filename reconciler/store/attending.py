"""What somebody should look at in a project, as it is stored: what is incomplete, Configurations whose present version
cannot deliver, and what is deprecated and in use.

Belongs here: finding it. Does not: what is said of it (`reconciler.notifications`).
"""

import json
import sqlite3

from reconciler.store import queries
from reconciler.store.contract import Attention, DeprecatedRow, Some

MOST_DEPRECATED = 100  # that are told of
LONGEST = 500  # characters of a message that are told; one more says that there was more


def read_attention(connection: sqlite3.Connection, project: str, *, named: int) -> Attention:
    """See `contract.Store.attention`. Raises sqlite3.Error."""
    sql = queries.load_queries()
    connection.execute("begin deferred")
    incomplete = [str(name) for (name,) in connection.execute(sql["incomplete_configurations"], (project,))]
    stale = [str(name) for (name,) in connection.execute(sql["stale_configurations"], (project,))]
    others = [f"{kind} {name}" for kind, name in connection.execute(sql["incomplete_others"], (project,))]
    deprecated = []
    for kind, name, body in connection.execute(sql["deprecated_in_use"], (project, MOST_DEPRECATED)).fetchall():
        users = [f"{user_kind} {user}" for user_kind, user in connection.execute(sql["users"], (project, kind, name))]
        info = json.loads(body)["metadata"].get("additionalInfo")
        deprecated.append(DeprecatedRow(kind, name, _message(info), Some(len(users), tuple(users[:named]))))
    return Attention(
        incomplete=Some(len(incomplete), tuple(incomplete[:named])),
        deprecated=tuple(deprecated),
        stale=Some(len(stale), tuple(stale[:named])),
        others=Some(len(others), tuple(others[:named])),
    )


def _message(info: object) -> str:
    message = info.get("message") if isinstance(info, dict) else None
    return message[: LONGEST + 1] if isinstance(message, str) else ""
