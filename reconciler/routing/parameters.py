"""The values of a webhook's and a queue storage's parameters, as the structs that delivery works with.

Belongs here: one component's parameters over the defaults of its type. Does not: which components are used
(`compiling`), what values are allowed (`resources.fitting`).
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from reconciler import cron
from reconciler.documents.values import Value
from reconciler.resources import conforming, fitting, references, secret_files, webhooks
from reconciler.resources.component_types import ComponentType
from reconciler.resources.components import Component, unversioned
from reconciler.resources.keys import Key
from reconciler.routing.models import Buffering, Destination, Endpoint, Format, OnFull, Retry, Schedule, Storage, Sync

WEBHOOK_TYPE = references.WEBHOOK
STORAGE_TYPE = Key("ExtensionType", references.STORAGE_TYPE)


WHERE = ("scheme", "hostname", "port", "path", "headers")  # where records go, and what opens the door there
TLS = frozenset({"insecure_skip_verify", "ca_file", "mutual_tls", "cert_file", "key_file"})


class Webhook(NamedTuple):
    """What a webhook's parameters say. `storage` is the name of the Extension that keeps its queue, '' for none."""

    endpoint: Endpoint
    retry: Retry
    buffering: Buffering
    schedule: Schedule | None
    storage: str

    def destination(self, name: str, storage: Storage | None) -> Destination:
        """The destination of this name, with its queue in that storage."""
        return Destination(
            name=name,
            endpoint=self.endpoint,
            retry=self.retry,
            buffering=msgspec.structs.replace(self.buffering, storage=storage),
            schedule=self.schedule,
        )


class _Webhook(msgspec.Struct, frozen=True):
    """The parameters by name. What has no default here has one in the type, which is not empty."""

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


class _Storage(msgspec.Struct, frozen=True):
    sync: Sync
    max_bytes: int
    directory: str = ""


def webhook(given: list[Value], component_type: ComponentType | None) -> Webhook | None:
    """What the parameters of a webhook say, secrets in clear; None when they do not fit the type, which is told to
    whoever stores them.
    """
    if component_type is None or _misfits("Destination", given, component_type):
        return None
    try:
        values = msgspec.convert(conforming.settled(given, component_type), _Webhook)
    except msgspec.ValidationError:
        return None
    schedule = _schedule(values)
    if schedule is not None and cron.wrong(schedule.cron, timezone=schedule.timezone) is not None:
        return None
    is_stored = values.sending_queue_enabled and values.persistent_queue_enabled
    return Webhook(
        endpoint=_endpoint(values, _marked(given)),
        retry=_retry(values),
        buffering=_buffering(values),
        schedule=schedule,
        storage=unversioned(values.persistent_queue_storage) if is_stored else "",
    )


def leads_elsewhere(
    good: list[Value], later: list[Value], component_type: ComponentType, *, names: Iterable[str] = WHERE
) -> bool:
    """Whether a later version of a webhook has other values of these parameters. A value that is missing or wrong there
    is no change.
    """
    before = conforming.settled(good, component_type)
    after = _valid(later, component_type)
    return any(_compared(name, after[name]) != _compared(name, before.get(name)) for name in names if name in after)


def with_later_tls(good: list[Value], later: list[Value], component_type: ComponentType) -> list[Value]:
    """The same with what a later version says about TLS, as far as that is right."""
    said = {name: value for name, value in _valid(later, component_type).items() if name in TLS}
    kept = [one for one in good if not (isinstance(one, dict) and one.get("name") in said)]
    added: list[Value] = [{"name": name, "value": value} for name, value in said.items()]
    return [*kept, *added]


def _valid(given: list[Value], component_type: ComponentType) -> dict[str, Value]:
    """The values that break no rule, by name."""
    component = Component("Destination", component_type.name, (), given)
    wrong = {one.pointer[1] for one in fitting.misfitting(component, component_type) if len(one.pointer) > 1}
    right = [one for position, one in enumerate(given) if position not in wrong]
    return conforming.canonical(right, component_type)


def _compared(name: str, value: Value) -> Value:
    if name != "path":
        return value or None
    text = value if isinstance(value, str) else ""
    return f"/{text.removeprefix('/')}"  # a request has one slash there, also for none


def storage(name: str, given: list[Value], component_type: ComponentType | None) -> Storage | None:
    """What the parameters of the Extension of this name say; None when they do not fit the type."""
    if component_type is None or _misfits("Extension", given, component_type):
        return None
    try:
        values = msgspec.convert(conforming.settled(given, component_type), _Storage)
    except msgspec.ValidationError:
        return None
    return Storage(directory=values.directory or name, max_bytes=values.max_bytes, sync=values.sync)


def _misfits(kind: str, given: list[Value], component_type: ComponentType) -> bool:
    component = Component(kind, component_type.name, (), given)
    return bool(fitting.misfitting(component, component_type))


def _marked(given: list[Value]) -> tuple[str, ...]:
    values = (each.get("value") for each in given if isinstance(each, dict) and each.get("sensitive") is True)
    return tuple(value for value in values if isinstance(value, str))


def _endpoint(values: _Webhook, marked: tuple[str, ...]) -> Endpoint:
    """What concerns TLS counts under `https` alone, and what concerns mutual TLS where that is on."""
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
    """The name of a file, however it is written. What is none is left as it is: reading it says what is wrong."""
    reference = secret_files.named(value)
    return value if reference is None else reference.name


def _retry(values: _Webhook) -> Retry:
    initial, longest = webhooks.intervals(
        values.retry_on_failure_initial_interval,
        values.retry_on_failure_max_interval,
        values.retry_on_failure_max_elapsed_time,
    )
    return Retry(
        enabled=values.retry_on_failure_enabled,
        initial_interval=float(initial),
        max_interval=float(longest),
        max_elapsed=float(values.retry_on_failure_max_elapsed_time),
    )


def _buffering(values: _Webhook) -> Buffering:
    """Without its storage, which somebody else looks up."""
    return Buffering(
        queue=values.sending_queue_enabled,
        consumers=values.sending_queue_num_consumers,
        max_batches=values.sending_queue_queue_size,
        on_full=values.on_full,
        storage=None,
    )


def _schedule(values: _Webhook) -> Schedule | None:
    if not values.delivery_schedule:
        return None
    return Schedule(cron=values.delivery_schedule, window=values.delivery_window, timezone=values.delivery_timezone)
