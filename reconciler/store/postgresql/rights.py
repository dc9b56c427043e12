"""The rights of the worker's role: it reads what plans need, and can do nothing else.

The worker holds its connections while it parses what strangers commit, so the start grants exactly these rights, and
refuses a role that has more.
"""

from psycopg import conninfo, sql

from reconciler.model.errors import Refused
from reconciler.store.postgresql import inspection
from reconciler.store.postgresql.inspection import Connection

TABLES = (
    "approval",
    "approved",
    "audit",
    "fact",
    "held",
    "origin",
    "past_route",
    "prune_ledger",
    "reference",
    "rendering",
    "repository",
    "resource",
    "run",
    "run_status",
    "source_file",
    "suspension",
    "version",
    "wanted",
)
"""The tables that `PlanningView` reads. People, keys, sessions and invitations are not among them."""

# A server that is gone without a word is noticed after this; one that ends closes its connections.
NETWORK = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "11000",  # milliseconds
}
SESSION = {
    "default_transaction_read_only": "on",
    # A job reads, then parses for minutes; but a process that is stopped must not keep its snapshot for ever.
    "idle_in_transaction_session_timeout": "30min",
    "client_connection_check_interval": "5s",  # a job that was ended may have left a long statement
}
LOCK = 0x52434C52_72696768  # an advisory lock: one replica at a time grants
REMEDY = "name a role in `store.workerUrl` that has no rights of its own; the service grants it what it reads"

_DIFFERENCES = """
select c.relname from pg_class c
where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and (has_table_privilege(%(role)s::name, c.oid, 'select') <> (c.relname = any(%(tables)s))
       or has_table_privilege(%(role)s::name, c.oid, 'insert, update, delete, truncate, references, trigger'))
"""


def worker_connection(url: str, *, schema: str) -> str:
    """Return how the worker connects with its URL. What the URL says of these parameters itself stays."""
    said = conninfo.conninfo_to_dict(url)
    network = {name: value for name, value in NETWORK.items() if name not in said}
    options = " ".join(f"-c {name}={value}" for name, value in {**SESSION, "search_path": schema}.items())
    given = f"{options} {said.get('options') or ''}".strip()
    return conninfo.make_conninfo(url, **network, application_name="reconciler-worker", options=given)


def settle(url: str, worker_url: str) -> str:
    """Grant the role of the worker its rights, and return how the worker connects.

    Raises Refused for a role that has other rights, or a URL that leads elsewhere, StoreFault.
    """
    with inspection.connected(worker_url) as worker:
        role = worker.info.user
    with inspection.connected(url) as owner:
        [(schema,)] = owner.execute("select current_schema()").fetchall()
        _grant(owner, role, schema)
    report = inspection.worker(worker_url, service_url=url, needed=TABLES)
    if report.is_elsewhere:
        raise Refused("`store.workerUrl` leads to another database than `store.url`; name the same one in both.")
    excess = [*report.more, *(f"may not read {table}" for table in report.unread)]
    if excess:
        raise Refused(f"The role {report.name} of the worker {', '.join(excess)}; {REMEDY}.")
    return worker_connection(worker_url, schema=schema)


def _grant(owner: Connection, role: str, schema: str) -> None:
    """Write the rights, unless they are as they should be: that would keep readers of the tables waiting."""
    with owner.transaction():
        owner.execute("select pg_advisory_xact_lock(%s)", [LOCK])
        if not owner.execute(_DIFFERENCES, {"role": role, "tables": list(TABLES)}).fetchall():
            return
        names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
        tables = sql.SQL(", ").join(sql.Identifier(schema, table) for table in TABLES)
        owner.execute(sql.SQL("revoke all on all tables in schema {schema} from {role}").format(**names))
        owner.execute(sql.SQL("grant usage on schema {schema} to {role}").format(**names))
        owner.execute(sql.SQL("grant select on {tables} to {role}").format(tables=tables, **names))
