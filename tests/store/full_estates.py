"""A store with a row in every table, of everything that a service stores."""

from dataclasses import replace

from reconciler.model.directory import Directory
from reconciler.store.contract import Operations, Store
from reconciler.store.estates import TABLES
from reconciler.store.records import (
    AuditRow,
    Changes,
    Noted,
    NotificationRow,
    NotificationStatusRow,
    PastRouteRow,
    Record,
    SessionRow,
    VersionRow,
)
from reconciler.store.repository_records import SuspensionRow
from tests.auth import directories
from tests.store import contract_access, contract_operations, contract_prunes, contract_renderings, rows
from tests.store.engines import Engine

TOKEN = "canary-id-token-of-somebody-who-is-signed-in"
SESSION = SessionRow(b"\1" * 32, "id-una", 0, rows.AT, rows.AT, TOKEN)
ODD = "é 漢 \U0001f600 '\\\" \t"  # sorts and encodes in other ways than ASCII does
# Tables that have no row in a store that was never redacted, and so on, would not be compared.
NAMES = tuple(table.name for table in TABLES)
QUOTED = "canary-that-is-quoted"
EARLY, LATER = "2020-01-01T00:00:00.000Z", "2021-01-01T00:00:00.000Z"


def people() -> Directory:
    """People with and without passwords, keys and invitations of each kind."""
    plain = directories.directory(contract_access.KEY)
    return replace(
        plain,
        users={**plain.users, contract_access.PROVED.name: contract_access.PROVED},
        invitations={one.id: one for one in (contract_access.CODE, contract_access.ADDRESS)},
    )


async def fill(engine: Engine, *, many: int = 0) -> None:
    """Fill an empty store through its contract, with `many` more versions."""
    store, operations = engine.open(), engine.open_operations()
    try:
        await _fill_store(engine, store, many=many)
        await _fill_operations(operations)
    finally:
        await operations.close()
        await store.close()


async def _fill_store(engine: Engine, store: Store, *, many: int) -> None:
    await store.tell([rows.audit("early")._replace(at=EARLY)])
    await store.create_project(rows.PROJECT, at=rows.AT)
    await contract_access.amend(store, contract_access.whole(people()))
    await store.put_auth_type("local")
    secret = rows.version("secret")._replace(secrets=b'{"/spec/token":"canary-of-a-secret"}')
    with_secret = rows.stored("secret")
    parts = [
        rows.stored("a", "b", "gone", ODD),
        rows.referring("d", "a"),
        replace(with_secret, versions=[secret]),
        contract_renderings.using("c", "d"),
        Changes(
            files=[rows.file("a.yaml"), rows.file("link.yaml", vacant="a link")],
            wanted=[rows.wanted("a.yaml", "a"), rows.wanted("a.yaml", None, position=1, unconverged="refused")],
            statuses=[rows.run_status("R1", 1), rows.run_status("R1", 2, reason="is not a string", notes="one\ntwo")],
            past_routes=[PastRouteRow(rows.PROJECT, "c", 1, b'{"x":1}')],
        ),
        rows.pruned(contract_prunes.NOW),
    ]
    record = Record(run=rows.run("R1", message=f"it was {QUOTED}"), repository=rows.repository())
    await store.commit(parts, record=record)
    await store.commit([rows.removed("gone")], record=Record())
    for number in range(2, 2 + many):
        await store.commit(
            [rows.stored("a", number=number, padding="x" * 500)], record=Record(run=rows.run(f"R{number}"))
        )
    await contract_prunes.hold(store, "a", "b")
    await store.commit([], record=Record(approval=rows.approval()))
    await contract_prunes.hold(store, "d", repository="other")
    suspended = SuspensionRow("telemetry", "why", "key:test", rows.AT, None)
    told = AuditRow(rows.AT, rows.PROJECT, "key:ada", "suspended", "Repository", "r", None, None, None, None, QUOTED)
    await store.commit([], record=Record(suspension=suspended, audit=(told,)))
    rewritten = VersionRow(rows.PROJECT, rows.KIND, "b", 1, rows.body("b", 1, "(redacted)"), None)
    await store.commit([Changes(rewritten=[rewritten])], record=Record(redacts=True))
    await _redact(engine, store)
    await contract_renderings.kept(engine, store, "c")
    while await store.forget_events(before=LATER):
        pass


async def _redact(engine: Engine, store: Store) -> None:
    """Take the text out of what quotes it."""
    view = engine.view()
    with view.snapshot():
        quotes = [one._replace(text="(redacted)") for one in view.quotes(rows.PROJECT, [QUOTED])]
    view.close()
    assert {one.of for one in quotes} == {"detail", "message"}
    await store.commit([Changes(quotes=quotes)], record=Record(redacts=True))


async def _fill_operations(operations: Operations) -> None:
    await operations.flow_key()
    await operations.put_session(SESSION)
    noted = Noted(
        put=[NotificationRow("N1", b'{"number":1}'), NotificationRow("N2", b"{}")],
        statuses=[NotificationStatusRow("N1", "una", "read")],
    )
    await contract_operations.note(operations, noted)
