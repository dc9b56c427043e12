"""The settings as values: one class per topic, each field with its meaning, unit, default and off-switch.

`loading` reads them and reports mistakes; `layers` knows their sources. A test compares these classes with
docs/settings.md.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from reconciler.model import secret_references
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.values import Pointer
from reconciler.settings import layers, scalars
from reconciler.settings.repositories import Repository
from reconciler.settings.scalars import Allowed, Mistake, Topic, credential, setting


class Audit(Topic):
    """Settings of the audit log."""

    retention: scalars.Duration = setting(30 * 24 * 3600.0, "Time for which audit events are kept.")


OneSeverity = Annotated[Severity, Allowed("info, warning, error or critical")]
OneType = Annotated[NotificationType, Allowed("a type of docs/notifications.md such as RepositoryUnreachable")]
AlertURL = Annotated[
    str, scalars.or_nothing(scalars.alert_url), Allowed('an http or https URL without a user or fragment, or ""')
]


class Notifications(Topic):
    """Settings of notifications and alerts."""

    interval: scalars.Duration = setting(2.0, "Time between two checks for causes.")
    retention: scalars.Duration = setting(30 * 24 * 3600.0, "Time for which a resolved notification is kept.")


class AlertTarget(Topic):
    """A target of alerts about the beginning and the end of notifications."""

    name: scalars.Name = Field(description="The name in the log; unique.")
    url: AlertURL = setting("", "The address that gets the alerts. Off: empty, with `urlFile`.")
    url_file: scalars.OptionalPath = setting(None, "File with a secret URL, instead of `url`. Off: empty.")
    secret_file: scalars.OptionalPath = setting(None, "File with the secret that signs alerts. Off: empty, unsigned.")
    severities: tuple[OneSeverity, ...] = setting((), "Only these severities. Off: empty, all.")
    types: tuple[OneType, ...] = setting((), "Only these types. Off: empty, all.")
    projects: tuple[scalars.Project, ...] = setting((), "Only these projects. Off: empty, all, and the organization.")

    def contradictions(self) -> Iterator[Mistake]:
        """Yield a target without an address, or with two."""
        if not (self.url or self.url_file):
            yield (), "needs url or urlFile"
        if self.url and self.url_file:
            yield ("urlFile",), "must not be given beside url"


SHORTEST_KEY = 32  # characters; a shorter one can be guessed
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

    url: scalars.StoreURL = credential("sqlite:////var/lib/reconciler/store.db", "The store's database.")
    worker_url: scalars.WorkerURL = credential(
        "", "With PostgreSQL, the same database with a role that may only read. Off: empty, with SQLite."
    )

    @property
    def is_postgresql(self) -> bool:
        """True if several replicas may share the store."""
        return self.url.startswith(scalars.POSTGRESQL)

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the mistakes of a worker on PostgreSQL without its own role, and of a role on SQLite."""
        if self.is_postgresql and not self.worker_url:
            yield ("workerUrl",), "is required where store.url is postgresql://; name a role there that may only read"
        if self.worker_url and not self.is_postgresql:
            yield ("workerUrl",), "must be empty where store.url is sqlite:///"


class Replica(Topic):
    """This process among those that share a store."""

    name: scalars.Name = setting("replica", "The name of this replica; unique among those of one store.")
    url: scalars.OptionalWebURL = setting("", "The address at which other replicas reach this one. Off: empty.")


class TLS(Topic):
    """The listener's certificate; the two files go together."""

    cert_file: scalars.OptionalPath = setting(None, "File with the certificate chain, PEM. Off: empty.")
    key_file: scalars.OptionalPath = setting(None, "File with the private key, PEM. Off: empty.")

    def contradictions(self) -> Iterator[Mistake]:
        """Yield one file without the other."""
        return self.pair("cert_file", "key_file")


class Outbound(Topic):
    """Connections that the service opens: webhooks, sign-in, alerts."""

    proxy: scalars.OptionalWebURL = setting("", "Proxy for all of them. Off: empty.")
    ca_file: scalars.OptionalPath = setting(None, "Certificate authorities to trust. Off: empty, the system's.")


class API(Topic):
    """Settings of the HTTP interface."""

    api_versions: tuple[scalars.Filled, ...] = setting((API_VERSION,), "Further values of `apiVersion` to accept.")
    max_body_bytes: scalars.Bytes = setting(8 << 20, "Largest request body, in bytes.")
    max_resources: scalars.PositiveCount = setting(10_000, "Most resources in one request.")

    @property
    def accepted_versions(self) -> frozenset[str]:
        """Every `apiVersion` that a resource may have."""
        return frozenset((API_VERSION, *self.api_versions))


class Judging(Topic):
    """Settings for judging documents."""

    unknown_parameters: Annotated[Literal["warn", "refuse"], Allowed("warn or refuse")] = setting(
        "warn",
        "An unknown parameter: `warn` stores it, masked, with a note; `refuse` makes the resource invalid, "
        "as always for `webhook` and `file_storage`.",
    )

    @property
    def refuse_unknown(self) -> bool:
        """True if a parameter without a definition makes any resource invalid."""
        return self.unknown_parameters == "refuse"


class Secrets(Topic):
    """The variables and files that references to secrets may name."""

    env: tuple[scalars.EnvPattern, ...] = setting(
        secret_references.DEFAULT_PATTERNS,
        "Patterns of the environment variables that resources may refer to; `SERVICE_*` never matches.",
    )
    directory: scalars.OptionalPath = setting(
        None,
        "Folder with one folder of secret files per project; "
        "when empty, systemd's `$CREDENTIALS_DIRECTORY`, else `<stateDir>/secrets`.",
    )


class CustomClaims(Topic):
    """Names of the claims and groups that carry roles and projects."""

    groups: scalars.Filled = setting("groups", "Claim with the groups.")
    group_ids: scalars.Filled = setting("group_ids", "Claim with the groups if the one above is missing.")
    roles: scalars.Filled = setting("roles", "Claim with the roles.")
    organization_admin: scalars.Filled = setting("service_org_admin", "Claim that makes an organization admin.")
    projects: scalars.Filled = setting("service_projects", "Claim with the projects.")
    default_role: scalars.Filled = setting("service_default_role", "Claim with the default role.")
    org_admin_group_name: scalars.Filled = setting("service-org-admin", "Group of the organization admins.")
    projects_group_prefix: scalars.Filled = setting("service-projects-", "Prefix of a project's group.")
    admin_group_name: scalars.Filled = setting("service-admin", "Group that gives `admin`.")
    user_group_name: scalars.Filled = setting("service-user", "Group that gives `user`.")
    viewer_group_name: scalars.Filled = setting("service-viewer", "Group that gives `viewer`.")


class FirstAdmin(Topic):
    """The only person who may become the first organization admin."""

    claim: scalars.Text = setting("", "Claim that identifies the first admin. Off: empty, the first person.")
    value: scalars.Text = setting("", "The claim's value, or one of its values.")


OPENID = "openid"
WELL_KNOWN = "/.well-known/openid-configuration"  # OpenID Connect Discovery 1.0, 4


class OIDC(Topic):
    """The OpenID Connect provider."""

    issuer: scalars.OptionalIssuer = setting("", "The provider's issuer URL.")
    oauth2_client_id: scalars.Text = setting("", "The client id from the provider.")
    oauth2_client_secret: Secret = setting(SecretStr(""), "The client secret from the provider.")
    scopes: tuple[scalars.Filled, ...] = setting(
        ("openid", "profile", "email"),
        "Scopes to ask for. When this is not set, also `groups` if the provider offers it.",
    )
    disable_invitations: scalars.Boolean = setting(False, "Admit people by claims only. Off: `false`.")
    first_admin: FirstAdmin = setting(FirstAdmin(), "Who alone may become the first organization admin.")
    custom_claims: CustomClaims = setting(CustomClaims(), "Names of claims and groups.")

    def provider_mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes in a provider's settings; pointers begin in this section."""
        needed = {
            "issuer": self.issuer,
            "oauth2ClientID": self.oauth2_client_id,
            "oauth2ClientSecret": self.oauth2_client_secret.get_secret_value(),
        }
        for key, value in needed.items():
            if not value:
                # The sentence names both ways to set the key, because its place may be either.
                variable = layers.variable_of(("auth", "oidc", key))
                yield (key,), f"is required where auth.type is oidc; set auth.oidc.{key} in the file, or {variable}"
        parts = urlsplit(self.issuer)
        if parts.path.rstrip("/").endswith(WELL_KNOWN):
            yield ("issuer",), f"must not end in {WELL_KNOWN}, which is looked for there; leave that part out"
        # OpenID Connect Discovery 1.0, 3, requires https. On this machine http is safe.
        if parts.scheme == "http" and not scalars.is_loopback(parts.hostname or ""):
            yield ("issuer",), "must begin with https:// beyond this machine, since nothing else proves who answers"
        # OpenID Connect Core 1.0, 3.1.2.1: without it there is no ID token.
        if OPENID not in self.scopes:
            yield ("scopes",), "must hold `openid`, without which a provider tells nobody's identity"
        # One of the two alone would admit the first person, or anybody without the claim.
        for pointer, sentence in self.first_admin.pair("claim", "value"):
            yield ("firstAdmin", *pointer), sentence


class Session(Topic):
    """The lifetimes of browser sessions."""

    idle: scalars.Duration = setting(7200.0, "Time after the last request.")
    lifetime: scalars.Duration = setting(43200.0, "Total time; then claims are read again.")


class Auth(Topic):
    """The ways to sign in."""

    type: AuthType = setting(
        "local", "How people sign in: with a password, through a provider, or not at all (on this machine only)."
    )
    oidc: OIDC = setting(OIDC(), "The OpenID Connect provider.")
    session: Session = setting(Session(), "How long a browser stays signed in.")

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the mistakes in the provider, if people sign in through it."""
        if self.type == "oidc":
            for pointer, sentence in self.oidc.provider_mistakes():
                yield ("oidc", *pointer), sentence


class Egress(Topic):
    """The addresses to which the service may deliver."""

    allow: tuple[scalars.Network, ...] = setting(
        (), "Networks that deliveries may reach despite a shorter prefix in `deny`."
    )
    deny: tuple[scalars.Network, ...] = setting(
        (), "Networks that deliveries may not reach, besides those always refused. Off: empty."
    )


class DeadLetters(Topic):
    """Records that could not be delivered and are kept."""

    max_age: scalars.Duration = setting(2592000.0, "Time for which a dead letter is kept.")
    max_bytes: scalars.DiskBytes = setting(
        1 << 30, "Size of one destination's dead letters; the oldest are deleted first."
    )


class Delivery(Topic):
    """Accepting and delivering log records."""

    otlp_listen: scalars.OptionalListen = setting(
        None, "A second listener, for log records only; port 0 is any. Off: empty."
    )
    max_in_flight_bytes: scalars.Bytes = setting(128 << 20, "Bytes of log requests in memory.")
    max_request_bytes: scalars.Bytes = setting(20 << 20, "Bytes of one log request, as sent and as decoded.")
    max_request_records: scalars.PositiveCount = setting(100_000, "Log records of one request.")
    records_per_second: scalars.Rate = setting(1_000_000, "Log records per second and sender.")
    drain_timeout: scalars.Duration = setting(5.0, "Time that a stop waits for deliveries in flight.")
    hand_over: scalars.Boolean = setting(
        False, "A stop hands queues on disk over to other replicas, in `drainTimeout` again. Off: `false`, they stay."
    )
    free_bytes: scalars.DiskBytes = setting(256 << 20, "Free disk space below which log records are refused.")
    dead_letters: DeadLetters = setting(DeadLetters(), "What could not be delivered and is kept.")
    egress: Egress = setting(Egress(), "Where deliveries may go.")


class Log(Topic):
    """The service's own log."""

    level: LogLevel = setting("info", "The lowest level to log.")
    format: LogFormat = setting("auto", "Text or JSON lines; `auto` is text on a terminal, otherwise JSON.")


# Not keys of the file: a credential may only be in the environment.
ENVIRONMENT_ONLY = frozenset({"apiKey"})


class Settings(Topic):
    """All settings. Built by `loading.load`, which says where each value came from when one is wrong."""

    web_url: scalars.WebURL = setting("http://127.0.0.1:3001", "The address of the service for people and providers.")
    listen: scalars.Listen = setting(scalars.Address("127.0.0.1", 3001), "Address of the HTTP listener; port 0 is any.")
    insecure: scalars.Boolean = setting(False, "Allow a listener beyond this machine without TLS. Off: `false`.")
    trusted_proxies: tuple[scalars.Network, ...] = setting(
        (), "Networks of proxies whose `X-Forwarded-For` counts. Off: empty."
    )
    state_dir: scalars.AbsolutePath = setting(
        Path("/var/lib/reconciler"), "Folder for mirrors, queues and the store; created with mode 0700."
    )
    store: Store = setting(Store(), "Where resources, history and runs are kept.")
    replica: Replica = setting(Replica(), "This process among those that share a store.")
    tls: TLS = setting(TLS(), "The listener's certificate.")
    outbound: Outbound = setting(Outbound(), "Connections that the service opens.")
    api: API = setting(API(), "What the HTTP interface accepts.")
    repositories: tuple[Repository, ...] = setting((), "The repositories to follow.")
    resources: Judging = setting(Judging(), "How documents of resources are judged.")
    secrets: Secrets = setting(Secrets(), "Where references to secrets may point.")
    auth: Auth = setting(Auth(), "How people sign in.")
    delivery: Delivery = setting(Delivery(), "Taking in log records and sending them on.")
    organization: scalars.Filled = setting("default", "The organization's name, in notifications.")
    notifications: Notifications = setting(Notifications(), "What the service tells of itself.")
    alerts: tuple[AlertTarget, ...] = setting((), "Who is told of notifications outside of the service.")
    audit: Audit = setting(Audit(), "Who did what, and when.")
    log: Log = setting(Log(), "The service's own log.")
    api_key: ApiKey | None = setting(None, "An organization admin's key.")

    def contradictions(self) -> Iterator[Mistake]:
        """Yield names that are not unique, and listeners and pages that the other settings do not allow."""
        named = {
            "repositories": [one.name for one in self.repositories],
            "alerts": [one.name for one in self.alerts],
        }
        for section, names in named.items():
            for index, name in enumerate(names):
                if names.index(name) != index:
                    why = f"must be unique; {section}[{names.index(name)}] has the same name"
                    yield (section, index, "name"), why
        listeners: dict[Pointer, scalars.Address | None] = {
            ("listen",): self.listen,
            ("delivery", "otlpListen"): self.delivery.otlp_listen,
        }
        far = [pointer for pointer, at in listeners.items() if at is not None and not at.loopback]
        if far and self.auth.type == "none":
            which = layers.dotted_key(far[0])
            why = f"must be local or oidc, since `{which}` is beyond this machine (127.0.0.1 or [::1])"
            yield ("auth", "type"), why
        if not (self.insecure or self.tls.cert_file):
            why = "must be on this machine (127.0.0.1 or [::1]), unless tls has both files or `insecure: true` is set"
            yield from ((pointer, why) for pointer in far)
        if self.auth.type == "oidc" and urlsplit(self.web_url).path.strip("/"):
            why = "must have no path where auth.type is oidc, since the pages are at the root of a host"
            yield ("webURL",), why
