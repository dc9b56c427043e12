"""The reach of a worker that was taken over and has connections to PostgreSQL: it reads on them, and opens no other."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.store import engines
from reconciler.worker import messages
from tests.postgresql.servers import PASSWORDS, Database, Server
from tests.worker import attacking
from tests.worker.test_sandbox import ATTACKS as FILES
from tests.worker.test_sandbox import NUMBERED, PREPARED

pytestmark = pytest.mark.providers

# With `own`, a socket object of the connection to PostgreSQL.
CONNECTED = {
    "connect to PostgreSQL once more": "psycopg.connect(url)",
    "connect to PostgreSQL's socket": "socket.socket(socket.AF_UNIX).connect(folder)",
    "cancel a statement, which needs a connection": "connection.cancel_safe(timeout=2)",
    "send to an address": "own.sendto(b'x', ('127.0.0.1', 1))",
    "send with an address of no bytes": "check(library.sendto(own.fileno(), b'x', 1, 0, b'a' * 16, 0))",
    "send a file": "socket.send_fds(own, [b'x'], [0])",
    "connect the connection elsewhere": "own.connect(('127.0.0.1', 1))",
    "listen": "own.listen()",
}
ATTACKS = {name: how for name, how in FILES.items() if "store" not in name and "state" not in how} | CONNECTED
PREPARED_CONNECTED = """
import psycopg
url, folder = {url!r}, {folder!r}
[view] = connected.values()
connection = view._reader._opened
own = socket.socket(fileno=os.dup(connection.fileno()))
"""
WORKS = """
done = []

def read():
    with view.snapshot() as revision:
        done.append([revision, view.owned_count("one", "default"), len(view.bodies("default", [["K", "n" * 2**20]]))])

for _ in range(2):
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
print(json.dumps(done))
"""


class Scene(NamedTuple):
    """A store on a server with passwords, and a folder of mirrors."""

    folder: Path
    database: Database
    connection: str
    address: str

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        """Run a program in a worker."""
        prepared = PREPARED.format(state=str(self.folder), mirror=str(self.folder / "mirrors"))
        prepared += PREPARED_CONNECTED.format(url=self.connection, folder=str(self.folder))
        first = messages.framed(messages.Connect(self.connection, ("commit",)))
        return subprocess.run(
            attacking.command(prepared + program, self.address, str(self.folder / "mirrors")),
            input=first.decode("latin-1"),
            encoding="latin-1",
            capture_output=True,
            timeout=60,
            check=False,
        )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("state")
    (folder / "mirrors").mkdir()
    (folder / "mirrors/config").touch()
    (folder / "secrets").mkdir()
    (folder / "secrets/token").write_text("canary-token")
    server = Server(tcp=True)
    try:
        database = server.start().database("one")

        async def opened() -> tuple[str, str]:
            made = await engines.open_store(database.url, folder, worker_url=database.worker_url)
            await made.operations.close()
            await made.store.close()
            return made.worker_connection, made.store.address

        yield Scene(folder, database, *asyncio.run(opened()))
    finally:
        server.remove()


@pytest.fixture(scope="module")
def told(scene: Scene) -> dict[str, str]:
    """Return what came of each attack."""
    done = scene.run(f"print(json.dumps({{name: name_of(how) for name, how in {ATTACKS!r}.items()}}))")
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_worker_that_was_taken_over_cannot(attack: str, told: dict[str, str]) -> None:
    if ATTACKS[attack].startswith(NUMBERED) and os.uname().machine != "x86_64":
        pytest.skip("the number is that of x86_64")
    expected = {"look a name up": "gaierror"} | dict.fromkeys(list(CONNECTED)[:3:2], "OperationalError")
    assert told[attack] == expected.get(attack, "PermissionError")


def test_it_can_do_its_work(scene: Scene) -> None:
    done = scene.run(WORKS)
    assert (done.stdout, done.stderr) == ("[[0, 0, 0], [0, 0, 0]]\n", "")


def test_its_arguments_and_its_address_hold_no_password(scene: Scene) -> None:
    assert scene.address == "postgresql:"
    assert any(password in scene.connection for password in PASSWORDS.values())
