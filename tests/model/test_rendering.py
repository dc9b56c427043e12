"""Rendering: what a reader of the service gets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import desired, rendering, type_checks, values
from reconciler.model.desired import DocumentRules
from reconciler.model.rendering import Delivery, ResourceIdentity, Stale
from reconciler.model.values import Value
from tests.model.documents import API_VERSIONS, EXAMPLES, VALUES
from tests.model.lookups import look_up

KEY = b"k" * 32
BOUND = rendering.Bound(project="default", resource_id="01JD7Z", version=3)
IDENTITY = ResourceIdentity(id="01JD7Z", version=3, date_modified="2026-11-21T06:12:00.123Z")


def prepare(document: Value) -> rendering.Prepared:
    owned = desired.judge(document, api_versions=API_VERSIONS).owned
    assert owned is not None
    return rendering.prepare(owned, type_checks.fit(owned, look_up).secrets, hmac_key=KEY, bound=BOUND)


def test_a_body_is_masked_and_carries_the_server_s_metadata_and_no_status() -> None:
    prepared = prepare(
        {
            "status": {"latest": False},
            "spec": {"type": "webhook", "parameters": [{"value": {"A": "secret"}, "name": "headers"}]},
            "metadata": {"version": 99, "name": "siem", "id": "proposed", "labels": None},
            "kind": "Destination",
            "apiVersion": "service/v1",
        }
    )

    assert rendering.body(prepared, identity=IDENTITY) == (
        b'{"apiVersion":"service/v1","kind":"Destination",'
        b'"metadata":{"dateModified":"2026-11-21T06:12:00.123Z","hash":"%b","id":"01JD7Z","name":"siem",'
        b'"version":3},'
        b'"spec":{"parameters":[{"name":"headers","value":{"A":"(sensitive)"}}],"type":"webhook"}}'
        % prepared.spec_hash.encode()
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
def test_a_body_parses_back_to_the_masked_resource(example: Value) -> None:
    prepared = prepare(example)
    parsed = json.loads(rendering.body(prepared, identity=IDENTITY))
    server = {key: parsed["metadata"].pop(key) for key in ("id", "hash", "version", "dateModified")}

    assert parsed == prepared.masked
    assert server == {
        "id": IDENTITY.id,
        "hash": prepared.spec_hash,
        "version": IDENTITY.version,
        "dateModified": IDENTITY.date_modified,
    }


# Text as the documents and Git give it: quotes, control characters, and what is not UTF-8 as escapes in its place.
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    st.sampled_from('"\\%/\x00\x07\n\x7f\u2028é😀d{},:')
)
SOURCES = st.fixed_dictionaries(
    {"type": st.sampled_from(["git", "api"]), "date": TEXTS},
    optional={
        "author": TEXTS,
        "actor": TEXTS,
        "branch": TEXTS,
        "commit": TEXTS,
        "repository": TEXTS,
        "changedBy": st.dictionaries(TEXTS, TEXTS | st.integers(-5, 2**40), max_size=4),
    },
)
PLACES = st.just((None, None)) | st.tuples(TEXTS, st.integers(0, 2**31))
SHOWN_STATUS = st.dictionaries(
    st.sampled_from(["delivery", "drift", "incomplete", "leftOut", "ready", "runsOn"]), VALUES, max_size=3
)


def whole(source: dict[str, Value], path: str | None, line: int | None) -> dict[str, Value]:
    return source if path is None else {**source, "path": path, "line": line}


@given(SOURCES, PLACES)
def test_a_source_of_its_halves_and_a_place_is_what_it_is_as_a_whole(
    source: dict[str, Value], place: tuple[str | None, int | None]
) -> None:
    head, tail = rendering.frame(source)

    assert rendering.shown((b'{"spec":{}}', None, head, tail, *place)) == (
        b'{"spec":{},"status":{"source":%b}}' % values.canonical_json(whole(source, *place))
    )


@given(st.sampled_from(EXAMPLES), SHOWN_STATUS, SOURCES, PLACES)
def test_a_body_with_its_status_and_its_source_is_what_the_whole_is_as_canonical_json(
    example: Value, status: dict[str, Value], source: dict[str, Value], place: tuple[str | None, int | None]
) -> None:
    body = rendering.body(prepare(example), identity=IDENTITY)
    head, tail = rendering.frame(source)
    present, told = {**status, "latest": True}, whole(source, *place)

    shown = rendering.shown((body, values.canonical_json(present), head, tail, *place))

    assert shown == values.canonical_json({**json.loads(body), "status": {**present, "source": told}})
    assert rendering.restated(
        rendering.shown((body, b'{"latest":true}', head, tail, *place)), values.canonical_json(present)
    ) == (shown)
    assert rendering.rewritten(shown, b'{"spec":{}}') == values.canonical_json(
        {"spec": {}, "status": {**present, "source": told}}
    )
    assert rendering.shown((body, None, head, tail, *place)) == values.canonical_json(
        {**json.loads(body), "status": {"source": told}}
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({"type": "git"}, id="nothing stands before a place"),
        pytest.param({}, id="nothing stands around it"),
        pytest.param({"date": "x", "path": "a"}, id="a place"),
        pytest.param({"date": "x", "origin": "a"}, id="something that stands within a place"),
    ],
)
def test_a_source_that_a_place_would_not_fit_into_is_refused(source: dict[str, Value]) -> None:
    with pytest.raises(ValueError, match="no place for a path and a line"):
        rendering.frame(source)


def test_what_was_exported_can_be_applied_again() -> None:
    document: Value = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "edge"}}
    prepared = prepare(document)
    status = rendering.LATEST
    body = rendering.body(prepared, identity=IDENTITY)
    exported = json.loads(rendering.shown((body, status, b'{"date":"x"', b',"type":"api"}', None, None)))

    rules = DocumentRules(api_versions=API_VERSIONS, hmac_key=KEY)
    [again, before] = desired.read_items([exported, document], rules=rules)

    assert (again.digest, again.proposed_id) == (before.digest, IDENTITY.id)


LINES = ("/spec/parameters: `hostname` is required and has no default", 'a "quoted" line')
LISTED = rb'"incomplete":["/spec/parameters: `hostname` is required and has no default","a \"quoted\" line"],'

STATUSES = [
    ("Destination", (), b'{"latest":true}'),
    ("Destination", LINES, b'{%b"latest":true}' % LISTED),
    ("Configuration", (), b'{"latest":true,"ready":true}'),
    ("Configuration", LINES, b'{%b"latest":true,"ready":false}' % LISTED),
]


@pytest.mark.parametrize(("kind", "incomplete", "expected"), STATUSES)
def test_a_status_says_what_is_missing_of_a_resource(kind: str, incomplete: tuple[str, ...], expected: bytes) -> None:
    status = rendering.with_standing(kind, rendering.LATEST, incomplete=incomplete)

    assert status == expected
    assert rendering.incomplete(status) == incomplete


@pytest.mark.parametrize("before", [(), ("another line",), LINES])
@pytest.mark.parametrize(("kind", "after", "expected"), STATUSES)
def test_a_status_with_another_list_of_what_is_missing_is_the_status_of_that_list(
    kind: str, before: tuple[str, ...], after: tuple[str, ...], expected: bytes
) -> None:
    status = rendering.with_standing(kind, rendering.LATEST, incomplete=before)

    assert rendering.with_standing(kind, status, incomplete=after) == expected


def test_what_a_status_says_beside_that_stays() -> None:
    status = b'{"delivery":{"state":"idle"},"incomplete":["x"],"latest":true}'

    whole = rendering.with_standing("Destination", status, incomplete=())
    assert whole == b'{"delivery":{"state":"idle"},"latest":true}'
    assert rendering.with_drift(status, None) == status
    drifted = rendering.with_drift(status, {"path": "a"})
    assert drifted == (b'{"delivery":{"state":"idle"},"drift":{"path":"a"},"incomplete":["x"],"latest":true}')
    assert rendering.with_drift(drifted, None) == status


@pytest.mark.parametrize(
    ("delivery", "expected"),
    [
        (
            Delivery("", None, "service"),
            b'{"delivery":{"delivers":true},"latest":true,"ready":true,"runsOn":"service"}',
        ),
        (
            Delivery("Why.", None, "collectors", ("A.", "B.")),
            b'{"delivery":{"delivers":false,"reason":"Why."},"latest":true,"leftOut":["A.","B."],"ready":true,'
            b'"runsOn":"collectors"}',
        ),
        (
            Delivery("", Stale(3, "2026", "Why."), "service"),
            b'{"delivery":{"delivers":true,"stale":{"reason":"Why.","since":"2026","version":3}},"latest":true,'
            b'"ready":true,"runsOn":"service"}',
        ),
    ],
)
def test_a_status_says_where_a_configuration_runs_and_if_it_delivers(delivery: Delivery, expected: bytes) -> None:
    before = rendering.with_standing(
        "Configuration", rendering.LATEST, incomplete=(), delivery=Delivery("x", None, "y", ("z",))
    )
    assert rendering.with_standing("Configuration", before, incomplete=(), delivery=delivery) == expected
    assert rendering.delivery(expected) == delivery


def test_a_status_of_an_earlier_version_does_not_say_where_it_runs() -> None:
    assert rendering.delivery(b'{"delivery":{"delivers":true},"latest":true}') == Delivery()


def test_a_fault_of_a_rendering_makes_a_configuration_unready() -> None:
    status = rendering.with_rendering(rendering.LATEST, b'{"fault":{"reason":"x"}}')
    assert status == b'{"latest":true,"ready":false,"rendering":{"fault":{"reason":"x"}}}'
    lacking = rendering.with_standing("Configuration", status, incomplete=("a",))
    assert rendering.with_standing("Configuration", lacking, incomplete=()) == status
    assert rendering.with_rendering(status, b'{"hash":"a"}') == b'{"latest":true,"ready":true,"rendering":{"hash":"a"}}'
    assert rendering.with_rendering(status, None) == b'{"latest":true,"ready":true}'
    assert rendering.with_rendering(lacking, None) == b'{"incomplete":["a"],"latest":true,"ready":false}'


@pytest.mark.parametrize("status", [b'{"latest":true}', b'{"incomplete":[]}', b'{"incomplete":null}'])
def test_a_status_that_lists_nothing_misses_nothing(status: bytes) -> None:
    assert rendering.incomplete(status) == ()
