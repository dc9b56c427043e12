"""The rights of the worker's role: it reads what plans need, and can do nothing else.

The worker holds its connections while it parses what strangers commit, so the start grants exactly these rights, and
refuses a role that has more.
"""

from psycopg import conninfo, sql

from reconciler.model.errors import Refused
from reconciler.store.postgresql import inspection
from reconciler.store.postgresql.inspection import Connection

READABLE = (
    "approval",
    "approved",
    "audit",
    "fact.key",
    "fact.number",
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
"""The tables that `PlanningView` reads, and of facts the columns, since others hold keys. People, keys, sessions and
invitations are not among them.
"""

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

# Columns that the role may read and should not, or should and may not, and those of tables that it may change.
_DIFFERENCES = """
select c.relname || '.' || a.attname
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and (has_column_privilege(%(role)s::name, c.oid, a.attnum, 'select')
         <> (c.relname = any(%(readable)s) or c.relname || '.' || a.attname = any(%(readable)s))
       or has_column_privilege(%(role)s::name, c.oid, a.attnum, 'insert, update, references')
       or has_table_privilege(%(role)s::name, c.oid, 'delete, truncate, trigger'))
order by 1
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
        with owner.transaction():
            owner.execute("select pg_advisory_xact_lock(%s)", [LOCK])
            if differences(owner, role):  # otherwise nothing is written, which would keep readers of the tables waiting
                _grant(owner, role, schema)
    report = inspection.worker(worker_url, service_url=url)
    if report.is_elsewhere:
        raise Refused("`store.workerUrl` leads to another database than `store.url`; name the same one in both.")
    if report.more:
        raise Refused(f"The role {report.name} of the worker {', '.join(report.more)}; {REMEDY}.")
    return worker_connection(worker_url, schema=schema)


def differences(connection: Connection, role: str) -> list[str]:
    """Return the columns whose rights are not as they should be."""
    return [name for (name,) in connection.execute(_DIFFERENCES, {"role": role, "readable": list(READABLE)})]


def _grant(owner: Connection, role: str, schema: str) -> None:
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
    owner.execute(sql.SQL("revoke all on all tables in schema {schema} from {role}").format(**names))
    owner.execute(sql.SQL("grant usage on schema {schema} to {role}").format(**names))
    for readable in READABLE:
        table, _, column = readable.partition(".")
        columns = sql.SQL("({})").format(sql.Identifier(column)) if column else sql.SQL("")
        grant = sql.SQL("grant select {columns} on {table} to {role}")
        owner.execute(grant.format(columns=columns, table=sql.Identifier(schema, table), role=names["role"]))
