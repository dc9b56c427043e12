"""Connections to PostgreSQL that run the statements of `queries.sql` by name.

Errors of PostgreSQL become a `StoreFault` here, and nowhere else. Every session ends a transaction in which its client
does nothing for 10 seconds, so that a replica that was stopped keeps no lock. A read has a longer time: it locks
nothing, and its reader may be slow.
"""

import contextlib
import functools
import itertools
import math
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from time import monotonic
from typing import Any

import msgspec
import psycopg
from psycopg import errors, pq
from psycopg.adapt import AdaptersMap, Buffer, Dumper
from psycopg.conninfo import conninfo_to_dict

from reconciler.model.errors import Refused
from reconciler.store import statements
from reconciler.store.contract import BUSY, LOST_FACT, TOO_SLOW, OutcomeUnknown, StoreFault
from reconciler.store.statements import Row, Rows

PACKAGE = "reconciler.store.postgresql"
CONNECT_SECONDS = 2
UNANSWERED_MILLISECONDS = 10_000  # data that nobody confirms for so long ends a connection
IDLE_SECONDS = 10  # in a transaction; then the server ends the session, and with it its locks
READING_SECONDS = 900  # the same while one revision is read: as long as a job of the worker may take
STATEMENT_SECONDS = 60  # of one statement, or one step of a read
WRITING_SECONDS = 300.0  # of a transaction without a limit of its own, with its wait for others
UNUSED_SECONDS = 1.0  # after which a connection is tried before it is used
FETCHED = 50  # rows in one step of a read; a row may have megabytes
REPLACED = "\ufffd"  # for a NUL character, which PostgreSQL does not store in text

READ = (
    b"begin transaction isolation level repeatable read read only; "
    b"set local idle_in_transaction_session_timeout = '%ds'" % READING_SECONDS
)
WRITE = b"begin transaction isolation level read committed read write"
URL_SETTING = "store.url"
UNKNOWN_OPTION = re.compile(r'invalid URI query parameter: "(\w+)"')  # as libpq says it
WRONG_VALUE = re.compile(r'bad value for (\w+)|for connection option "(\w+)"|invalid "?(\w+)"? (?:value|number):')
WAITING = b"set local lock_timeout = %d; set local statement_timeout = %d"  # milliseconds
UNREACHABLE = "PostgreSQL does not answer this replica, so that nothing can be read or written; try again."
UNKNOWN = (
    "The connection to PostgreSQL was lost while a change was confirmed, so it may have been stored, or not; read the "
    "state again before you repeat it."
)


@functools.cache
def load_queries() -> Mapping[str, bytes]:
    """Return every named statement."""
    return {name: sql.encode() for name, sql in statements.load(PACKAGE).items()}


@functools.cache
def _with_revision(name: str) -> bytes:
    """Return a statement with the revision of its snapshot as its first column. It returns one row even if it finds
    none.
    """
    return (
        b"select f.number, x.* from fact f left join lateral (select true, q.* from (%b\n) q) x on true "
        b"where f.key = 'revision'" % load_queries()[name]
    )


class PostgresqlConnection:
    """See `statements.Connection`. Raises psycopg.Error."""

    def __init__(self, address: str, *, name: str = "reconciler") -> None:
        """Connect. `name` is what the server shows of the session. Raises `StoreFault`, Refused."""
        self._opened = _connect(address, name)
        self._cursors = itertools.count(1)
        self._deadline = math.inf

    @property
    def is_lost(self) -> bool:
        """True if the connection can no longer be used."""
        return self._opened.closed

    def cut(self) -> None:
        """End the connection from another thread, without a message to the server. Callers that wait for it fail."""
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._opened.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)

    def descriptor(self) -> int:
        """Return the file descriptor of its socket."""
        return self._opened.fileno()

    def run(self, name: str, *arguments: object) -> int:
        return self._execute(name, arguments).rowcount

    def each(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        every = list(rows)
        if len(every) == 1:
            self._execute(name, every[0])
        elif every:
            self._check_deadline()
            with self._opened.cursor() as cursor:
                cursor.executemany(load_queries()[name], every)

    def all(self, name: str, *arguments: object) -> list[Row]:
        return self._execute(name, arguments).fetchall()

    def first(self, name: str, *arguments: object) -> Row | None:
        return self._execute(name, arguments).fetchone()

    def first_seen(self, name: str, *arguments: object) -> tuple[Row | None, int]:
        """Return the first row of a statement, and the revision that it was read at."""
        self._check_deadline()
        row = self._opened.execute(_with_revision(name), arguments, prepare=True, binary=True).fetchone()
        if row is None:
            raise StoreFault(LOST_FACT.format(name="revision"))
        revision, is_found, *columns = row
        return tuple(columns) if is_found else None, revision

    def value(self, name: str, *arguments: object) -> Any:
        row = self.first(name, *arguments)
        if row is None:
            raise StoreFault(LOST_FACT.format(name=name))
        return row[0]

    def stream(self, name: str, *arguments: object) -> Rows:
        # Other statements may run between its steps, unlike in a query whose rows are sent as they are found.
        cursor = self._opened.cursor(f"c{next(self._cursors)}", binary=True, withhold=not self._in_transaction)
        cursor.execute(load_queries()[name], arguments)
        return _CursorRows(self, cursor)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        if self._in_transaction:
            yield
            return
        self.plain(READ)
        try:
            yield
        finally:
            self._roll_back()

    @contextlib.contextmanager
    def writing(self, deadline: float = math.inf) -> Iterator[None]:
        with self.transaction(deadline):
            try:
                self.first("lock_revision")
            except (errors.LockNotAvailable, errors.QueryCanceled) as cause:
                raise StoreFault(BUSY) from cause
            yield

    @contextlib.contextmanager
    def transaction(self, deadline: float = math.inf) -> Iterator[None]:
        """Write in a transaction that does not wait for other changes of the store, or in the one that has begun.

        Raises StoreFault at the deadline, and OutcomeUnknown.
        """
        now = monotonic()
        self._deadline = now + WRITING_SECONDS if deadline == math.inf else deadline
        try:
            self._begin(self._deadline - now)
            yield
        except errors.QueryCanceled as cause:
            self._roll_back()
            if monotonic() >= self._deadline:
                raise StoreFault(TOO_SLOW) from cause
            raise
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._deadline = math.inf
        self._commit()

    def hold(self, project: str, seconds: float) -> None:
        """Begin a transaction that holds a project's lock. Raises TimeoutError."""
        try:
            self._begin(seconds)
            self.first("lock_project", project)
        except (errors.LockNotAvailable, errors.QueryCanceled) as cause:
            raise TimeoutError from cause

    def _begin(self, seconds: float) -> None:
        """Begin a transaction, unless one has begun. The time limit holds for each of its statements and locks."""
        milliseconds = max(1, int(seconds * 1000))
        waiting = WAITING % (milliseconds, milliseconds)
        self.plain(waiting if self._in_transaction else b"%s; %s" % (WRITE, waiting))

    def release(self) -> None:
        """Roll back the transaction that has begun, if there is one."""
        self._roll_back()

    def beat(self) -> None:
        """Keep the session alive while its transaction is idle."""
        self.plain(b"select 1")

    def plain(self, sql: bytes) -> None:
        """Run a statement, or several, without arguments."""
        self._opened.execute(sql, prepare=False)

    def interrupt(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._opened.cancel_safe(timeout=CONNECT_SECONDS)

    def faults(self, done: str) -> AbstractContextManager[None]:
        return faults(done)

    def storable(self, text: str) -> str:
        return text.replace("\0", REPLACED)

    def close(self) -> None:
        self._opened.close()

    @property
    def _in_transaction(self) -> bool:
        return self._opened.info.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)

    def _execute(self, name: str, arguments: Sequence[object]) -> psycopg.Cursor[Row]:
        self._check_deadline()
        return self._opened.execute(load_queries()[name], arguments, prepare=True, binary=True)

    def _check_deadline(self) -> None:
        if monotonic() >= self._deadline:
            raise StoreFault(TOO_SLOW)

    def _commit(self) -> None:
        try:
            self.plain(b"commit")
        except errors.IdleInTransactionSessionTimeout:  # the session was ended before that
            raise
        except psycopg.Error as cause:
            if self.is_lost:
                raise OutcomeUnknown(UNKNOWN) from cause
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if not self.is_lost and self._in_transaction:
            with contextlib.suppress(psycopg.Error):
                self.plain(b"rollback")


class _CursorRows:
    """The rows of a cursor on the server, some at a time."""

    def __init__(self, connection: PostgresqlConnection, cursor: "psycopg.ServerCursor[Row]") -> None:
        self._connection = connection
        self._cursor = cursor
        self._fetched: Iterator[Row] = iter(())

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        for row in self._fetched:
            return row
        self._fetched = iter(self._cursor.fetchmany(FETCHED))
        return next(self._fetched)

    def close(self) -> None:
        if not self._connection.is_lost:
            self._cursor.close()


class Connections:
    """A pool of connections. Its users limit their number."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = Lock()
        self._unused: list[tuple[float, PostgresqlConnection]] = []
        self._used: set[PostgresqlConnection] = set()
        self._is_lost = False
        self._is_closed = False

    def lose(self) -> None:
        """Record that the server does not answer. Calls in progress fail now, and new ones fail at once."""
        self._is_lost = True
        with self._lock:
            waiting = [*self._used]
        for connection in waiting:
            connection.cut()
        self._close_unused()

    def find(self) -> None:
        """Record that the server answers again."""
        self._is_lost = False

    def take(self) -> PostgresqlConnection:
        """Take a working connection. Raises StoreFault."""
        while not self._is_lost and (found := self._pop()) is not None:
            since, connection = found
            self._use(connection)
            if monotonic() - since < UNUSED_SECONDS:
                return connection
            try:
                connection.beat()
            except psycopg.Error:
                with self._lock:
                    self._used.discard(connection)
                connection.close()
            else:
                return connection
        if self._is_lost:
            raise StoreFault(UNREACHABLE)
        return self._use(PostgresqlConnection(self._address))

    def _use(self, connection: PostgresqlConnection) -> PostgresqlConnection:
        """Record that a caller may wait for an answer on a connection."""
        with self._lock:
            self._used.add(connection)
        if self._is_lost:  # it was lost in this moment
            connection.cut()
        return connection

    def give(self, connection: PostgresqlConnection) -> None:
        """Return a connection to the pool. If it is lost, the others are lost too: the server was restarted, or cannot
        be reached.
        """
        connection.release()
        with self._lock:
            self._used.discard(connection)
            if not connection.is_lost and not self._is_closed:
                self._unused.append((monotonic(), connection))
                return
        connection.close()
        self._close_unused()

    @contextlib.contextmanager
    def one(self) -> Iterator[PostgresqlConnection]:
        """Use a connection. Raises StoreFault."""
        connection = self.take()
        try:
            yield connection
        finally:
            self.give(connection)

    def close(self) -> None:
        """Close the unused connections, and from now on each that is given back."""
        self._is_closed = True
        self._close_unused()

    def _pop(self) -> tuple[float, PostgresqlConnection] | None:
        with self._lock:
            return self._unused.pop() if self._unused else None

    def _close_unused(self) -> None:
        while (found := self._pop()) is not None:
            found[1].close()


def url_options(url: str, setting: str = URL_SETTING) -> dict[str, Any]:
    """Return the parts and options of a URL of PostgreSQL by libpq's names. Raises Refused."""
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError as problem:  # it may quote the URL, with its password
        if unknown := UNKNOWN_OPTION.search(str(problem)):
            told = f"`{setting}` has an option `{unknown[1]}` that libpq does not know; correct or remove it"
        else:
            told = f"`{setting}` is no URL that libpq can read; write it as postgresql://user@host:5432/database"
        raise Refused(f"{told} (docs/settings.md).") from None


def wrong_option(problem: psycopg.Error, setting: str = URL_SETTING) -> Refused | None:
    """Return the error for an option of a URL whose value libpq does not understand, if a connection failed for it."""
    found = WRONG_VALUE.search(str(problem))
    if found is None:
        return None
    return Refused(
        f"`{setting}` gives the option `{found[found.lastindex or 0]}` a value that libpq does not understand; "
        "correct or remove it (docs/settings.md)."
    )


def session_parameters(address: str, name: str) -> dict[str, Any]:
    """Return the parameters of every session of this process, with the limits of its waits. Raises Refused."""
    given = url_options(address)
    settings = {
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        "statement_timeout": f"{STATEMENT_SECONDS}s",
        "synchronous_commit": "on",  # an answer of 202 promises that the change survives a power cut
    }
    options = " ".join(f"-c {key}={value}" for key, value in settings.items())
    defaults = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": UNANSWERED_MILLISECONDS,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "application_name": name,
    }
    parameters: dict[str, Any] = {**defaults, **given}
    parameters["options"] = f"{given.get('options', '')} {options}".strip()
    parameters["client_encoding"] = "utf8"
    return parameters


def _connect(address: str, name: str) -> psycopg.Connection[Row]:
    parameters = session_parameters(address, name)
    try:
        opened = psycopg.connect(
            **parameters, autocommit=True, prepare_threshold=0, context=_ADAPTERS, cursor_factory=psycopg.RawCursor
        )
    except psycopg.Error as problem:
        raise wrong_option(problem) or fault("opened", problem) from problem
    opened.prepared_max = None
    opened.server_cursor_factory = psycopg.RawServerCursor
    return opened


@contextlib.contextmanager
def faults(done: str, *, of: str = "store") -> Iterator[None]:
    """Turn errors of PostgreSQL into a `StoreFault` that says what could not be done."""
    try:
        yield
    except psycopg.Error as cause:
        raise fault(done, cause, of=of) from cause


def fault(done: str, cause: psycopg.Error, *, of: str = "store") -> StoreFault:
    """Return the `StoreFault` for an error of PostgreSQL. It contains no values of rows."""
    told = cause.diag.message_primary or "; ".join(filter(None, map(str.strip, str(cause).splitlines())))
    return StoreFault(f"The {of} could not be {done} ({told.rstrip('.')}); nothing was changed: {_advice(cause)}.")


def _advice(cause: psycopg.Error) -> str:
    state = cause.sqlstate or ""
    if isinstance(cause, psycopg.OperationalError) and (not state or state.startswith(("08", "57P", "25P"))):
        return "look if PostgreSQL runs and can be reached at the address of `store.url`"
    if state.startswith("28"):
        return "look at the user and the password of `store.url`"
    if state.startswith("XX"):
        return "PostgreSQL's files may be damaged; look at its log, or restore a backup (docs/recovery.md)"
    if state == errors.ReadOnlySqlTransaction.sqlstate:
        return "this server only reads; name the one that writes with `store.url`"
    if state == errors.QueryCanceled.sqlstate:
        return "it took too long; look at the load of PostgreSQL"
    return "look at the disk's space and permissions where PostgreSQL runs, and at its log"


# Arguments have no type, so the server takes that of the column: a statement is prepared once, whatever it is given.


class _Text(Dumper):
    def dump(self, obj: str) -> Buffer:
        return obj.encode() if "\0" not in obj else obj.replace("\0", REPLACED).encode()


class _Number(Dumper):
    def dump(self, obj: int) -> Buffer:
        return b"%d" % obj

    def quote(self, obj: int) -> Buffer:
        return b"%d" % obj


class _Bytes(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: bytes) -> Buffer:
        return obj


class _Array(Dumper):
    def dump(self, obj: list[object]) -> Buffer:
        return msgspec.json.encode(_without_nul(obj))


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", REPLACED)
    return [_without_nul(one) for one in value] if isinstance(value, list | tuple) else value


def _adapters() -> AdaptersMap:
    found = AdaptersMap(psycopg.adapters)
    for kind, dumper in ((str, _Text), (int, _Number), (bool, _Number), (bytes, _Bytes), (list, _Array)):
        found.register_dumper(kind, dumper)
    return found


_ADAPTERS = _adapters()
