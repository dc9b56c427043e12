"""The settings as values: one class per topic, each field with its meaning, unit, default and off-switch.

`loading` reads them and reports mistakes; `layers` knows their sources. A test compares these classes with
docs/settings.md.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, SecretStr, Strict
from pydantic_settings import BaseSettings, SettingsConfigDict

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.values import Pointer, Value
from reconciler.settings import scalars
from reconciler.settings.repositories import Repository
from reconciler.settings.scalars import (
    AbsolutePath,
    Address,
    Allowed,
    Boolean,
    Bytes,
    DiskBytes,
    Duration,
    EnvPatterns,
    Filled,
    Listen,
    Name,
    Network,
    OptionalIssuer,
    OptionalListen,
    OptionalPath,
    OptionalWebURL,
    PositiveCount,
    Project,
    Rate,
    StoreURL,
    Text,
    Topic,
    WebURL,
    topic_key,
)


class Audit(Topic):
    """Settings of the audit log."""

    retention: Duration = Field(default=30 * 24 * 3600.0, description="Time for which audit events are kept.")


OneSeverity = Annotated[Severity, Allowed("info, warning, error or critical")]
OneType = Annotated[NotificationType, Allowed("a type of docs/notifications.md such as RepositoryUnreachable")]
AlertURL = Annotated[
    str,
    Strict(),
    AfterValidator(scalars.alert_url),
    Allowed('an http or https URL without a user or fragment, or ""'),
]


class Notifications(Topic):
    """Settings of what the service tells of itself."""

    interval: Duration = Field(default=2.0, description="Time between two checks for causes.")
    retention: Duration = Field(default=30 * 24 * 3600.0, description="Time for which a resolved notification is kept.")


class Alert(Topic):
    """A receiver of alerts when a notification opens, and when it ends."""

    name: Name = Field(description="The name in the log; unique.")
    url: AlertURL = Field(default="", description="The address that gets the alerts. Off: empty, with `urlFile`.")
    url_file: OptionalPath = Field(default=None, description="File with a secret URL, instead of `url`. Off: empty.")
    secret_file: OptionalPath = Field(
        default=None, description="File with the secret that signs alerts. Off: empty, unsigned."
    )
    severities: tuple[OneSeverity, ...] = Field(default=(), description="Only these severities. Off: empty, all.")
    types: tuple[OneType, ...] = Field(default=(), description="Only these types. Off: empty, all.")
    projects: tuple[Project, ...] = Field(
        default=(),
        description="Only these projects. Off: empty, all, and the organization.",
    )


def alert_mistakes(alert: dict[str, Value]) -> Iterator[tuple[Pointer, str]]:
    """Which keys of an alert do not fit each other, as (the key's pointer in it, the sentence)."""
    given = [key for key in ("url", "urlFile") if alert.get(key) not in ("", None)]
    if not given:
        yield (), "needs url or urlFile"
    elif len(given) > 1:
        yield ("urlFile",), "must not be given beside url"


SHORTEST_KEY = 32  # characters; what is shorter can be guessed
API_VERSION = "service/v1"


def _api_key(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if len(text) < SHORTEST_KEY or not (text.isascii() and text.isprintable()):
        raise ValueError
    return value


ApiKey = Annotated[
    SecretStr, AfterValidator(_api_key), Allowed(f"at least {SHORTEST_KEY} characters, all of them printable ASCII")
]
Secret = Annotated[SecretStr, Allowed("a string")]
AuthType = Annotated[Literal["local", "oidc", "none"], Allowed("local, oidc or none")]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], Allowed("debug, info, warning or error")]
LogFormat = Annotated[Literal["auto", "text", "json"], Allowed("auto, text or json")]


class Store(Topic):
    """The database of resources, history and runs."""

    url: StoreURL = Field(default="sqlite:////var/lib/reconciler/store.db", description="The store's database.")


class TLS(Topic):
    """The listener's certificate; the two files go together."""

    cert_file: OptionalPath = Field(default=None, description="File with the certificate chain, PEM. Off: empty.")
    key_file: OptionalPath = Field(default=None, description="File with the private key, PEM. Off: empty.")


class Outbound(Topic):
    """Connections that the service opens: webhooks, sign-in, alerts."""

    proxy: OptionalWebURL = Field(default="", description="Proxy for all of them. Off: empty.")
    ca_file: OptionalPath = Field(
        default=None, description="Certificate authorities to trust. Off: empty, the system's."
    )


class API(Topic):
    """Settings of the HTTP interface."""

    api_versions: tuple[Filled, ...] = Field(
        default=(API_VERSION,), description="Further values of `apiVersion` to accept."
    )
    max_body_bytes: Bytes = Field(default=8 << 20, description="Largest request body, in bytes.")
    max_resources: PositiveCount = Field(default=10_000, description="Most resources in one request.")

    @property
    def accepted_versions(self) -> frozenset[str]:
        """Every `apiVersion` that a resource may carry."""
        return frozenset((API_VERSION, *self.api_versions))


class Judging(Topic):
    """How documents of resources are judged."""

    unknown_parameters: Annotated[Literal["warn", "refuse"], Allowed("warn or refuse")] = Field(
        default="warn",
        description="An unknown parameter: `warn` stores it, masked, with a note; `refuse` makes the resource invalid, "
        "as always for `webhook` and `file_storage`.",
    )

    @property
    def refuse_unknown(self) -> bool:
        """True if a parameter without a definition makes any resource invalid."""
        return self.unknown_parameters == "refuse"


class Secrets(Topic):
    """The places to which references to secrets may point."""

    env: EnvPatterns = Field(
        default=("DESTINATION_<PROJECT>__*",),
        description="Patterns of the environment variables that resources may refer to; `SERVICE_*` never matches.",
    )
    directory: OptionalPath = Field(
        default=None,
        description="Folder with one folder of secret files per project; "
        "when empty, systemd's `$CREDENTIALS_DIRECTORY`, else `<stateDir>/secrets`.",
    )


class CustomClaims(Topic):
    """Names of the claims and groups that carry roles and projects."""

    groups: Filled = Field(default="groups", description="Claim with the groups.")
    group_ids: Filled = Field(default="group_ids", description="Claim with the groups if the one above is missing.")
    roles: Filled = Field(default="roles", description="Claim with the roles.")
    organization_admin: Filled = Field(
        default="service_org_admin", description="Claim that makes an organization admin."
    )
    projects: Filled = Field(default="service_projects", description="Claim with the projects.")
    default_role: Filled = Field(default="service_default_role", description="Claim with the default role.")
    org_admin_group_name: Filled = Field(default="service-org-admin", description="Group of the organization admins.")
    projects_group_prefix: Filled = Field(default="service-projects-", description="Prefix of a project's group.")
    admin_group_name: Filled = Field(default="service-admin", description="Group that gives `admin`.")
    user_group_name: Filled = Field(default="service-user", description="Group that gives `user`.")
    viewer_group_name: Filled = Field(default="service-viewer", description="Group that gives `viewer`.")


class FirstAdmin(Topic):
    """The only person who may become the first organization admin."""

    claim: Text = Field(default="", description="Claim that identifies the first admin. Off: empty, the first person.")
    value: Text = Field(default="", description="The claim's value, or one of its values.")


class OIDC(Topic):
    """The OpenID Connect provider."""

    issuer: OptionalIssuer = Field(default="", description="The provider's issuer URL.")
    oauth2_client_id: Text = Field(default="", description="The client id from the provider.")
    oauth2_client_secret: Secret = Field(default=SecretStr(""), description="The client secret from the provider.")
    scopes: tuple[Filled, ...] = Field(
        default=("openid", "profile", "email"),
        description="Scopes to ask for. When this is not set, also `groups` if the provider offers it.",
    )
    disable_invitations: Boolean = Field(default=False, description="Admit people by claims only. Off: `false`.")
    first_admin: FirstAdmin = Field(
        default=FirstAdmin(), description="Who alone may become the first organization admin."
    )
    custom_claims: CustomClaims = Field(default=CustomClaims(), description="Names of claims and groups.")


class Session(Topic):
    """How long somebody who signed in with a browser stays so."""

    idle: Duration = Field(default=7200.0, description="Time after the last request.")
    lifetime: Duration = Field(default=43200.0, description="Total time; then claims are read again.")


class Auth(Topic):
    """How people sign in."""

    type: AuthType = Field(
        default="local",
        description="How people sign in: with a password, through a provider, or not at all (on this machine only).",
    )
    oidc: OIDC = Field(default=OIDC(), description="The OpenID Connect provider.")
    session: Session = Field(default=Session(), description="How long a browser stays signed in.")


class Egress(Topic):
    """The addresses to which the service may deliver."""

    allow: tuple[Network, ...] = Field(
        default=(), description="Networks that deliveries may reach despite a shorter prefix in `deny`."
    )
    deny: tuple[Network, ...] = Field(
        default=(), description="Networks that deliveries may not reach, besides those always refused. Off: empty."
    )


class DeadLetters(Topic):
    """Records that could not be delivered and are kept."""

    max_age: Duration = Field(default=2592000.0, description="Time for which a dead letter is kept.")
    max_bytes: DiskBytes = Field(
        default=1 << 30, description="Size of one destination's dead letters; the oldest are deleted first."
    )


class Delivery(Topic):
    """Taking in log records and sending them on."""

    otlp_listen: OptionalListen = Field(
        default=None, description="A second listener, for log records only; port 0 is any. Off: empty."
    )
    max_in_flight_bytes: Bytes = Field(default=128 << 20, description="Bytes of log requests in memory.")
    max_request_bytes: Bytes = Field(default=20 << 20, description="Bytes of one log request, as sent and as decoded.")
    max_request_records: PositiveCount = Field(default=100_000, description="Log records of one request.")
    records_per_second: Rate = Field(default=1_000_000, description="Log records per second and sender.")
    drain_timeout: Duration = Field(default=5.0, description="Time that a stop waits for deliveries in flight.")
    free_bytes: DiskBytes = Field(default=256 << 20, description="Free disk space below which log records are refused.")
    dead_letters: DeadLetters = Field(default=DeadLetters(), description="What could not be delivered and is kept.")
    egress: Egress = Field(default=Egress(), description="Where deliveries may go.")


class Log(Topic):
    """The service's own log."""

    level: LogLevel = Field(default="info", description="The lowest level to log.")
    format: LogFormat = Field(
        default="auto", description="Text or JSON lines; `auto` is text on a terminal, otherwise JSON."
    )


class Settings(BaseSettings):
    """All settings. Built by `loading.load`, which says where each value came from when one is wrong."""

    model_config = SettingsConfigDict(
        alias_generator=topic_key, extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=False
    )
    # Not a key of the file: a credential belongs in the environment alone.
    ENVIRONMENT_ONLY: ClassVar[frozenset[str]] = frozenset({"apiKey"})

    web_url: WebURL = Field(
        default="http://127.0.0.1:3001", description="The address of the service for people and providers."
    )
    listen: Listen = Field(
        default=Address("127.0.0.1", 3001), description="Address of the HTTP listener; port 0 is any."
    )
    insecure: Boolean = Field(
        default=False, description="Allow a listener beyond this machine without TLS. Off: `false`."
    )
    trusted_proxies: tuple[Network, ...] = Field(
        default=(),
        description="Networks of proxies whose `X-Forwarded-For` counts. Off: empty.",
    )
    state_dir: AbsolutePath = Field(
        default=Path("/var/lib/reconciler"),
        description="Folder for mirrors, queues and the store; created with mode 0700.",
    )
    store: Store = Field(default=Store(), description="Where resources, history and runs are kept.")
    tls: TLS = Field(default=TLS(), description="The listener's certificate.")
    outbound: Outbound = Field(default=Outbound(), description="Connections that the service opens.")
    api: API = Field(default=API(), description="What the HTTP interface accepts.")
    repositories: tuple[Repository, ...] = Field(default=(), description="The repositories to follow.")
    resources: Judging = Field(default=Judging(), description="How documents of resources are judged.")
    secrets: Secrets = Field(default=Secrets(), description="Where references to secrets may point.")
    auth: Auth = Field(default=Auth(), description="How people sign in.")
    delivery: Delivery = Field(default=Delivery(), description="Taking in log records and sending them on.")
    organization: Filled = Field(default="default", description="The organization's name, in notifications.")
    notifications: Notifications = Field(default=Notifications(), description="What the service tells of itself.")
    alerts: tuple[Alert, ...] = Field(default=(), description="Who is told of notifications outside of the service.")
    audit: Audit = Field(default=Audit(), description="Who did what, and when.")
    log: Log = Field(default=Log(), description="The service's own log.")
    api_key: ApiKey | None = Field(default=None, description="An organization admin's key.")
