"""Another `auth.type` than the last time removes everybody, once somebody has confirmed it."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.model.directory import Directory, Project
from reconciler.store.contract import StoreFault
from reconciler.store.operations import SqliteOperations
from reconciler.store.sqlite import SqliteStore
from tests import daemons
from tests.api.pages import worlds
from tests.auth import directories
from tests.auth.oidc import hostile
from tests.daemons import Daemon
from tests.server.starts import Start
from tests.store.contract_access import ADDRESS, CODE, amend, whole
from tests.store.contract_operations import row
from tests.store.engines import read_only

ROOT = Path(__file__).parents[2]
KEY = directories.key(directories.text(1), expires_at=directories.LATER)
ALL = "people: 5, memberships: 3, invitations: 2, keys: 1, sessions: 2"
CONFIRMED = ("--confirm-auth-change",)
PROVIDER = {
    "issuer": "http://127.0.0.1:9",
    "oauth2ClientID": "reconciler",
    "oauth2ClientSecret": "canary-client-secret",
}
SETTINGS = {"local": {"type": "local"}, "none": {"type": "none"}, "oidc": {"type": "oidc", "oidc": PROVIDER}}


def people() -> Directory:
    """Five people, three memberships, two invitations and a key."""
    return replace(directories.directory(KEY), invitations={one.id: one for one in (CODE, ADDRESS)})


def refusal(what: str, *, was: str, configured: str) -> str:
    return (
        f"auth.type is {configured}, and was {was} the last time: starting so removes everybody who could sign in and "
        f"all that lets somebody in ({what}), but no resource; set it back, or start once with --confirm-auth-change."
    )


async def fill(folder: Path, directory: Directory) -> None:
    """A state directory with these people and two sessions."""
    store, operations = SqliteStore(folder / "store.db"), SqliteOperations(folder / "ops.db")
    await amend(store, whole(directory))
    for number in (1, 2):
        await operations.put_session(row(number))
    await operations.close()
    await store.close()


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    await fill(tmp_path, people())
    started = Start(tmp_path)
    yield started
    await started.close()


EMPTY = replace(people(), users={}, members={}, keys={}, invitations={})


@pytest.mark.anyio
class TestStarting:
    """The decision, on real files."""

    async def test_a_store_of_before_with_people_was_local(self, start: Start) -> None:
        told = [await start.settle("oidc"), await start.settle("none"), await start.settle("local")]
        expected = [refusal(ALL, was="local", configured=other) for other in ("oidc", "none")]
        assert (told, await start.state()) == ([*expected, ""], ("local", people(), 2))

    async def test_what_was_used_the_last_time_counts(self, start: Start) -> None:
        assert [await start.settle(one) for one in ("local", "local")] == ["", ""]
        assert await start.settle("oidc") == refusal(ALL, was="local", configured="oidc")
        assert await start.state() == ("local", people(), 2)

    async def test_confirmed_everybody_goes_and_projects_stay(self, start: Start) -> None:
        assert await start.settle("oidc", is_confirmed=True) == ""
        assert await start.state() == ("oidc", EMPTY, 0)
        # The option once more changes nothing, and the way back has nothing to remove.
        told = [await start.settle(one, is_confirmed=True) for one in ("oidc", "oidc")]
        assert [*told, await start.settle("local")] == ["", "", ""]
        assert await start.state() == ("local", EMPTY, 0)

    async def test_what_cannot_be_used_removes_nobody(self, start: Start) -> None:
        start.unusable = "Nobody answers there."
        assert await start.settle("oidc", is_confirmed=True) == "Nobody answers there."
        assert (await start.state())[1:] == (people(), 2)
        assert await start.settle("local", is_confirmed=True) == ""  # where nothing goes, it is not asked

    async def test_the_option_removes_nobody_when_the_type_stays(self, start: Start) -> None:
        assert await start.settle("local", is_confirmed=True) == ""
        assert await start.state() == ("local", people(), 2)

    async def test_one_event_says_what_went(self, start: Start, tmp_path: Path) -> None:
        await start.settle("oidc", is_confirmed=True)
        with closing(sqlite3.connect(tmp_path / "store.db")) as store:
            events = store.execute(
                "select actor, action, kind, name, project, detail from audit where kind = 'Authentication'"
            ).fetchall()
        detail = {"before": "local", "after": "oidc", "users": 5, "members": 3, "invitations": 2, "keys": 1}
        assert [(*event[:5], json.loads(event[5])) for event in events] == [
            ("settings", "configured", "Authentication", "oidc", "", detail)
        ]

    async def test_what_cannot_be_written_removes_nobody_and_is_asked_again(self, start: Start, tmp_path: Path) -> None:
        with read_only(tmp_path / "store.db"), pytest.raises(StoreFault):
            await start.settle("oidc", is_confirmed=True)
        without = ALL.replace("sessions: 2", "sessions: 0")
        assert await start.settle("oidc") == refusal(without, was="local", configured="oidc")
        assert await start.settle("oidc", is_confirmed=True) == ""
        assert await start.state() == ("oidc", EMPTY, 0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("directory", "told"),
    [
        (Directory(), ""),
        (Directory(projects={"a": Project("a", directories.AT)}), ""),
        (
            Directory(keys={KEY.prefix: replace(KEY, project=None)}),
            "people: 0, memberships: 0, invitations: 0, keys: 1",
        ),
    ],
    ids=["nothing", "a project", "a key"],
)
async def test_where_nothing_can_be_lost_nobody_is_asked(tmp_path: Path, directory: Directory, told: str) -> None:
    await fill(tmp_path, directory)
    start = Start(tmp_path)
    first = await start.settle("none")
    then = await start.settle("local")
    assert (first, then) == ("", told and refusal(f"{told}, sessions: 2", was="none", configured="local"))
    assert await start.state() == ("none" if told else "local", directory, 2 if told else 0)
    await start.close()


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.server.starts import Start
from tests.store.engines import writer

async def main():
    folder, seen = Path(sys.argv[1]), []
    start = Start(folder)
    def look(statement):
        seen.append(statement.split(" where")[0])
        if statement == "commit" and sys.argv[2] in seen:
            os.kill(os.getpid(), 9)
    for name in ("ops.db", "store.db"):
        writer(folder / name).set_trace_callback(look)
    await start.settle("oidc", is_confirmed=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def killed(folder: Path, after: str) -> int:
    """The exit code of a start that dies before the commit of this statement."""
    command = [sys.executable, "-c", KILLED, str(folder), after]
    return subprocess.run(command, cwd=ROOT, timeout=30, check=False).returncode


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("delete from session", ("local", people(), 2)),
        ("delete from user", ("local", people(), 0)),
        ("nothing", ("oidc", EMPTY, 0)),
    ],
)
def test_a_start_that_is_killed_leaves_all_people_or_none(
    tmp_path: Path, after: str, expected: tuple[str, Directory, int]
) -> None:
    async def state() -> tuple[str | None, Directory, int]:
        start = Start(tmp_path)
        found = await start.state()
        await start.close()
        return found

    async def prepare() -> None:
        await fill(tmp_path, people())
        start = Start(tmp_path)
        await start.settle("local")
        await start.close()

    asyncio.run(prepare())
    assert (killed(tmp_path, after), asyncio.run(state())) == (-signal.SIGKILL, expected)


def refused(daemon: Daemon) -> str:
    """Return what a start says that does not come up; the log is empty afterwards."""
    daemon.log.unlink(missing_ok=True)
    daemon.launch()
    assert daemon.process.wait(daemons.START_SECONDS) == 1
    told = daemon.output()
    daemon.log.unlink()
    return told


def test_the_service_stops_until_it_is_confirmed_and_keeps_resources_and_the_key_of_its_environment(
    tmp_path: Path,
) -> None:
    with (
        hostile.providing() as provider,
        daemons.running(tmp_path / "daemon", settings={"auth": SETTINGS["local"]}) as daemon,
    ):
        daemon.apply({"kind": "Destination", "metadata": {"name": "kept"}, "spec": {"type": "otlp"}})
        assert daemon.post("/v1/projects", {"name": "search"}).status == 201
        made = daemon.post("/v1/api-keys", {"name": "robot", "role": "user", "project": "search"}).body["apiKey"]["key"]
        as_robot = {"X-Service-Api-Key": made}
        before = [daemon.resources("Destination"), daemon.history("Destination", "kept")]
        assert daemon.ask("GET", "/v1/me", None, as_robot).status == 200
        daemon.stop()

        daemon.configure([], auth=SETTINGS["oidc"])
        what = "people: 1, memberships: 0, invitations: 0, keys: 1, sessions: 0"
        expected = refusal(what, was="local", configured="oidc")
        assert [refused(daemon), refused(daemon)] == [f"error: {expected.removesuffix('.')}\n"] * 2

        # Set back, all is as it was.
        daemon.configure([], auth=SETTINGS["local"])
        daemon.start()
        assert daemon.ask("GET", "/v1/me", None, as_robot).status == 200
        daemon.stop()

        # Nobody could sign in by a provider that does not answer, so nobody goes for it.
        daemon.configure([], auth=SETTINGS["oidc"])
        daemon.options = CONFIRMED
        told = refused(daemon)
        assert told.startswith("error: nothing was removed, since nobody could sign in afterwards: "), told
        assert "127.0.0.1:9" in told

        daemon.configure([], auth=worlds.auth(provider))
        daemon.start()
        redirect = "People sign in at http://127.0.0.1:3001; the provider must know http://127.0.0.1:3001/oidc/redirect"
        daemons.until(
            lambda: f"The provider {provider.issuer} answers and can be used." in daemon.messages() or None,
            "the provider was asked",
        )
        assert f"{redirect} as redirect URI." in daemon.messages()
        assert (
            "webURL is not set, and http://127.0.0.1:3001 is not where the service listens: set it to the address that "
            "people type, where the provider sends them back to."
        ) in daemon.complaints()
        assert f"auth.type is oidc now and was local; removed {what}." in daemon.messages()
        assert daemon.ask("GET", "/v1/me", None, as_robot).status == 401
        assert [daemon.resources("Destination"), daemon.history("Destination", "kept")] == before
        found = [daemon.get(path).body for path in ("/v1/users", "/v1/api-keys")]
        assert found == [{"users": []}, {"apiKeys": []}]

        # Once more with the option, and without it.
        daemon.restart()
        daemon.options = ()
        daemon.restart()
        assert sum("removed people" in message for message in daemon.messages()) == 1
