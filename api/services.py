"""The services that the API calls. The composition root (`reconciler.server.parts`) gives them."""

from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from api import headers as headers_of_answers
from api.headers import Header
from reconciler.auth.accounts import Accounts
from reconciler.auth.passwords import SigningIn
from reconciler.auth.rate_limits import RateLimits, RefusedAttempts, SentForms
from reconciler.auth.sessions import Sessions
from reconciler.delivery.contract import Delivery, IntakeRoom, RecordRates
from reconciler.delivery.otlp.models import RequestLimits
from reconciler.git.hooks import HookMemory
from reconciler.model.clock import Clock
from reconciler.model.principals import Actor, Principal
from reconciler.notifications.board import Board
from reconciler.notifications.outbox import Outbox
from reconciler.ops.metric_families import Measured
from reconciler.reconcile.apply import Applier
from reconciler.review.service import Reviewing
from reconciler.store.contract import Store

if TYPE_CHECKING:  # what only sign-in through a provider needs is not loaded without one
    from reconciler.auth.oidc.provider import Provider
    from reconciler.auth.people import People


class Repositories(Protocol):
    """The watched repositories and the runs that are queued or running."""

    async def all(self, *, projects: frozenset[str] | None) -> list[bytes]:
        """Every repository of these projects, of all when None, as a JSON object, sorted by name."""

    def project_of(self, name: str) -> str | None:
        """The project that a repository fills, or None for an unknown one."""

    async def one(self, name: str) -> bytes | None:
        """One repository as a JSON object, or None."""

    def reconcile(self, name: str, *, actor: Actor) -> str | None:
        """Ask for a run; the id of the run that will cover it, or None for an unknown repository. Raises Suspended."""

    def hook_secret_file(self, name: str) -> Path | None:
        """The file with the secret of a repository's hook; None without a hook, and for an unknown repository."""

    def hint(self, name: str) -> None:
        """Look at a repository now, since a forge says that something was pushed. Nothing happens for one that is
        unknown or suspended.
        """

    async def approve(self, name: str, *, commit: str, actor: Actor, request: str) -> str | None:
        """Let go what is held at a commit; the id of the run that deletes it, or None for an unknown repository.

        Raises NotHeld, Suspended.
        """

    async def suspend(
        self, name: str, *, reason: str, until: datetime | None, actor: Actor, request: str
    ) -> bytes | None:
        """Look at a repository no more; the repository as JSON, or None for an unknown one."""

    async def resume(self, name: str, *, actor: Actor, request: str) -> str | None:
        """Look at a repository again; the id of the run that reads it whole, or None for an unknown one.

        Raises Suspended when a setting suspends it.
        """

    def run(self, run: str) -> bytes | None:
        """A queued or running run as a JSON object, or None: then ask the store."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a door may use.

    An empty `api_key` is one that nobody holds. `anybody` is who asks without a credential, None where one is asked
    for; then the service answers to its own names alone, that of `web_url` among them. `trusted_proxies` say where a
    request comes from. `headers` go with every answer. `rates`, `room` and `log_limits` bound what `/v1/logs` takes in;
    `in_flight` counts requests under way by the name of who asks, on every listener, `paces` what is begun by whoever
    is unknown, `refusals` who was refused, `sent_forms` what must not count twice.
    `measured` is what the service counts of itself. `outbox` is there where the settings name targets of alerts.

    `auth_type` is `local`, `oidc` or `none`. `people`, `provider` and `flow_key`, which seals what a browser carries
    through the provider, are there with `oidc` alone; `takes_invitations` says whether invitations admit anybody.
    `has_tls` says whether the listener has TLS itself: a proxy may have it instead, which `web_url` tells.
    """

    store: Store
    applier: Applier
    repositories: Repositories
    reviewing: Reviewing
    accounts: Accounts
    signing_in: SigningIn
    clock: Clock
    api_key: str
    max_body_bytes: int
    deliveries: Delivery
    rates: RecordRates
    room: IntakeRoom
    log_limits: RequestLimits
    sessions: Sessions
    board: Board
    outbox: Outbox | None = None
    auth_type: str = "local"
    people: "People | None" = None
    provider: "Provider | None" = None
    flow_key: bytes = field(default=b"", repr=False)
    takes_invitations: bool = False
    anybody: Principal | None = None
    web_url: str = ""
    has_tls: bool = False
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    headers: tuple[Header, ...] = headers_of_answers.SECURITY
    hooks: HookMemory = field(default_factory=HookMemory)
    in_flight: dict[str, int] = field(default_factory=dict)
    paces: RateLimits = field(default_factory=RateLimits)
    sent_forms: SentForms = field(default_factory=SentForms)
    refusals: RefusedAttempts = field(default_factory=RefusedAttempts)
    measured: Measured = field(default_factory=Measured)
