"""Bodies of records as JSON: the rule, compared with the standard library and orjson."""

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, ScopeLogs

from benchmarks import delivery_bodies
from reconciler.delivery.otlp import bodies
from reconciler.delivery.otlp.models import MalformedRequest
from tests.delivery.otlp.requests import REQUESTS, field, group, nested, pair, records, request

FLOATS = strategies.floats(allow_nan=False, allow_infinity=False)
JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | FLOATS | strategies.text(),
    lambda inner: strategies.lists(inner, max_size=4) | strategies.dictionaries(strategies.text(), inner, max_size=4),
    max_leaves=6,
)  # fmt: skip


def fragments(payload: bytes) -> list[bytes]:
    return [text for part in bodies.body_fragments(payload) for text in part]


def of(body: str | AnyValue) -> str:
    [fragment] = fragments(request(group(body)))
    return fragment.decode()


def value(written: AnyValue) -> Any:
    """The rule in the plainest words, for all but what a string at the top is."""
    kind = written.WhichOneof("value")
    if kind is None or kind == "string_value_strindex":
        return None
    found = getattr(written, kind)
    if kind == "double_value" and not math.isfinite(found):
        return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
    if kind == "bytes_value":
        return base64.b64encode(found).decode()
    if kind == "array_value":
        return [value(one) for one in found.values]
    if kind == "kvlist_value":
        return {one.key: value(one.value) for one in found.values}
    return found


def expected(body: AnyValue) -> Any:
    if body.WhichOneof("value") is None:
        return ""
    if body.WhichOneof("value") != "string_value":
        return value(body)
    try:
        return orjson.loads(body.string_value)
    except orjson.JSONDecodeError:
        return body.string_value


@settings(max_examples=30)
@given(REQUESTS)
def test_each_body_is_there_in_order_by_the_rule(message: ExportLogsServiceRequest) -> None:
    payload = message.SerializeToString()
    found = [orjson.loads(text) for text in fragments(payload)]
    wanted = [expected(record.body) for record in records(message)]
    assert [*map(json.dumps, found)] == [*map(json.dumps, wanted)]
    assert fragments(payload + payload) == fragments(payload) * 2
    assert all(b"\n" not in text for text in fragments(payload))


WRITTEN = JSON.flatmap(
    lambda document: strategies.sampled_from(
        [json.dumps(document), json.dumps(document, indent=1), json.dumps(document, ensure_ascii=False)]
    )
)


@given(WRITTEN, strategies.text(" \t\r\n", max_size=3))
def test_a_string_that_is_json_is_that_json_to_the_character(text: str, space: str) -> None:
    assert of(space + text + space) == text


@given(strategies.text())
def test_any_other_string_is_a_string(text: str) -> None:
    found = of("x" + text)
    assert json.loads(found) == orjson.loads(found) == "x" + text


def refuse(constant: str) -> None:
    raise ValueError(constant)


@given(strategies.text(alphabet='{}[]",:0123456789.eE+-truefalsn \\u', max_size=12))
def test_what_is_embedded_is_json_to_a_strict_reader(text: str) -> None:
    found = of(text)
    try:
        strict = json.loads(text, parse_constant=refuse)
    except ValueError:
        strict = text
    assert json.loads(found, parse_constant=refuse) == strict


def test_every_digit_of_a_number_is_kept() -> None:
    integers = ["9007199254740993", "-9223372036854775808", "18446744073709551616", "9" * 300, "1" * 310]
    for number in (*integers, "0.10", "1.0E+2", "-0", "1e+308", "0.1E300", "1e-999", "1e999", "0." + "0" * 400 + "1"):
        assert of(number) == number
        assert of(f'{{"n": {number}}}') == f'{{"n": {number}}}'
    assert of(AnyValue(int_value=9007199254740993)) == "9007199254740993"
    assert of(AnyValue(int_value=-(2**63))) == "-9223372036854775808"


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "0x1", "1 2", "{", '{"a":1,}', "[1,]", "'a'",
        '"', r'"\ud800"', r'"\udc00\ud800"', r'{"\ud800": 1}', '"\x01"', '"a\nb"', "\ufeff1", "\u00a01", "\x0b1",
        "True", "nul", "nullx",
        "{} // comment", '{"a" 1}', "[" * 5_000 + "]" * 5_000, "{1: 2}", r'"\x41"', "-",
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_what_only_looks_like_json_is_a_string(text: str) -> None:
    assert json.loads(of(text)) == text


def test_values_by_kind() -> None:
    pairs = [pair("b", 1), pair("a", "2"), pair("b", 3.0), pair("json", '{"a":1}'), pair("none", AnyValue())]
    pairs += [pair("nan", math.nan), pair("bytes", AnyValue(bytes_value=b"\xfb\xff")), pair("yes", True)]
    table = AnyValue(kvlist_value=KeyValueList(values=pairs))
    assert of(table) == ('{"b":3.0,"a":"2","json":"{\\"a\\":1}","none":null,"nan":"NaN","bytes":"+/8=","yes":true}')
    infinities = [AnyValue(double_value=number) for number in (math.inf, -math.inf)]
    assert of(AnyValue(array_value=ArrayValue(values=[*infinities, table, AnyValue()]))) == (
        f'["Infinity","-Infinity",{of(table)},null]'
    )
    assert of(AnyValue()) == '""'
    assert of(AnyValue(string_value="")) == '""'
    assert of(AnyValue(string_value_strindex=5)) == '""'
    assert of(AnyValue(bool_value=False)) == "false"
    assert of(AnyValue(double_value=0.1)) == "0.1"
    assert of(AnyValue(double_value=math.nan)) == '"NaN"'
    assert of(AnyValue(bytes_value=b"1234")) == '"MTIzNA=="'
    assert of(AnyValue(kvlist_value=KeyValueList())) == "{}"


def test_a_body_that_stands_twice_is_merged_as_protobuf_merges() -> None:
    maps = [AnyValue(kvlist_value=KeyValueList(values=[pair(key, 1)])).SerializeToString() for key in "ab"]
    payload = field(0x0A, field(0x12, field(0x12, b"".join(field(0x2A, one) for one in maps))))
    assert fragments(payload) == [b'{"a":1,"b":1}']


def test_the_deepest_value_that_is_read_is_written() -> None:
    payload = field(0x0A, field(0x12, field(0x12, field(0x2A, nested(48)))))
    assert fragments(payload) == [b"[" * 48 + b'"x"' + b"]" * 48]


def test_a_record_without_body_is_an_empty_string() -> None:
    assert fragments(field(0x0A, field(0x12, field(0x12, b"")))) == [b'""']


def test_a_large_request_has_the_same_bodies_as_its_parts() -> None:
    large = group(*["x" * 200_000, "y" * 100] * 3, team="edge")
    large.scope_logs.extend(group(*(f"record {number}" for number in range(9_000))).scope_logs)
    large.schema_url = "z" * 100_000
    groups = [*[group(str(number), "k" * 300) for number in range(700)], large, group("last"), large, group()]
    payload = request(*groups) + field(0x7A, b"unknown") + request(group("more"))
    assert fragments(payload) == [text for one in (*groups, group("more")) for text in _each(one)]


def _each(whole: ResourceLogs) -> list[bytes]:
    """Record by record."""
    return [
        text
        for scope in whole.scope_logs
        for record in scope.log_records
        for text in fragments(request(ResourceLogs(scope_logs=[ScopeLogs(log_records=[record])])))
    ]


@pytest.mark.parametrize("end", [b"\xff", b"\x0a\xff\xff\x7f", b"\x0a\x02\x12\x09"], ids=["tag", "length", "inside"])
def test_a_large_request_that_is_none_is_refused(end: bytes) -> None:
    with pytest.raises(MalformedRequest):
        fragments(request(group(*["x" * 300_000] * 3)) + end)


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(MalformedRequest):
        fragments(b"\xff")


def sizes(parts: Iterator[list[bytes]]) -> list[int]:
    return [len(part) for part in parts]


def test_work_is_divided() -> None:
    texts = sizes(bodies.body_fragments(delivery_bodies.texts(2_500)))
    assert (sum(texts), len(texts), max(texts) <= 1_000) == (2_500, 3, True)
    assert max(sizes(bodies.body_fragments(delivery_bodies.maps(1_000)))) < 150
    assert sizes(bodies.body_fragments(request(group(*["x" * 1_100_000] * 3)))) == [1, 1, 1]
    assert sizes(bodies.body_fragments(b"")) == []
