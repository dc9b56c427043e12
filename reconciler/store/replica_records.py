"""Rows of replicas and their leases, and reports of the PostgreSQL server and the roles that they share.

Shapes alone, as in `reconciler.store.records`.
"""

from typing import NamedTuple


class Lease(NamedTuple):
    """The right of one replica to write the runs of a repository. A replica that takes it over has a greater number."""

    repository: str
    number: int


LEASE_SECONDS = 20.0
"""How long a lease lasts, and a replica counts as living, after its last beat."""


class ReplicaRow(NamedTuple):
    """A replica. `process` is a random id of its present process, `settings` a digest of the repositories that its
    settings name.
    """

    name: str
    url: str  # at which other replicas call it; empty: not at all
    version: str
    process: str
    settings: str


class HeldLease(NamedTuple):
    """A lease that has not ended."""

    repository: str
    number: int
    holder: str


class Beat(NamedTuple):
    """The living replicas by name, and the leases that have not ended, by repository."""

    living: tuple[ReplicaRow, ...]
    held: tuple[HeldLease, ...]


class ServerReport(NamedTuple):
    """A server of PostgreSQL and the database in it, as the service's role sees them."""

    version: int  # 15
    oldest: int  # that this program may use
    is_standby: bool
    unsafe: tuple[str, ...]  # settings with which an acknowledged write may be lost, as `fsync = off`
    encoding: str
    connections_left: int
    migration: int | None  # the store's version; None in an empty database
    latest: int  # that this program knows


class RoleReport(NamedTuple):
    """The role of the worker."""

    name: str
    is_elsewhere: bool  # it leads to another database than the service's
    more: tuple[str, ...]  # what it may do besides reading
    unread: tuple[str, ...]  # tables that it needs and may not read
