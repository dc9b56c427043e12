"""A real PostgreSQL server of a session of tests: started, stopped and killed, with fresh databases in it.

    server = Server(folder)
    server.start()
    database = server.database("one")
    engines.open_store(database.url, ...)

It writes durably (`fsync`), listens on a socket in its own folder, and with `tcp` on loopback. PostgreSQL refuses to
run as root: then an ordinary user runs it, in a folder that this user owns.
"""

import atexit
import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests import needs
from tests.servers import processes

OLDEST = 15
INSTALLED = Path("/usr/lib/postgresql")
UNPACKED = Path(__file__).parents[2] / ".venv" / "postgresql"
USERS = ("postgres", "nobody")  # who runs it in place of root: the first that is there

ADMIN, SERVICE, WORKER = "admin", "service", "worker"
PASSWORDS = {ADMIN: "canary-postgresql-admin", SERVICE: "canary-postgresql-service", WORKER: "canary-postgresql-worker"}
TEMPLATE = "empty"  # in which the worker has no rights: the service grants them
START_SECONDS = 60.0
STEP_SECONDS = 0.02
CONFIGURATION = """
fsync = on
synchronous_commit = on
max_connections = 200
shared_buffers = 32MB
max_wal_size = 512MB
unix_socket_permissions = 0777
log_min_messages = warning
logging_collector = off
"""


class Database(NamedTuple):
    """A database, and the URIs of it for the roles. Over TCP they hold passwords."""

    name: str
    url: str  # of the service, which owns it
    worker_url: str  # of the worker, which may only read
    admin_url: str  # of the superuser


class Programs(NamedTuple):
    """The programs of PostgreSQL, and the environment that they run with."""

    folder: Path
    environment: dict[str, str]

    def path(self, name: str) -> str:
        """The program of this name."""
        return str(self.folder / name)


@functools.cache
def programs() -> Programs:
    """The newest that is installed, or what `scripts/setup-providers postgresql` unpacked; a skip that names it."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "TZ": "UTC"}
    for base, unpacked in ((INSTALLED, None), (UNPACKED / "usr" / "lib" / "postgresql", UNPACKED)):
        found = sorted((int(one.name), one / "bin") for one in base.glob("*") if one.name.isdecimal())
        if not found or found[-1][0] < OLDEST or not (found[-1][1] / "initdb").is_file():
            continue
        if unpacked is None:
            return Programs(found[-1][1], environment)
        root = _entered(unpacked)
        libraries = ":".join(sorted(str(path) for path in (root / "usr" / "lib").glob("*-linux-gnu*")))
        return Programs(root / found[-1][1].relative_to(unpacked), {**environment, "LD_LIBRARY_PATH": libraries})
    return needs.lacking(f"PostgreSQL {OLDEST} or later (`make test-providers` unpacks it)")


def _entered(folder: Path) -> Path:
    """The folder, or a copy of it where the ordinary user that runs the server in place of root may not enter it."""
    if os.geteuid() != 0 or all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents)):
        return folder
    copy = Path(tempfile.mkdtemp(prefix="pg-programs-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    shutil.copytree(folder / "usr", copy / "usr", symlinks=True)
    return copy


class Server:
    """A server in a folder of its own. It is initialised once, and may be started and stopped many times."""

    def __init__(self, *, tcp: bool = False, **settings: str) -> None:
        """Make the server without starting it; `settings` are lines of its configuration."""
        self._programs = programs()
        self._user = _ordinary_user()
        # Not below the tests' own folder, which the user of the server may not enter.
        self._folder = Path(tempfile.mkdtemp(prefix="pg-", dir=os.environ.get("POSTGRESQL_TESTS", _roomy())))
        self._data, self.log = self._folder / "data", self._folder / "log"
        self.port = processes.free_port()
        self.host = processes.ADDRESS if tcp else str(self._folder)
        self._tcp = tcp
        self._process: subprocess.Popen[bytes] | None = None
        self._initialise(settings)

    @property
    def is_running(self) -> bool:
        """True until it is stopped or killed."""
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The process that started all others of it."""
        assert self._process is not None
        return self._process.pid

    @property
    def socket(self) -> Path:
        """The folder with its socket."""
        return self._folder

    def start(self) -> "Server":
        """Start it, and wait until it answers."""
        assert not self.is_running
        listen = processes.ADDRESS if self._tcp else ""
        command = [self._programs.path("postgres"), "-D", str(self._data), "-p", str(self.port)]
        command += ["-c", f"unix_socket_directories={self._folder}", "-c", f"listen_addresses={listen}"]
        with self.log.open("ab") as output:
            self._process = self._popen(command, output)
        self._wait()
        return self

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends its sessions and writes all down, `immediate` is a crash that its log mends."""
        assert self._process is not None
        self._process.send_signal({"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "smart": signal.SIGTERM}[mode])
        self._process.wait(START_SECONDS)

    def restart(self, mode: str = "fast") -> None:
        """Stop it and start it again, on the same socket and port."""
        self.stop(mode)
        self.start()

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes, SIGSTOP for instance."""
        assert self._process is not None
        main = self._process.pid  # each session has a process of its own, outside of its group
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for one in (main, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number)

    def kill(self) -> None:
        """Kill all of its processes at once."""
        assert self._process is not None
        processes.end(self._process)

    def remove(self) -> None:
        """End it, and remove all that it wrote."""
        if self.is_running:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str, role: str) -> str:
        """The URI of a database for a role."""
        host = f"{self.host}:{self.port}" if self._tcp else f":{self.port}"
        user = f"{role}:{quote(PASSWORDS[role], safe='')}" if self._tcp else role
        return f"postgresql://{user}@{host}/{database}" + ("" if self._tcp else f"?host={quote(self.host, safe='')}")

    def database(self, name: str, *, template: str = TEMPLATE) -> Database:
        """Make a fresh database of this name; one of that name goes. `template` may be another database of the server
        that nobody uses meanwhile.
        """
        self.drop(name)
        with self.admin() as connection:
            statement = sql.SQL("create database {} owner {} template {}")
            connection.execute(statement.format(*(sql.Identifier(one) for one in (name, SERVICE, template))))
            # A template's own rights are not copied.
            connection.execute(sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(name)))
        return Database(name, *(self.url(name, role) for role in (SERVICE, WORKER, ADMIN)))

    def drop(self, name: str) -> None:
        """Remove a database, and end the sessions in it."""
        with self.admin() as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL to its end."""
        command = [self._programs.path(program), *arguments]
        subprocess.run(command, env=self._programs.environment, timeout=START_SECONDS, check=True)

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A connection of the superuser, outside of transactions."""
        return psycopg.connect(self.url(database, ADMIN), autocommit=True)

    def _initialise(self, settings: dict[str, str]) -> None:
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self._folder.chmod(0o755)
        password = self._folder / "password"
        password.write_text(PASSWORDS[ADMIN])
        # Through the socket everybody is who they say; through TCP they prove it.
        command = [self._programs.path("initdb"), "-D", str(self._data), "-U", ADMIN, "--pwfile", str(password)]
        command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        with self.log.open("ab") as output:
            assert self._popen(command, output).wait(START_SECONDS) == 0, self.log.read_text()
        password.unlink()
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        with (self._data / "postgresql.auto.conf").open("a") as file:
            file.write(CONFIGURATION + lines)
        self.start()
        self._make_roles()
        self.stop()

    def _make_roles(self) -> None:
        with self.admin() as connection:
            for role in (SERVICE, WORKER):
                statement = sql.SQL("create role {} login password {}")
                connection.execute(statement.format(sql.Identifier(role), sql.Literal(PASSWORDS[role])))
            statement = sql.SQL("create database {} owner {}")
            connection.execute(statement.format(sql.Identifier(TEMPLATE), sql.Identifier(SERVICE)))

    def _popen(self, command: list[str], output: Any) -> subprocess.Popen[bytes]:
        user = self._user
        identity: dict[str, Any] = {}
        if user is not None:
            identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=self._folder,
            env=self._programs.environment,
            start_new_session=True,
            **identity,
        )

    def _wait(self) -> None:
        assert self._process is not None
        until = time.monotonic() + START_SECONDS
        while True:
            assert self._process.poll() is None, self.log.read_text()
            try:
                self.admin().close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until, self.log.read_text()
            time.sleep(STEP_SECONDS)


def _ordinary_user() -> pwd.struct_passwd | None:
    """The user who is to run the server; None if this process is not root."""
    if os.geteuid() != 0:
        return None
    known = {one.pw_name: one for one in pwd.getpwall()}
    return next((known[name] for name in USERS if name in known), None) or needs.lacking("an ordinary user")


def _roomy() -> str:
    """Memory where there is some, so that a forced write takes no disk."""
    memory = Path("/dev/shm")
    return str(memory) if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30 else "/tmp"
