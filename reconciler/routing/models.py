"""Frozen routes: which log records of a project go where, and how each destination wants them.

Belongs here: the values. Does not: how they are made from resources (`compiling`), nor matching (`matching`).

They are plain data, so that they cross the pipe from the reader child, where they are made. Texts of sensitive
parameters are as they were stored: references to secrets are resolved when a request is made, and never kept.
"""

from enum import StrEnum

import msgspec


class Format(StrEnum):
    """What one request holds: a JSON array of records, or one record."""

    JSON_ARRAY = "json_array"
    SINGLE = "single"


class OnFull(StrEnum):
    """What becomes of records that a full queue cannot take."""

    REJECT = "reject"  # nothing of the request is taken, by any destination
    DEAD_LETTER = "dead_letter"  # they become dead letters of this destination; others take theirs
    DROP_NEWEST = "drop_newest"  # this destination drops them, and counts them; others take theirs


class Sync(StrEnum):
    """When what was taken in is forced to disk."""

    COMMIT = "commit"  # before the sender is answered
    INTERVAL = "interval"  # twice a second
    NONE = "none"  # when the system likes


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests go. `path` is empty or begins with `/` and holds the query. `timeout` in seconds.

    `headers` are in the order of the document; their values may hold references to secrets. The three files are names
    in the project's folder of secrets, empty for none.
    """

    scheme: str = "https"
    host: str
    port: int = 8080
    path: str = ""
    verb: str = "POST"
    content_type: str = "application/json"
    format: Format = Format.JSON_ARRAY
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float = 5.0
    insecure_skip_verify: bool = False
    ca_file: str = ""
    mutual_tls: bool = False
    cert_file: str = ""
    key_file: str = ""
    marked: tuple[str, ...] = ()  # texts of other parameters than `headers` that their document calls sensitive

    def __repr__(self) -> str:
        """Without the headers."""
        return f"Endpoint({self.verb} {self.scheme}://{self.host}:{self.port})"


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How failures are repeated, in seconds. `max_elapsed` 0 is without end."""

    enabled: bool = True
    initial_interval: float = 5.0
    max_interval: float = 30.0
    max_elapsed: float = 300.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When sending is allowed: it begins at `cron` (five fields, in `timezone`) and lasts `window` minutes."""

    cron: str
    window: int = 60
    timezone: str = "UTC"


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a queue on disk lies and how: `directory` is a plain name; `max_bytes` bounds each queue in it."""

    directory: str = "file_storage_persistent_queue"
    max_bytes: int = 1 << 30
    sync: Sync = Sync.COMMIT


class Buffering(msgspec.Struct, frozen=True, kw_only=True):
    """How records wait. Without `queue` they are sent while the sender of the records waits for the answer.

    `max_batches` counts full batches (`queueing.contract.load`). `storage` is None for a queue in memory.
    """

    queue: bool = True
    consumers: int = 10
    max_batches: int = 5000
    on_full: OnFull = OnFull.REJECT
    storage: Storage | None = Storage()


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook. `name` is unique in the project: that of the resource, or `configuration:id` of one in place.

    `held`: nothing is sent to it. Records join its queue, and wait there.
    """

    name: str
    endpoint: Endpoint
    retry: Retry = Retry()
    buffering: Buffering = Buffering()
    schedule: Schedule | None = None
    held: bool = False


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A Configuration that delivers: records whose resource has all of `labels` go to these destinations, by name.

    No label matches every record.
    """

    configuration: str
    labels: tuple[tuple[str, str], ...] = ()
    destinations: tuple[str, ...] = ()


class Wanting(msgspec.Struct, frozen=True, kw_only=True):
    """A Configuration that delivered, and that wants the records whose resource has all of `labels`, but cannot deliver
    them: until an instant, in Unix milliseconds, their senders are asked to keep them.
    """

    labels: tuple[tuple[str, str], ...] = ()
    until: int


class Routes(msgspec.Struct, frozen=True, kw_only=True):
    """All of a project, sorted by name, as of one revision of the store.

    `former` are destinations that somebody asked for by name and that nothing routes to any more, as the newest version
    that was such a destination has them: a queue that is left drains by it.
    """

    project: str
    revision: int = 0
    routes: tuple[Route, ...] = ()
    destinations: tuple[Destination, ...] = ()
    former: tuple[Destination, ...] = ()
    wanting: tuple[Wanting, ...] = ()
