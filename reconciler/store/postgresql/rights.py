"""The rights of the worker's role: it reads what plans need, and can do nothing else.

The worker holds its connections while it parses what strangers commit, so the start grants exactly these rights, and
refuses a role that has more.
"""

from collections.abc import Iterable

from psycopg import conninfo, sql

from reconciler.model.errors import Refused
from reconciler.store.postgresql import inspection, migrating
from reconciler.store.postgresql.inspection import Connection
from reconciler.store.replica_records import RoleReport

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
"""The tables that `PlanningView` reads. Of `facts` only some columns, because others contain keys. People, keys,
sessions and invitations are left out.
"""

SESSION = {
    "default_transaction_read_only": "on",
    "client_connection_check_interval": "5s",  # a job that was ended may have left a long statement
}
LOCK = 0x52434C52_72696768  # an advisory lock: one replica at a time grants
REMEDY = "name a role in `store.workerUrl` that has no rights of its own; the service grants it what it reads"

# Each column of the store with what a role may do with it, and whether it should read it.
_COLUMNS = """
select c.relname, has_column_privilege(%(role)s::name, c.oid, a.attnum, 'select'),
       c.relname = any(%(readable)s) or c.relname || '.' || a.attname = any(%(readable)s),
       has_column_privilege(%(role)s::name, c.oid, a.attnum, 'insert, update, references')
         or has_table_privilege(%(role)s::name, c.oid, 'delete, truncate, trigger')
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
order by c.relname, a.attnum
"""
# What a role may do beside tables; roles that it may become, of the server and the owner.
_POWERS = """
select rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls,
       has_schema_privilege(oid, current_schema()::regnamespace::oid, 'create'),
       (select string_agg(o.rolname, ', ' order by o.rolname) from pg_roles o
        where o.oid <> r.oid and not r.rolsuper and pg_has_role(r.oid, o.oid, 'member')
          and (o.rolname like 'pg\\_%%' or o.rolname = current_user))
from pg_roles r
where rolname = %(role)s
"""
POWERS = (
    "is a superuser",
    "may make roles",
    "may make databases",
    "may replicate",
    "is above row security",
    "may make tables",
)
MOST_NAMED = 3  # tables in a sentence


def worker_connection(url: str, *, schema: str) -> str:
    """Return the worker's connection by its URL."""
    given = conninfo.conninfo_to_dict(url).get("options") or ""
    options = " ".join(f"-c {name}={value}" for name, value in {**SESSION, "search_path": schema}.items())
    return conninfo.make_conninfo(url, options=f"{given} {options}".strip())


def settle(url: str, worker_url: str) -> str:
    """Grant the worker's role its rights, and return the worker's connection.

    Raises Refused for a role that has other rights or a URL that leads elsewhere, StoreFault.
    """
    report = role_report(worker_url, service_url=url)
    if report.is_elsewhere:
        raise Refused("`store.workerUrl` leads to another database than `store.url`; name the same one in both.")
    with inspection.connected(url) as owner:
        [(schema,)] = owner.execute("select current_schema()").fetchall()
        if (inspection.migration(owner) or 0) > migrating.migrations()[-1].number:
            # A later version may share the store during an upgrade. It granted the rights for its own plans and for
            # this version's.
            return worker_connection(worker_url, schema=schema)
        # The rights of a role with powers are not changed: it may be the service's own role.
        if (report.unread or report.more) and not _powers(owner, report.name):
            with owner.transaction():
                owner.execute("select pg_advisory_xact_lock(%s)", [LOCK])
                _grant(owner, report.name, schema)
            report = role_report(worker_url, service_url=url)
    excess = [*report.more, *(f"may not read {table}" for table in report.unread)]
    if excess:
        raise Refused(f"The role {report.name} of the worker {', '.join(excess)}; {REMEDY}.")
    return worker_connection(worker_url, schema=schema)


def role_report(worker_url: str, *, service_url: str) -> RoleReport:
    """Return the report of the worker's role. Raises Refused, StoreFault."""
    with inspection.connected(worker_url, "store.workerUrl") as worker, inspection.connected(service_url) as service:
        role = worker.info.user
        columns = service.execute(_COLUMNS, {"role": role, "readable": list(READABLE)}).fetchall()
        read = [table for table, reads, should, writes in columns if reads and not should and not writes]
        written = [table for table, _, _, writes in columns if writes]
        return RoleReport(
            name=role,
            is_elsewhere=inspection.identity(worker) != inspection.identity(service),
            more=(
                *_powers(service, role),
                *([f"may write to {_some(written)}"] if written else []),
                *([f"may read {_some(read)}"] if read else []),
            ),
            unread=tuple(dict.fromkeys(table for table, reads, should, _ in columns if should and not reads)),
        )


def _powers(connection: Connection, role: str) -> list[str]:
    """Return the powers of a role beside the use of tables."""
    *flags, roles = connection.execute(_POWERS, {"role": role}).fetchone() or [None]
    found = [told for told, is_so in zip(POWERS, flags, strict=False) if is_so]
    return [*found, f"is a member of {roles}"] if roles else found


def _some(tables: Iterable[str]) -> str:
    found = list(dict.fromkeys(tables))
    return f"{', '.join(found[:MOST_NAMED])}{' and others' if len(found) > MOST_NAMED else ''}"


def _grant(owner: Connection, role: str, schema: str) -> None:
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
    owner.execute(sql.SQL("revoke all on all tables in schema {schema} from {role}").format(**names))
    owner.execute(sql.SQL("grant usage on schema {schema} to {role}").format(**names))
    for readable in READABLE:
        table, _, column = readable.partition(".")
        columns = sql.SQL("({})").format(sql.Identifier(column)) if column else sql.SQL("")
        grant = sql.SQL("grant select {columns} on {table} to {role}")
        owner.execute(grant.format(columns=columns, table=sql.Identifier(schema, table), role=names["role"]))
