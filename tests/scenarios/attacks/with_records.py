"""Attacks by somebody who may send log records, with JSON that is small to send and large to read."""

import json

from tests.scenarios.attacks.table import Attack, Attempt, Holds

DEEP = 200_000  # levels
WIDE = 60_000  # keys
DIGITS = 400_000
LONGEST = 200  # characters of a reason
TOO_DEEP = "its values are nested too deep"
NOT_TAKEN = (
    "200 {'partialSuccess': {'rejectedLogRecords': '1', 'errorMessage': 'No Configuration of the project takes these "
    "records; status.delivery of each says why not.'}}"
)


def sending(text: str) -> Attempt:
    """POST /v1/logs with a key for that alone."""
    return lambda scene: scene.send(text.encode())


def record(body: str) -> str:
    """A request with one record, whose body is this JSON."""
    return '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":' + body + "}]}]}]}"


def nested(value: str) -> str:
    """A value in a value in a value; `|` is where."""
    before, after = value.split("|")
    return before * DEEP + after * DEEP


def wrong(what: str) -> str:
    """Return what is said of JSON that is no request."""
    return f"400 The request is no ExportLogsServiceRequest in JSON: {what}."


def _row(name: str, text: str, answer: str) -> Attack:
    return Attack(f"records: {name}", Holds.KEY, sending(text), answer)


_PAIRS = ",".join(json.dumps({"key": f"k{number}", "value": {"intValue": "1"}}) for number in range(WIDE))

_NO_INTEGER = "Couldn't parse non-integer string: \""
_RECORD = "resourceLogs[0].scopeLogs[0].logRecords[0]"
_VALUE = f"{_RECORD}.body"

ATTACKS = (
    _row("arrays in arrays", "[" * DEEP, wrong("Expected `object`, got `array`")),
    _row("objects in objects", '{"a":' * DEEP, wrong(TOO_DEEP)),
    _row("arrays in a field that nobody knows", '{"other":' + nested("[|]") + "}", wrong(TOO_DEEP)),
    _row("a body of arrays in arrays", record(nested('{"arrayValue":{"values":[|]}}')), wrong(TOO_DEEP)),
    _row("a body of maps in maps", record(nested('{"kvlistValue":{"values":[{"value":|}]}}')), wrong(TOO_DEEP)),
    _row(
        "a map of many keys",
        record('{"kvlistValue":{"values":[' + _PAIRS + "]}}"),
        "413 A log record, scope or resource of the request has more than 50,000 fields, with those of its values; log "
        "less in one.",
    ),
    _row(
        "a number of many digits",
        record('{"intValue":' + "9" * DIGITS + "}"),
        wrong(f"{_RECORD}: Integer value out of range - at `$[...][...]`"),
    ),
    _row(
        "a number of many digits as text",
        record('{"intValue":"' + "9" * DIGITS + '"}'),
        wrong(f"{_VALUE}: {_NO_INTEGER}{'9' * (LONGEST - len(_NO_INTEGER))}"),
    ),
    _row(
        "a fraction with an exponent of many digits",
        record('{"doubleValue":1e' + "9" * DIGITS + "}"),
        wrong(f"{_RECORD}: Number out of range - at `$[...][...]`"),
    ),
    _row("a fraction of many digits", record('{"doubleValue":0.' + "1" * DIGITS + "}"), NOT_TAKEN),
    _row("the same key many times", "{" + ",".join(['"resourceLogs":[]'] * 200_000) + "}", "200 {}"),
    _row(
        "the same key with two meanings",
        '{"resourceLogs":[{"scopeLogs":[]}],"resourceLogs":7}',
        wrong("Expected `array | null`, got `int` - at `$.resourceLogs`"),
    ),
    _row(
        "two meanings of one value",
        record('{"stringValue":"a","intValue":"1"}'),
        wrong(
            f'{_VALUE}: Message type "opentelemetry.proto.common.v1.AnyValue" should not have multiple "value" oneof '
            'fields at "LogRecord.body"'
        ),
    ),
    _row(
        "many empty resources",
        '{"resourceLogs":[' + ",".join(["{}"] * 300_000) + "]}",
        "413 The request has more than 200,000 resources and scopes; send fewer at a time.",
    ),
)
