"""The first start makes an organization admin, whose password is in a file."""

import base64
import json
import os
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.auth import changes
from reconciler.auth import sign_in as auth_sign_in
from reconciler.auth.accounts import Accounts
from reconciler.auth.sign_in import SigningIn
from reconciler.model.directory import Amendment, User
from reconciler.model.errors import Refused
from reconciler.server import sign_in
from reconciler.store.contract import StoreFault
from reconciler.store.sqlite import SqliteStore
from tests import daemons, stores
from tests.auth import directories
from tests.daemons import Answer, Daemon
from tests.server.test_auth_change import SETTINGS

NAME = sign_in.NAME
SECONDS = 10.0
NEW = "another password of the admin"


def basic(name: str, password: str) -> dict[str, str]:
    """The header of HTTP Basic."""
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def as_admin(daemon: Daemon, password: str, method: str = "GET", path: str = "/v1/me", body: object = None) -> Answer:
    """One request of the admin."""
    return daemon.ask(method, path, None if body is None else json.dumps(body).encode(), basic(NAME, password))


def file_of(daemon: Daemon) -> Path:
    return daemon.state / sign_in.FILE


def told(daemon: Daemon) -> list[str]:
    """Return what it logged about the file."""
    return [message for message in daemon.messages() if sign_in.FILE in message]


def written(path: Path) -> str:
    return (
        f"There was no organization admin: {NAME} was created with the password in {path}; change it with "
        "`reconciler user password`, and remove the file."
    )


def test_the_first_start_writes_a_password_that_opens_everything_until_it_is_changed(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        path = file_of(daemon)
        password = path.read_text().removesuffix("\n")
        found = path.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid, len(password)) == (0o600, os.getuid(), 32)
        assert told(daemon) == [written(path)]
        assert password not in daemon.output()
        me = as_admin(daemon, password)
        assert (me.status, me.body["me"]["name"], me.body["me"]["organizationAdmin"]) == (200, "user:admin", True)
        assert as_admin(daemon, password[:-1]).status == 401

        # Another start writes nothing, and the file stays as it was.
        daemon.restart()
        assert (path.read_text(), path.stat().st_mtime_ns) == (password + "\n", found.st_mtime_ns)
        assert told(daemon) == [written(path)]

        change = {"password": password, "newPassword": NEW}
        assert as_admin(daemon, password, "PUT", "/v1/me/password", change).status == 204
        assert (as_admin(daemon, password).status, as_admin(daemon, NEW).status) == (401, 200)
        path.unlink()
        daemon.restart()
        assert (told(daemon), path.exists()) == ([written(path)], False)
        assert daemon.complaints() == daemon.complaints()[:1] * len(daemon.complaints())  # nothing to watch


def test_everything_that_changes_access_is_audited_with_who_did_it_and_no_secret(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        password = file_of(daemon).read_text().strip()
        secrets = [password, NEW, "the password of ana", "another password of ana"]

        def ask(method: str, path: str, body: object = None) -> Answer:
            answer = as_admin(daemon, password, method, path, body)
            assert answer.status < 300, answer
            return answer

        ask("POST", "/v1/projects", {"name": "search"})
        ask("POST", "/v1/users", {"name": "ana", "password": secrets[2]})
        ask("PATCH", "/v1/users/ana", {"displayName": "Ana", "password": secrets[3], "organizationAdmin": True})
        ask("PUT", "/v1/projects/search/members/ana", {"role": "user"})
        ask("PUT", "/v1/projects/search/members/ana", {"role": "viewer"})
        ask("DELETE", "/v1/projects/search/members/ana")
        key = ask("POST", "/v1/api-keys", {"name": "robot", "role": "user", "project": "search"}).body["apiKey"]
        secrets.append(key["key"])
        assert daemon.ask("GET", "/v1/me", None, {"X-Service-Api-Key": key["key"]}).status == 200
        ask("DELETE", f"/v1/api-keys/{key['id']}")
        ask("PUT", "/v1/me/password", {"password": password, "newPassword": NEW})
        password = NEW
        ask("DELETE", "/v1/users/ana")
        daemon.configure([daemons.watched("one", tmp_path / "missing", project="payments")])
        daemon.reload()
        daemon.stop()
        with stores.sql(daemon.state) as store:
            rows = store.execute("select actor, action, kind, name, project, detail, request from audit order by id")
    by_admin = "user:admin"
    made = {"name": "robot", "role": "user", "scopes": ["resources"], "expiresAt": key["expiresAt"], "personal": False}
    detail = {"displayName": "Ana", "organizationAdmin": True, "password": "changed"}
    assert [(*row[:5], None if row[5] is None else json.loads(row[5])) for row in rows] == [
        ("settings", "created", "Project", "default", "default", None),
        ("system", "created", "User", "admin", "", {"organizationAdmin": True}),
        (by_admin, "created", "Project", "search", "search", None),
        (by_admin, "created", "User", "ana", "", {"organizationAdmin": False}),
        (by_admin, "configured", "User", "ana", "", detail),
        (by_admin, "created", "Member", "ana", "search", {"role": "user"}),
        (by_admin, "configured", "Member", "ana", "search", {"before": "user", "role": "viewer"}),
        (by_admin, "deleted", "Member", "ana", "search", {"before": "viewer"}),
        (by_admin, "created", "Key", key["id"], "search", made),
        (by_admin, "deleted", "Key", key["id"], "search", {"name": "robot"}),
        (by_admin, "configured", "User", "admin", "", {"password": "changed"}),
        (by_admin, "deleted", "User", "ana", "", {"organizationAdmin": True, "roles": {}}),
        ("settings", "created", "Project", "payments", "payments", None),
        ("settings", "created", "Repository", "one", "payments", None),
    ]
    assert [row[6] is not None for row in rows] == [row[0] == by_admin for row in rows]
    assert [secret for secret in secrets if secret in repr(rows)] == []
    assert [secret for secret in secrets if secret in daemon.output()] == []


@pytest.mark.parametrize("kind", ["none", "oidc"])
def test_where_nobody_signs_in_with_a_password_there_is_none_at_the_next_start_either(
    kind: str, tmp_path: Path
) -> None:
    with daemons.running(tmp_path / "daemon", settings={"auth": SETTINGS[kind]}) as daemon:
        daemon.restart()
        assert daemon.get("/v1/users").body == {"users": []}
        assert not file_of(daemon).exists()
        assert told(daemon) == []


def test_a_start_that_fails_makes_nobody(tmp_path: Path) -> None:
    missing = {"certFile": str(tmp_path / "none.pem"), "keyFile": str(tmp_path / "none.pem")}
    daemon = Daemon(tmp_path / "daemon", settings={"tls": missing})
    daemon.launch()
    assert daemon.process.wait(daemons.START_SECONDS) == 1
    assert not file_of(daemon).exists()


# The parts alone


@pytest.fixture
async def accounts(tmp_path: Path) -> AsyncIterator[Accounts]:
    store = SqliteStore(tmp_path / "store.db")
    yield Accounts(store, await store.directory(), clock=clock)
    await store.close()


def clock() -> datetime:
    return datetime(2026, 11, 21, tzinfo=UTC)


async def ensure(accounts: Accounts, folder: Path) -> None:
    signing_in = SigningIn(accounts)
    try:
        await sign_in.ensure_first_admin(accounts, signing_in, state_dir=folder, clock=clock)
    finally:
        signing_in.close()


def opens(accounts: Accounts, folder: Path) -> bool:
    """Return True when the password in the file is the admin's."""
    password = (folder / sign_in.FILE).read_text().strip()
    return auth_sign_in.is_right_password(password, accounts.directory.users[NAME].password or "")


async def give_password(accounts: Accounts, password: str) -> None:
    admin = changes.with_password(accounts.directory.users[NAME], auth_sign_in.encode_password(password))
    await accounts.amend(lambda directory: changes.change_user(directory, admin), actor="user:admin", request="R")


@pytest.mark.anyio
async def test_a_start_that_dies_before_it_stored_anybody_is_begun_anew(accounts: Accounts, tmp_path: Path) -> None:
    class Dying(Accounts):
        async def amend(self, *_: object, **__: object) -> Amendment:
            raise StoreFault("The store is gone.")

    store = SqliteStore(tmp_path / "other.db")
    with pytest.raises(StoreFault):
        await ensure(Dying(store, await store.directory(), clock=clock), tmp_path)
    await store.close()
    first = (tmp_path / sign_in.FILE).read_text()
    await ensure(accounts, tmp_path)
    assert (tmp_path / sign_in.FILE).read_text() != first
    assert opens(accounts, tmp_path)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "is_admin", "users"),
    [("una", True, ["una"]), ("una", False, ["una", NAME]), (NAME, False, [NAME]), (NAME, True, [NAME])],
)
async def test_an_admin_is_made_where_there_is_none_and_the_name_is_free(
    accounts: Accounts, tmp_path: Path, name: str, is_admin: bool, users: list[str]
) -> None:
    one = User("U1", name, directories.AT, organization_admin=is_admin)
    await accounts.amend(lambda directory: changes.create_user(directory, one), actor="key:K1", request="R")
    await ensure(accounts, tmp_path)
    assert (list(accounts.directory.users), (tmp_path / sign_in.FILE).exists()) == (users, len(users) == 2)
    assert accounts.directory.users[name] == one


@pytest.mark.anyio
@pytest.mark.parametrize("name", [sign_in.FILE, f"{sign_in.FILE}.new"])
@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "hard link"])
async def test_what_stands_in_its_place_is_replaced_and_not_written_through(
    kind: str, name: str, accounts: Accounts, tmp_path: Path
) -> None:
    other, place = tmp_path / "other", tmp_path / name
    if kind != "dangling link":
        other.write_text("somebody else's\n")
        other.chmod(0o644)
    if kind == "file":
        other.rename(place)
    elif kind == "hard link":
        place.hardlink_to(other)
    else:
        place.symlink_to(other)
    await ensure(accounts, tmp_path)
    path = tmp_path / sign_in.FILE
    assert (stat.S_IFMT(path.lstat().st_mode), stat.S_IMODE(path.lstat().st_mode)) == (stat.S_IFREG, 0o600)
    assert opens(accounts, tmp_path)
    assert not (tmp_path / f"{sign_in.FILE}.new").is_symlink()
    if kind in ("link", "hard link"):
        assert (other.read_text(), stat.S_IMODE(other.stat().st_mode)) == ("somebody else's\n", 0o644)
    else:
        assert not other.exists()


@pytest.mark.anyio
@pytest.mark.parametrize("name", [sign_in.FILE, f"{sign_in.FILE}.new"])
async def test_what_cannot_be_replaced_stops_the_start(name: str, accounts: Accounts, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(Refused) as refusal:
        await ensure(accounts, tmp_path)
    path = tmp_path / sign_in.FILE
    assert refusal.value.message == (
        f"The password of the first admin could not be written to {path} (Is a directory); make room for it."
    )
    assert accounts.directory.users == {}
