"""One component for Collectors: the templates of its type, evaluated with its parameters.

A type has a block for each set of signals: `logs`, `logs+metrics` and so on. Each part of a block is a template. Its
output is an ordered YAML list of maps with one key, the id of a component of the Collector. The name of the resource is
added to the id: `filelog` becomes `filelog/NAME`, `batch/2` becomes `batch/NAME__2`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from reconciler.collectors.templates import Template, TemplateFault, integer
from reconciler.model import component_types, components, documents, positions, type_checks, values
from reconciler.model.components import MASK
from reconciler.model.names import Key
from reconciler.model.positions import DocumentError
from reconciler.model.secret_references import AvailableSecrets, SecretSource, whole_secret_reference
from reconciler.model.values import Pointer, Value

SIGNALS: Final = ("logs", "metrics", "traces")
BLOCKS: Final = (*SIGNALS, "logs+metrics", "logs+traces", "metrics+traces", "logs+metrics+traces")
PARTS: Final = ("receivers", "processors", "exporters", "extensions")
_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}(?:/[-A-Za-z0-9_.]{1,255})?")
HELD: Final = (
    "the service holds the value of `{}` as a secret and shows it to nobody; write `${{env:NAME}}` in its place, which "
    "the Collector resolves itself"
)


class Entry(NamedTuple):
    """One component of a Collector: its id and its settings."""

    id: str
    config: Value


Rendered = Mapping[str, Mapping[str, list[Entry]]]
"""The entries by signal and part."""


class Origin(NamedTuple):
    """The place of a component in a resource; without `key`, in the Configuration itself."""

    key: Key | None = None
    pointer: Pointer = ()

    def listed(self, listed: Value) -> list[tuple["Origin", Value]]:
        """Return the entries of the list at this place, with their places."""
        entries = listed if isinstance(listed, list) else []
        return [(Origin(self.key, (*self.pointer, index)), one) for index, one in enumerate(entries)]

    def below(self, *steps: str) -> "Origin":
        """Return the place of a part."""
        return Origin(self.key, (*self.pointer, *steps))


class Unrenderable(Exception):
    """A component cannot be rendered. `reason` is a sentence. The parameter, the type, the template with its line, and
    the place of the component are given if known.
    """

    def __init__(
        self,
        reason: str,
        *,
        parameter: str = "",
        type_name: str = "",
        template: str = "",
        line: int = 0,
        origin: Origin | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.parameter = parameter
        self.type_name = type_name
        self.template = template
        self.line = line
        self.origin = origin


class CollectorType:
    """A type with its templates, each of which is parsed once. Use it in one thread."""

    def __init__(self, name: str, spec: Value, secrets: AvailableSecrets) -> None:
        self.name = name
        self._secrets = secrets
        self._spec = spec if isinstance(spec, dict) else {}
        self._templates: dict[tuple[str, str], Template] = {}
        self._defaults: dict[str, Value] = {}
        self._categories: dict[str, list[Value]] = {}
        self._resource = ""
        self._left_out: set[str] = set()  # parameters of the present resource
        self._definitions = {one.name: one for one in component_types.read_definitions(spec)}
        listed = self._spec.get("parameters")
        for item in listed if isinstance(listed, list) else ():
            parameter = components.parameter_name(item)
            if isinstance(item, dict) and parameter is not None:
                if item.get("default") is not None:
                    self._defaults.setdefault(parameter, item["default"])
                options = item.get("options")
                given = options.get("metricCategories") if isinstance(options, dict) else None
                self._categories.setdefault(parameter, given if isinstance(given, list) else [])

    def render(self, resource: str, given: list[Value], seconds_left: Callable[[], float]) -> Rendered:
        """Return the components of the resource with this name and these parameters. `seconds_left` raises if no time
        is left. Raises Unrenderable.
        """
        values = self._values(given)
        self._resource = resource
        found: dict[str, dict[str, list[Entry]]] = {}
        for block in BLOCKS:
            templates = self._spec.get(block)
            for part in PARTS:
                text = templates.get(part) if isinstance(templates, dict) else None
                if isinstance(text, str) and text.strip():
                    entries = self._entries(block, part, text, values, seconds_left)
                    for signal in block.split("+"):
                        found.setdefault(signal, {}).setdefault(part, []).extend(entries)
        return found

    def _values(self, given: list[Value]) -> dict[str, Value]:
        """Return the given values over the defaults that are not null. Raises Unrenderable for a secret of the service,
        and for a variable of the service. The service holds each value of a parameter that the type does not define as
        a secret: such a value is left out, since few templates use it.
        """
        found = dict(self._defaults)
        self._left_out = set()
        for parameter in given:
            name = components.parameter_name(parameter)
            value = parameter.get("value") if isinstance(parameter, dict) else None
            if name is None or value is None:
                continue
            if _is_held(value, hidden=self._is_hidden(name, parameter)):
                if name not in self._definitions:
                    self._left_out.add(name)
                    continue
                raise Unrenderable(HELD.format(name), parameter=name, type_name=self.name)
            if self._secrets.covers(values.canonical_json(value).decode()):
                told = f"the value of `{name}` {type_checks.OF_THE_SERVICE}"
                raise Unrenderable(told, parameter=name, type_name=self.name)
            found[name] = value
        return {name: component_types.canonical_value(self._definitions.get(name), one) for name, one in found.items()}

    def _is_hidden(self, name: str, parameter: Value) -> bool:
        """Return True if a value is a secret: by its definition, by its own `sensitive`, or without a definition."""
        definition = self._definitions.get(name)
        says_so = isinstance(parameter, dict) and parameter.get("sensitive") not in (None, False)
        return says_so or definition is None or definition.sensitive

    def _entries(
        self, block: str, part: str, text: str, values: dict[str, Value], seconds_left: Callable[[], float]
    ) -> list[Entry]:
        at = f"{block}.{part}"
        try:
            template = self._templates.get((block, part))
            if template is None:
                template = self._templates[block, part] = Template(text, self._functions(), seconds_left())
            output = template.output(values, seconds_left())
        except TemplateFault as fault:
            seconds_left()  # raises if the time of the Configuration is the cause
            message = HELD.format(fault.parameter) if fault.parameter in self._left_out else fault.message
            raise self._fault(at, message, line=fault.line, parameter=fault.parameter) from None
        try:
            read = documents.read(output.encode(), syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)
        except DocumentError as error:
            raise self._fault(at, f"its output is no YAML: {error.message}") from None
        listed = read[0].value if read else None
        if len(read) > 1 or not isinstance(listed, (list, type(None))):
            raise self._fault(at, "its output is not one list of components")
        entries = []
        for item in listed or ():
            if not isinstance(item, dict):
                raise self._fault(at, "its output has an entry that is not `ID: ...`")
            for key, config in item.items():
                if _ID.fullmatch(key) is None:
                    raise self._fault(at, f"`{key[:80]}` is not the id of a component")
                entries.append(Entry(self._component_id(key), config))
        return entries

    def _component_id(self, key: object) -> str:
        kind, _, number = str(key).partition("/")
        return f"{kind}/{self._resource}__{number}" if number else f"{kind}/{self._resource}"

    def _fault(self, at: str, message: str, *, line: int = 0, parameter: str = "") -> Unrenderable:
        place = f", line {line}" if line else ""
        reason = f"in `{at}` of the type `{self.name}`{place}: {message}"
        return Unrenderable(reason, parameter=parameter, type_name=self.name, template=at, line=line)

    def _functions(self) -> dict[str, Callable[..., object]]:
        """Return the helper functions that templates of existing types use."""
        return {
            "bpComponentID": self._component_id,
            "bpRouteID": lambda: self._component_id("route").removeprefix("route/"),
            "bpHasCategoryMetricsEnabled": self._has_enabled,
            "bpDisabledCategoryMetrics": self._disabled,
            "bpDefaultDisabledCategoryMetrics": self._disabled_by_default,
            "bpRenderOtelRetryOnFailureConfig": _retry,
            "bpRenderOtelSendingQueueConfig": _queue,
            "bpRenderStandardParsingOperator": _parsing_operator,
            "bpRenderMaskRules": _mask_rules,
            "bpMapSeverityNameToNumber": lambda name: _SEVERITIES.get(str(name), 0),
        }

    def _metrics(self, name: object, category: object) -> Iterator[tuple[str, bool]]:
        """Yield the metrics of a category in a parameter's definition; True for those that are off by default."""
        for one in self._categories.get(str(name), ()):
            listed = one.get("metrics") if isinstance(one, dict) and one.get("label") == category else None
            if isinstance(listed, list):
                for metric in listed:
                    if isinstance(metric, dict):
                        yield str(metric.get("name")), metric.get("defaultDisabled") is True

    def _has_enabled(self, off: list[str] | None, name: object, category: object) -> bool:
        return any(metric not in (off or ()) for metric, _ in self._metrics(name, category))

    def _disabled(self, off: list[str] | None, name: object, category: object) -> list[str]:
        return [metric for metric, _ in self._metrics(name, category) if metric in (off or ())]

    def _disabled_by_default(self, off: list[str] | None, name: object, category: object) -> list[str]:
        return [one for one, is_off in self._metrics(name, category) if is_off and one not in (off or ())]


def _is_held(value: Value, *, hidden: bool) -> bool:
    """Return True if a value is masked, or is a secret in a file of the service: `${file:NAME}`."""
    if isinstance(value, (dict, list)):
        return any(_is_held(one, hidden=hidden) for one in (value.values() if isinstance(value, dict) else value))
    reference = whole_secret_reference(value) if hidden and isinstance(value, str) else None
    return value == MASK or (reference is not None and reference.source is SecretSource.FILE)


def _retry(enabled: object, initial: object, longest: object, elapsed: object) -> str:
    if not enabled:
        return "retry_on_failure: {enabled: false}"
    times = (
        f"initial_interval: {integer(initial)}s, max_interval: {integer(longest)}s, "
        f"max_elapsed_time: {integer(elapsed)}s"
    )
    return f"retry_on_failure: {{enabled: true, {times}}}"


def _queue(enabled: object, persistent: object, storage: object, consumers: object, size: object) -> str:
    if not enabled:
        return "sending_queue: {enabled: false}"
    kept = f", storage: {json.dumps(str(storage))}" if persistent else ""
    return f"sending_queue: {{enabled: true, num_consumers: {integer(consumers)}, queue_size: {integer(size)}{kept}}}"


_SEVERITIES: Final = {
    name: 1 + 4 * index for index, name in enumerate(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"))
}
_LAYOUTS: Final = {"ISO8601": "%Y-%m-%dT%H:%M:%S.%f%z", "RFC3339": "%Y-%m-%dT%H:%M:%S.%f"}


def _parsing_operator(*given: object) -> str:
    """Return an operator of the file log receiver as JSON. It parses the body, then the timestamp and severity in it.

    Arguments: format, target, expression, parse timestamp, its field, time zone, its format, epoch layout, manual
    layout, parse severity, its field.
    """
    if len(given) != _PARSING_ARGUMENTS:
        raise ValueError(f"takes {_PARSING_ARGUMENTS} arguments")
    style, target, regex, has_time, time_field, zone, layout, epoch, manual, has_severity, severity_field = given
    operator: dict[str, object] = {}
    if style == "json":
        operator = {"type": "json_parser", "parse_to": target}
    elif style == "regex":
        operator = {"type": "regex_parser", "regex": regex, "parse_to": target}
    if operator and has_severity:
        operator["severity"] = {"parse_from": f"{target}.{severity_field}"}
    if operator and has_time:
        timestamp: dict[str, object] = {"parse_from": f"{target}.{time_field}"}
        if layout == "Epoch":
            timestamp |= {"layout_type": "epoch", "layout": epoch}
        elif layout == "Manual":
            timestamp["layout"] = manual
        elif layout in _LAYOUTS:
            timestamp["layout"] = _LAYOUTS[str(layout)]
        if zone:
            timestamp["location"] = zone
        operator["timestamp"] = timestamp
    return json.dumps(operator, sort_keys=True)


_PARSING_ARGUMENTS: Final = 11


def _mask_rules(*given: object) -> str:
    """Return the settings of a masking processor. Its rules are the entries of all maps among the arguments."""
    rules = {str(name): str(rule) for one in given if isinstance(one, dict) for name, rule in one.items()}
    return f"- mask:\n    rules: {json.dumps(rules, sort_keys=True)}\n"
