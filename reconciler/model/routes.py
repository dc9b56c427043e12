"""Routes: where Configurations run, which of them deliver, to which destinations, and why not. Pure.

Routes are plain frozen values that the worker makes and the main process gets as a message. Sensitive parameters have
their stored text: references to secrets are resolved for each request, and never kept. A disabled component, or one
that names a disabled resource, does not count, nor does anything in it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from reconciler.model import components, cron, names, text, type_checks, webhooks
from reconciler.model.component_types import ComponentType
from reconciler.model.components import Component, unversioned
from reconciler.model.names import Key
from reconciler.model.values import Pointer, Value, pointer_text


class Format(StrEnum):
    """The content of one request: a JSON array of records, or one record."""

    JSON_ARRAY = "json_array"
    SINGLE = "single"


class OnFull(StrEnum):
    """The policy for records when a queue is full."""

    REJECT = "reject"  # no destination accepts anything of the request
    DEAD_LETTER = "dead_letter"  # they become dead letters of this destination; others accept their share
    DROP_NEWEST = "drop_newest"  # this destination drops and counts them; others accept their share


class Sync(StrEnum):
    """The time at which accepted records are forced to disk."""

    COMMIT = "commit"  # before the sender is answered
    INTERVAL = "interval"  # twice a second
    NONE = "none"  # whenever the system writes


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The target of requests. `path` is empty or begins with `/` and holds the query. `timeout` in seconds.

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
    marked: tuple[str, ...] = ()  # texts of other parameters than `headers` that the document marks as sensitive

    def __repr__(self) -> str:
        """Leave out the headers."""
        return f"Endpoint({self.verb} {self.scheme}://{self.host}:{self.port})"


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The retries after failures, in seconds. `max_elapsed` 0: without end."""

    enabled: bool = True
    initial_interval: float = 5.0
    max_interval: float = 30.0
    max_elapsed: float = 300.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The times at which sending is allowed: it begins at `cron` (five fields, in `timezone`) and lasts `window`
    minutes.
    """

    cron: str
    window: int = 60
    timezone: str = "UTC"


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The place and limits of a queue on disk: `directory` is a plain name; `max_bytes` bounds each queue in it."""

    directory: str = "file_storage_persistent_queue"
    max_bytes: int = 1 << 30
    sync: Sync = Sync.COMMIT


class Buffering(msgspec.Struct, frozen=True, kw_only=True):
    """The buffering of records. Without `queue` they are sent while their sender waits for the answer.

    `max_batches` counts full batches (`delivery.queue.contract.load`). `storage` is None for a queue in memory.
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
    """A Configuration that delivered before, and wants the records whose resource has all of `labels`, but cannot
    deliver them. Until an instant, in Unix milliseconds, their senders are asked to keep them.
    """

    labels: tuple[tuple[str, str], ...] = ()
    until: int


class Routes(msgspec.Struct, frozen=True, kw_only=True):
    """All routes of a project, sorted by name, as of one revision of the store. `former` are requested destinations
    without a route, by the newest version that was a webhook: their remaining queues drain with these settings.
    """

    project: str
    revision: int = 0
    routes: tuple[Route, ...] = ()
    destinations: tuple[Destination, ...] = ()
    former: tuple[Destination, ...] = ()
    wanting: tuple[Wanting, ...] = ()


OTLP = "otlp"  # the type of the sources that delivery takes records from
WEBHOOK = "webhook"  # the type of the destinations that it sends them to


class RunsOn(StrEnum):
    """The place where a Configuration or a component runs."""

    SERVICE = "service"
    COLLECTORS = "collectors"


def type_runs_on(key: Key) -> tuple[RunsOn, ...]:
    """Return where the components of a type run."""
    if key in type_checks.EXECUTED:
        return (RunsOn.SERVICE,)
    return (RunsOn.SERVICE, RunsOn.COLLECTORS) if key == ("SourceType", OTLP) else (RunsOn.COLLECTORS,)


@dataclass(frozen=True, slots=True)
class ComponentUse:
    """The facts of a component. `processes`: it contains an enabled inline processor. `uses` are the enabled Processors
    that it names, each once.
    """

    type: str = ""
    disabled: bool = False
    processes: bool = False
    uses: tuple[str, ...] = ()


Parts: TypeAlias = Callable[[Key], ComponentUse | None]
"""Looks up a component that is a resource; returns None if it cannot be read."""


def component_use(spec: Value) -> ComponentUse:
    """Return the facts of a component: the spec of a resource, or an entry in a list of a Configuration."""
    if not isinstance(spec, Mapping):
        return ComponentUse()
    enabled = [each for each in component_entries(spec.get("processors")) if not is_disabled(each)]
    names = (component_name(each) for each in enabled)
    return ComponentUse(
        type=components.type_name_of(spec) or "",
        disabled=is_disabled(spec),
        processes=any(component_name(each) is None for each in enabled),
        uses=tuple(sorted({each for each in names if each is not None})),
    )


def is_webhook(part: ComponentUse | None) -> bool:
    """Return True if a component is a destination to which the service delivers."""
    return part is not None and part.type == WEBHOOK


def component_entries(listed: Value) -> list[dict[str, Value]]:
    """Return the components of a list."""
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def in_place(spec: Value, given_id: str) -> Value:
    """Return the inline destination of a Configuration with this id."""
    listed = component_entries(spec.get("destinations")) if isinstance(spec, Mapping) else []
    return next((each for each in listed if component_name(each) is None and each.get("id") == given_id), None)


def is_disabled(component: Mapping[str, Value]) -> bool:
    """Return True if a component is disabled."""
    return component.get("disabled") is True


def component_name(component: Mapping[str, Value]) -> str | None:
    """Return the resource that a component names, without a version; None for an inline one."""
    named = component.get("name")
    return components.unversioned(named) if isinstance(named, str) else None


ON_COLLECTORS = "It has `runsOn: collectors`, so its selector picks collectors; write `service` to deliver records."
INCOMPLETE = "It is incomplete; complete what `status.incomplete` lists."
RAW = "It holds `raw`, which the service does not run; use sources and destinations."
NO_SOURCE = "It has no enabled source of type `otlp`; add one."
NO_DESTINATION = "It has no enabled destination of type `webhook`; add one."
NEITHER = "It has no enabled source of type `otlp` and no enabled destination of type `webhook`; add them."
ROUTES = "{at} has `routes`, which the service does not follow yet; remove them or disable the component."
PROCESSOR = "{at} has an enabled processor, which the service cannot run yet; remove or disable it."
NAMED_PROCESSOR = "{at} has the enabled processor `{name}`, which the service cannot run yet; remove or disable it."
IS_PROCESSOR = "{at} is an enabled processor, which the service cannot run yet; remove or disable it."
UNREADABLE = "{at} names a {kind} that cannot be read; apply that anew."
NO_ID = "{at} is a webhook in place without an `id`; give it one, since its name is made of it."
BAD_ID = "{at} is a webhook in place, and its `id` " + names.NAME_RULE + "; choose another."
SAME_ID = "{at} is a webhook in place with the `id` of another one; give it an `id` of its own."
UNFIT = "{at} is a webhook with parameters that do not fit their type; correct them."
LEFT_OUT = {
    RunsOn.SERVICE: "{at} is of type `{type}`, which runs on collectors only; the service leaves it out",
    RunsOn.COLLECTORS: "{at} is of type `{type}`, which runs in the service only; collectors leave it out",
}
"""Sentences about components that do not run where their Configuration does."""


class Use(NamedTuple):
    """A webhook of a Configuration: its name as a destination, and its component. `key` is the named resource, None for
    an inline one, whose parameters are `given`.
    """

    name: str
    at: Pointer
    key: Key | None
    given: list[Value]


class RouteVerdict(NamedTuple):
    """The decision if a Configuration delivers. `reason` is one sentence that says why it does not, '' if it does; only
    then it has `webhooks`. `left_out` has sentences about the components that do not run where the Configuration does.
    """

    reason: str = ""
    webhooks: tuple[Use, ...] = ()
    runs_on: RunsOn = RunsOn.SERVICE
    left_out: tuple[str, ...] = ()


class CompiledRoutes(NamedTuple):
    """The route of a Configuration with its destinations; or no route and the reason if it does not deliver."""

    verdict: RouteVerdict
    route: Route | None = None
    destinations: tuple[Destination, ...] = ()


Make: TypeAlias = Callable[[Use], Destination | None]
"""Makes the destination of a webhook; returns None if its parameters do not fit their type."""


def route_verdict(name: str, spec: Value, *, ready: bool, known: Parts) -> RouteVerdict:
    """Decide if the Configuration of this name delivers, apart from its parameters.

    `ready` is that of its status; `known` looks up the components that it names, and those that they name.
    """
    enabled = [*_enabled(name, spec, known)]
    runs_on = _runs_on_field(spec) or (RunsOn.SERVICE if _wants(spec, enabled) else RunsOn.COLLECTORS)
    reason = next(_reasons(spec, enabled, known, ready=ready), "")
    webhooks: dict[str, Use] = {}
    for one in () if reason else enabled:
        if one.delivers:
            webhooks.setdefault(one.use.name, one.use)
    left_out = tuple(text.bounded(_left_out(enabled, runs_on)))
    return RouteVerdict(reason, tuple(webhooks.values()), runs_on, left_out)


def _runs_on_field(spec: Value) -> RunsOn | None:
    said = spec.get("runsOn") if isinstance(spec, Mapping) else None
    return RunsOn(said) if isinstance(said, str) and said in set(RunsOn) else None


def _reasons(spec: Value, enabled: list["_Enabled"], known: Parts, *, ready: bool) -> Iterator[str]:
    """Yield the reasons against delivery, the most important first."""
    if _runs_on_field(spec) is RunsOn.COLLECTORS:
        yield ON_COLLECTORS
    if not ready:
        yield INCOMPLETE
    if _has_raw(spec):
        yield RAW
    yield from _obstacles(enabled, known)


def _left_out(enabled: Iterable["_Enabled"], runs_on: RunsOn) -> Iterator[str]:
    """Yield a sentence for each component that does not run there; a processor in the service is an obstacle."""
    for one in enabled:
        is_obstacle = one.kind == "Processor" and runs_on is RunsOn.SERVICE
        if one.type and not is_obstacle and runs_on not in type_runs_on(Key(f"{one.kind}Type", one.type)):
            yield LEFT_OUT[runs_on].format(at=pointer_text(one.use.at), type=one.type)


def compile_routes(name: str, spec: Value, *, ready: bool, known: Parts, make: Make) -> CompiledRoutes:
    """Return the route and the destinations of the Configuration with this name, or the reason why it has none."""
    found = route_verdict(name, spec, ready=ready, known=known)
    if found.reason:
        return CompiledRoutes(found)
    destinations = []
    for use in found.webhooks:
        destination = make(use)
        if destination is None:
            return CompiledRoutes(found._replace(reason=UNFIT.format(at=pointer_text(use.at))))
        destinations.append(destination)
    named = tuple(dict.fromkeys(one.name for one in destinations))
    return CompiledRoutes(
        found, Route(configuration=name, labels=labels(spec), destinations=named), destinations=(*destinations,)
    )


def wants(name: str, spec: Value, known: Parts) -> tuple[Use, ...]:
    """Return the webhooks to which the Configuration of this name sends records, even if it cannot deliver now; none if
    it says that it runs on collectors, has `raw`, or has no enabled source of type `otlp`. A component that cannot be
    read does not count as removed. The name of a webhook in place without a fitting `id` ends with the colon.
    """
    return () if _runs_on_field(spec) is RunsOn.COLLECTORS else _wants(spec, [*_enabled(name, spec, known)])


def _wants(spec: Value, enabled: list["_Enabled"]) -> tuple[Use, ...]:
    if _has_raw(spec) or not any(one.kind == "Source" and one.type in (OTLP, None) for one in enabled):
        return ()
    return tuple(one.use for one in enabled if one.kind == "Destination" and one.type in (WEBHOOK, None))


def _has_raw(spec: Value) -> bool:
    return isinstance(spec, Mapping) and spec.get("raw") is not None


class _Enabled(NamedTuple):
    """An enabled component with its content. For a component that names a resource, this is the resource, or None if it
    cannot be read. `use` is for webhooks.
    """

    kind: str
    component: dict[str, Value]
    part: ComponentUse | None
    use: Use

    @property
    def type(self) -> str | None:
        """Its type; None if it cannot be read."""
        return None if self.part is None else self.part.type

    @property
    def delivers(self) -> bool:
        """True for a webhook, to which the service delivers."""
        return self.kind == "Destination" and self.type == WEBHOOK


def _enabled(name: str, spec: Value, known: Parts) -> Iterator[_Enabled]:
    """Yield the enabled components."""
    for kind, at, component in _components(spec):
        target = component_name(component)
        part = component_use(component) if target is None else known(Key(kind, target))
        if is_disabled(component) or (part is not None and part.disabled):
            continue
        given_id = component.get("id")
        fits = isinstance(given_id, str) and names.wrong_name(given_id) is None
        called = target or f"{name}:{given_id if fits else ''}"
        key = None if target is None else Key(kind, target)
        yield _Enabled(kind, component, part, Use(called, at, key, components.given_parameters(component)))


def _obstacles(enabled: list[_Enabled], known: Parts) -> Iterator[str]:
    """Yield the reasons in its components against delivery."""
    for one in enabled:
        if one.part is None:
            yield UNREADABLE.format(at=pointer_text(one.use.at), kind=one.kind)
    has_source = any(one.kind == "Source" and one.type == OTLP for one in enabled)
    webhooks = [one for one in enabled if one.delivers]
    if not has_source and not webhooks:
        yield NEITHER  # first, because correcting other things would not make it deliver
    for one in enabled:
        if one.component.get("routes"):
            yield ROUTES.format(at=pointer_text(one.use.at))
    for one in enabled:
        yield from _processors(one, known)
    if not has_source:
        yield NO_SOURCE
    if not webhooks:
        yield NO_DESTINATION
    yield from _wrong_ids([one for one in webhooks if one.use.key is None])


def _processors(one: _Enabled, known: Parts) -> Iterator[str]:
    at = pointer_text(one.use.at)
    parts = [component_use(one.component), *filter(None, [one.part])]
    if one.kind == "Processor":
        yield IS_PROCESSOR.format(at=at)
    if any(part.processes for part in parts):
        yield PROCESSOR.format(at=at)
    for name in (name for part in parts for name in part.uses):
        processor = known(Key("Processor", name))
        if processor is None:
            yield UNREADABLE.format(at=at, kind="Processor")
        elif not processor.disabled:
            yield NAMED_PROCESSOR.format(at=at, name=name)


def _wrong_ids(in_place: list[_Enabled]) -> Iterator[str]:
    """Yield the errors of ids: inline webhooks need unique ones."""
    seen: set[str] = set()
    for one in in_place:
        at = pointer_text(one.use.at)
        if not isinstance(one.component.get("id"), str):
            yield NO_ID.format(at=at)
        elif one.use.name.endswith(":"):
            yield BAD_ID.format(at=at)
        elif one.use.name in seen:
            yield SAME_ID.format(at=at)
        seen.add(one.use.name)


def _components(spec: Value) -> Iterator[tuple[str, Pointer, dict[str, Value]]]:
    """Yield (kind, pointer, component) of all lists."""
    held = spec if isinstance(spec, Mapping) else {}
    for key, kind in components.LISTS.items():
        listed = held.get(key)
        for index, component in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(component, dict):
                yield kind, ("spec", key, index), component


def labels(spec: Value) -> tuple[tuple[str, str], ...]:
    """Return the labels that a record's resource must have."""
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    given = selector.get("matchLabels") if isinstance(selector, Mapping) else None
    return tuple(sorted((key, str(value)) for key, value in given.items())) if isinstance(given, Mapping) else ()


WEBHOOK_TYPE = components.WEBHOOK
STORAGE_TYPE = Key("ExtensionType", components.STORAGE_TYPE)


WHERE = ("scheme", "hostname", "port", "path", "headers")  # the target of records, and the credentials for it
TLS = frozenset({"insecure_skip_verify", "ca_file", "mutual_tls", "cert_file", "key_file"})


class _Webhook(msgspec.Struct, frozen=True):
    """The parameters of a webhook by name. A parameter without a default here has a non-empty one in the type."""

    scheme: str
    hostname: str
    port: int
    verb: str
    content_type: str
    format: Format
    timeout: int
    insecure_skip_verify: bool
    mutual_tls: bool
    retry_on_failure_enabled: bool
    retry_on_failure_initial_interval: int
    retry_on_failure_max_interval: int
    retry_on_failure_max_elapsed_time: int
    sending_queue_enabled: bool
    sending_queue_num_consumers: int
    sending_queue_queue_size: int
    persistent_queue_enabled: bool
    persistent_queue_storage: str
    on_full: OnFull
    delivery_window: int
    delivery_timezone: str
    path: str = ""
    headers: dict[str, str] = {}  # msgspec copies it
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    delivery_schedule: str = ""


def destination(
    name: str,
    given: list[Value],
    component_type: ComponentType | None,
    *,
    storage_of: Callable[[str], Storage | None],
) -> Destination | None:
    """Make the destination of this name from the parameters of a webhook, secrets in clear. Return None if they do not
    fit the type, which is reported when they are stored, or if the Extension for its queue is unknown.
    """
    if component_type is None or _misfits("Destination", given, component_type):
        return None
    try:
        values = msgspec.convert(type_checks.settled_parameters(given, component_type), _Webhook)
    except msgspec.ValidationError:
        return None
    schedule = _schedule(values)
    if schedule is not None and cron.wrong(schedule.cron, timezone=schedule.timezone) is not None:
        return None
    is_stored = values.sending_queue_enabled and values.persistent_queue_enabled
    storage = storage_of(unversioned(values.persistent_queue_storage)) if is_stored else None
    if is_stored and storage is None:
        return None
    initial, longest = webhooks.intervals(
        values.retry_on_failure_initial_interval,
        values.retry_on_failure_max_interval,
        values.retry_on_failure_max_elapsed_time,
    )
    return Destination(
        name=name,
        endpoint=_endpoint(values, _marked(given)),
        retry=Retry(
            enabled=values.retry_on_failure_enabled,
            initial_interval=float(initial),
            max_interval=float(longest),
            max_elapsed=float(values.retry_on_failure_max_elapsed_time),
        ),
        buffering=Buffering(
            queue=values.sending_queue_enabled,
            consumers=values.sending_queue_num_consumers,
            max_batches=values.sending_queue_queue_size,
            on_full=values.on_full,
            storage=storage,
        ),
        schedule=schedule,
    )


def leads_elsewhere(
    good: list[Value], later: list[Value], component_type: ComponentType, *, names: Iterable[str] = WHERE
) -> bool:
    """Return True if a later version of a webhook changes the values of these parameters. A missing or wrong value is
    no change.
    """
    before = type_checks.settled_parameters(good, component_type)
    after = _valid(later, component_type)
    return any(_compared(name, after[name]) != _compared(name, before.get(name)) for name in names if name in after)


Endpoints: TypeAlias = dict[str, list[Value] | None]
"""The enabled webhooks of a resource by name, with their parameters; None for a webhook that it only names."""


def endpoints(key: Key, spec: Value) -> Endpoints:
    """Return the endpoints of a Destination or a Configuration."""
    if key.kind == "Destination":
        part = component_use(spec)
        return {key.name: components.given_parameters(spec)} if is_webhook(part) and not part.disabled else {}
    found: Endpoints = {}
    for component in component_entries(spec.get("destinations")) if isinstance(spec, Mapping) else ():
        named = component_name(component)
        if not is_disabled(component) and (named is not None or is_webhook(component_use(component))):
            found[named or f"{key.name}:{component.get('id')}"] = (
                None if named else components.given_parameters(component)
            )
    return found


def is_another_endpoint(good: list[Value] | None, later: list[Value] | None, lookup: type_checks.Lookup) -> bool:
    """Return True if an endpoint changed, or may have changed."""
    if good is None or later is None:
        return good is not later
    component_type = lookup(WEBHOOK_TYPE)
    return component_type is None or leads_elsewhere(good, later, component_type)


def with_later_tls(good: list[Value], later: list[Value], component_type: ComponentType) -> list[Value]:
    """Return the parameters with the valid TLS settings of a later version."""
    said = {name: value for name, value in _valid(later, component_type).items() if name in TLS}
    kept = [one for one in good if not (isinstance(one, dict) and one.get("name") in said)]
    added: list[Value] = [{"name": name, "value": value} for name, value in said.items()]
    return [*kept, *added]


def _valid(given: list[Value], component_type: ComponentType) -> dict[str, Value]:
    """Return the valid values by name."""
    component = Component("Destination", component_type.name, (), given)
    wrong = {one.pointer[1] for one in type_checks.misfitting(component, component_type) if len(one.pointer) > 1}
    right = [one for position, one in enumerate(given) if position not in wrong]
    return type_checks.canonical_parameters(right, component_type)


def _compared(name: str, value: Value) -> Value:
    if name != "path":
        return value or None
    text = value if isinstance(value, str) else ""
    return f"/{text.removeprefix('/')}"  # a request always has exactly one slash there


def queue_storage(name: str, given: list[Value], component_type: ComponentType | None) -> Storage | None:
    """Parse the parameters of the Extension of this name; None if they do not fit the type."""
    if component_type is None or _misfits("Extension", given, component_type):
        return None
    try:
        return msgspec.convert({"directory": name, **type_checks.settled_parameters(given, component_type)}, Storage)
    except msgspec.ValidationError:
        return None


def _misfits(kind: str, given: list[Value], component_type: ComponentType) -> bool:
    component = Component(kind, component_type.name, (), given)
    return bool(type_checks.misfitting(component, component_type))


def _marked(given: list[Value]) -> tuple[str, ...]:
    values = (each.get("value") for each in given if isinstance(each, dict) and each.get("sensitive") is True)
    return tuple(value for value in values if isinstance(value, str))


def _endpoint(values: _Webhook, marked: tuple[str, ...]) -> Endpoint:
    """Build the endpoint. TLS parameters count for `https` only, those of mutual TLS only if it is on."""
    secure = values.scheme == "https"
    mutual = secure and values.mutual_tls
    return Endpoint(
        scheme=values.scheme,
        host=values.hostname,
        port=values.port,
        path=f"/{values.path.lstrip('/')}" if values.path else "",
        verb=values.verb,
        content_type=values.content_type,
        format=values.format,
        headers=tuple(values.headers.items()),
        timeout=float(values.timeout),
        insecure_skip_verify=secure and values.insecure_skip_verify,
        ca_file=_file(values.ca_file) if secure else "",
        mutual_tls=mutual,
        cert_file=_file(values.cert_file) if mutual else "",
        key_file=_file(values.key_file) if mutual else "",
        marked=marked,
    )


def _file(value: str) -> str:
    """Return the name of a file in any of its forms. An invalid name stays as it is, and is reported when it is
    read.
    """
    reference = type_checks.named_secret_files(value)
    return value if reference is None else reference.name


def _schedule(values: _Webhook) -> Schedule | None:
    if not values.delivery_schedule:
        return None
    return Schedule(cron=values.delivery_schedule, window=values.delivery_window, timezone=values.delivery_timezone)
