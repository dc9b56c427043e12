"""Single values and messages of OTLP/JSON."""

import base64
import binascii
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from opentelemetry.proto.common.v1 import common_pb2

# The messages of OTLP as its JSON writes them, for the decoder.
#
# Other members are passed over, and null is as good as absent, as OTLP says of every message. What each level holds
# stays text until it is its turn, and what is large is counted first (`json_requests`): the decoder does all of a text
# at once.

Number: TypeAlias = int | float | str | None
NULL: Final = msgspec.Raw(b"null")


class JsonMessage(msgspec.Struct, rename="camel", gc=False):
    """Any of them."""


class Value(JsonMessage):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Number = None
    double_value: Number = None
    array_value: "Array | None" = None
    kvlist_value: "Map | None" = None
    bytes_value: str | None = None


class Pair(JsonMessage):
    key: str | None = None
    value: Value | None = None


class Array(JsonMessage):
    values: list[Value] | None = None


class Map(JsonMessage):
    values: list[Pair] | None = None


class EntityReference(JsonMessage):
    schema_url: str | None = None
    type: str | None = None
    id_keys: msgspec.Raw = NULL
    description_keys: msgspec.Raw = NULL


class Resource(JsonMessage):
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None
    entity_refs: list[EntityReference] | None = None


class Scope(JsonMessage):
    name: str | None = None
    version: str | None = None
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None


class LogRecord(JsonMessage):
    time_unix_nano: Number = None
    observed_time_unix_nano: Number = None
    severity_number: Number = None
    severity_text: str | None = None
    body: Value | None = None
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None
    flags: Number = None
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None


class ScopeLogs(JsonMessage):
    scope: msgspec.Raw = NULL
    log_records: msgspec.Raw = NULL
    schema_url: str | None = None


class ResourceLogs(JsonMessage):
    resource: msgspec.Raw = NULL
    scope_logs: msgspec.Raw = NULL
    schema_url: str | None = None


class Request(JsonMessage):
    resource_logs: msgspec.Raw = NULL


# Single values of OTLP's JSON put into messages of protobuf: numbers, ids, attributes, bodies.

_Found = TypeVar("_Found")
_Fill: TypeAlias = Callable[[Any, Any, int, str, int], None]
_Pairs: TypeAlias = "RepeatedCompositeFieldContainer[common_pb2.KeyValue]"

SLICE: Final = 1_000  # values between two places to pause, about a millisecond
MOST_DEPTH: Final = 100  # of values inside of each other; protobuf's own limit is lower for most of them

_DIGITS: Final = re.compile(r"-?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = frozenset(("NaN", "Infinity", "-Infinity"))
_URL_SAFE: Final = str.maketrans("-_", "+/")


class Wrong(Exception):
    """What is wrong in a document, and where, which is said from the inside to the outside on the way up."""

    def __init__(self, what: str, path: str = "") -> None:
        self.what = what
        self.path = path
        super().__init__(what)

    def within(self, path: str) -> "Wrong":
        """The same, seen from a level further out."""
        return Wrong(self.what, path + self.path)

    @staticmethod
    @contextlib.contextmanager
    def inside(path: str) -> Iterator[None]:
        """What is found wrong in here is at that path."""
        try:
            yield
        except Wrong as wrong:
            raise wrong.within(path) from None


def decoded(decode: Callable[[msgspec.Raw], _Found], text: msgspec.Raw, path: str) -> _Found:
    """What the text at that path holds. Raises Wrong when it holds something else, and what is no JSON as it is."""
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        raise misplaced(error, path) from None


def misplaced(error: msgspec.ValidationError, path: str) -> Wrong:
    """The library's sentence, which ends with the place when that is inside: ` - at `$.resourceLogs[0]``."""
    what, _, place = str(error).partition(" - at `$")
    return Wrong(what, path + place.rstrip("`"))


def integer(given: Number, name: str, *, least: int = 0, most: int) -> int:
    """A number or its digits, from `least` to below `most`; 0 for none. A number like `1e3` is one, too."""
    if given is None:
        return 0
    number: int | None = None
    if isinstance(given, int):
        number = given
    elif isinstance(given, str):
        number = int(given) if _DIGITS.fullmatch(given) else None
    elif given.is_integer():
        number = int(given)
    if number is None or not least <= number < most:
        raise Wrong(f"expected an integer from {least} to {most - 1}", f".{name}")
    return number


def double(given: int | float | str, name: str) -> float:
    """A number, its text, or one of the three that JSON has no number for."""
    if isinstance(given, str) and given not in _NOT_FINITE and not _NUMBER.fullmatch(given):
        raise Wrong("expected a number, `NaN`, `Infinity` or `-Infinity`", f".{name}")
    try:
        return float(given)
    except OverflowError:
        raise Wrong("expected a number that a double can hold", f".{name}") from None


def octets(given: str | None, name: str) -> bytes:
    """An id in hexadecimal, in letters of any case."""
    try:
        return binascii.unhexlify(given or "")
    except ValueError:
        raise Wrong("expected hexadecimal digits, two for each byte", f".{name}") from None


class Filling:
    """Puts the values of log records, resources and scopes into messages.

    What is inside of arrays and maps is put there at once, or waits for `steps`, so that others may have their turn in
    between.
    """

    def __init__(self, *, at_once: bool) -> None:
        self._at_once = at_once
        self._waiting: list[tuple[_Fill, Any, Sequence[Any], int, str, int]] = []

    def attributes(self, into: _Pairs, given: Sequence[Pair] | None) -> None:
        """Add them to what a message has. Raises Wrong."""
        if given:
            self._inside(self._pairs, into, given, ".attributes", 0)

    def body(self, into: common_pb2.AnyValue, given: Value) -> None:
        """Put a record's body there. Raises Wrong."""
        try:
            is_container = _scalar(into, given)
        except Wrong as wrong:
            raise wrong.within(".body") from None
        if is_container:
            self._container(into, given, ".body", 0)

    def steps(self) -> Iterator[None]:
        """Do all that waits, and stop at places to pause. Raises Wrong."""
        work = 0
        while self._waiting:
            fill, into, given, first, path, depth = self._waiting.pop()
            fill(into, given, first, path, depth)
            work += len(given) + 1
            if work > SLICE:
                work = 0
                yield

    def _pairs(self, into: Any, given: Sequence[Pair], first: int, path: str, depth: int) -> None:
        for number, pair in enumerate(given, first):
            message, value = into.add(key=pair.key or ""), pair.value
            if value is None:
                continue
            try:
                is_container = _scalar(message.value, value)
            except Wrong as wrong:
                raise wrong.within(f"{path}[{number}].value") from None
            if is_container:
                self._container(message.value, value, f"{path}[{number}].value", depth)

    def _items(self, into: Any, given: Sequence[Value], first: int, path: str, depth: int) -> None:
        for number, value in enumerate(given, first):
            message = into.add()
            try:
                is_container = _scalar(message, value)
            except Wrong as wrong:
                raise wrong.within(f"{path}[{number}]") from None
            if is_container:
                self._container(message, value, f"{path}[{number}]", depth)

    def _container(self, into: common_pb2.AnyValue, given: Value, path: str, depth: int) -> None:
        """The inside of an array or a map."""
        if depth == MOST_DEPTH:
            raise Wrong(f"values are nested more than {MOST_DEPTH} levels deep", path)
        if given.array_value is not None:
            into.array_value.SetInParent()
            items = given.array_value.values or ()
            self._inside(self._items, into.array_value.values, items, f"{path}.arrayValue.values", depth + 1)
        elif given.kvlist_value is not None:
            into.kvlist_value.SetInParent()
            pairs = given.kvlist_value.values or ()
            self._inside(self._pairs, into.kvlist_value.values, pairs, f"{path}.kvlistValue.values", depth + 1)

    def _inside(self, fill: _Fill, into: Any, given: Sequence[Any], path: str, depth: int) -> None:
        if self._at_once:
            fill(into, given, 0, path, depth)
            return
        for first in reversed(range(0, len(given), SLICE)):  # what waits last comes first
            self._waiting.append((fill, into, given[first : first + SLICE], first, path, depth))


def _scalar(into: common_pb2.AnyValue, given: Value) -> bool:
    """Put a value there, but for what is inside of an array or map; tells whether it is one of these.

    A value has at most one of its members; without any it is the empty value.
    """
    into.SetInParent()
    is_container = given.array_value is not None or given.kvlist_value is not None
    kinds = int(is_container)
    if given.string_value is not None:
        kinds += 1
        into.string_value = given.string_value
    if given.int_value is not None:
        kinds += 1
        into.int_value = integer(given.int_value, "intValue", least=-(2**63), most=2**63)
    if given.bool_value is not None:
        kinds += 1
        into.bool_value = given.bool_value
    if given.double_value is not None:
        kinds += 1
        into.double_value = double(given.double_value, "doubleValue")
    if given.bytes_value is not None:
        kinds += 1
        into.bytes_value = _base64(given.bytes_value)
    if kinds > 1 or (given.array_value is not None and given.kvlist_value is not None):
        raise Wrong("a value has more than one of its members")
    return is_container


def _base64(given: str) -> bytes:
    """With either alphabet, with or without padding, as protobuf's JSON allows."""
    try:
        return base64.b64decode(given.translate(_URL_SAFE) + "=" * (-len(given) % 4), validate=True)
    except ValueError:
        raise Wrong("expected base64", ".bytesValue") from None
