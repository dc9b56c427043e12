"""Restoring: `(sensitive)` keeps a stored secret that goes on going where it went; anything else breaks a rule."""

import copy
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import builtins, component_types, desired, masking, rendering, type_checks, values
from reconciler.model.component_types import ComponentType
from reconciler.model.components import MASK
from reconciler.model.masking import Restored
from reconciler.model.names import Key
from reconciler.model.values import Pointer, Value, pointer_text
from tests.model.documents import API_VERSIONS, VALUES, at, pointers, removed, replaced

CANARY = "canary-hunter2"
TOKEN = "/spec/parameters/1/value"
NOTHING = (
    f"`{MASK}` stands for a stored secret, and none is found here by a unique `id`, `name` or `displayName`; "
    "send the value itself"
)

OWN: dict[str, list[Any]] = {
    "sink": [
        {"name": "to", "type": "string"},
        {"name": "retries", "type": "int", "default": 3},
        {"name": "udpPort", "type": "int"},
        {"name": "mode", "type": "enum", "validValues": ["a", "b"]},
        {"name": "region", "type": "enum", "validValues": ["eu", "us"]},
        {"name": "other", "type": "enum", "validValues": ["a"], "options": {"creatable": True}},
        {"name": "token", "type": "string", "options": {"sensitive": True}},
        {"name": "password", "type": "string", "options": {"sensitive": True}},
        {"name": "webhook_url", "type": "string", "options": {"sensitive": True}},
        {"name": "headers", "type": "map", "options": {"sensitive": True}},
    ]
}


@cache
def lookup(key: Key) -> ComponentType | None:
    """The built-in types, and `sink` of every kind."""
    spec = builtins.built_in().get(key, {}).get("spec") or {"parameters": OWN.get(key.name, [])}
    defined = component_types.read_definitions(spec)
    return component_types.compiled(key.name, defined) if defined else None


def document(kind: str = "Destination", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def listed(values: Mapping[str, Any]) -> list[Any]:
    return [{"name": name, "value": value} for name, value in values.items()]


def component(type_: str, **values: Any) -> dict[str, Any]:
    return document(type=type_, parameters=listed(values))


def stored(owned: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Value]]:
    """The masked resource and its secrets, as the store keeps them."""
    bound = rendering.Bound(project="default", resource_id="01JD7Z", version=1)
    prepared = rendering.prepare(owned, type_checks.fit(owned, lookup).secrets, hmac_key=b"k" * 32, bound=bound)
    return prepared.masked, json.loads(prepared.secrets or b"{}")


def restored(incoming: dict[str, Any], before: dict[str, Any] | None, *, accept_invalid: bool = False) -> Restored:
    masked, secrets = (None, dict[str, Value]()) if before is None else stored(before)
    return masking.restored(incoming, masked=masked, secrets=secrets, lookup=lookup, accept_invalid=accept_invalid)


def told(result: Restored) -> dict[str, str]:
    """The messages by place; each is one that `acceptInvalid` lets pass."""
    assert all(violation.of_parameter and not violation.at_key for violation in result.violations)
    return {pointer_text(violation.pointer): violation.message for violation in result.violations}


WEBHOOK: dict[str, Any] = {
    "hostname": "siem.example.com",
    "headers": {"Authorization": CANARY, "X-Team": "red"},
    "port": 443,
}


def webhook(**changes: Any) -> dict[str, Any]:
    return component("webhook", **{**WEBHOOK, **changes})


MASKED = {"Authorization": MASK, "X-Team": MASK}
AUTHORIZATION = "/spec/parameters/1/value/Authorization"


def test_a_secret_is_kept_where_nothing_else_changed() -> None:
    result = restored(webhook(headers=MASKED), webhook())
    assert (result.document, result.violations) == (webhook(), ())


@pytest.mark.parametrize(
    "changes",
    [
        {"verb": "PUT"},
        {"timeout": 7, "format": "single"},
        {"scheme": "https"},  # its default
        {"port": "443"},  # the same number
        {"path": ""},  # none, as before
        {"headers": {"Authorization": MASK}},
        {"headers": {"X-Team": "blue", "Authorization": MASK, "New": "x"}},
        {"persistent_queue_enabled": False},
    ],
)
def test_a_webhook_keeps_its_secrets_while_it_posts_to_the_same_place(changes: dict[str, Value]) -> None:
    incoming = webhook(**{"headers": MASKED, **changes})
    result = restored(incoming, webhook())
    assert result.violations == ()
    assert at(result.document, ("spec", "parameters", 1, "value"))["Authorization"] == CANARY
    assert MASK not in json.dumps(result.document)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"hostname": "evil.example.com"}, "`hostname`"),
        ({"port": 8443}, "`port`"),
        ({"scheme": "http"}, "`scheme`"),
        ({"path": "/mine"}, "`path`"),
        ({"insecure_skip_verify": True}, "`insecure_skip_verify`"),
        ({"ca_file": "mine.pem"}, "`ca_file`"),
        ({"mutual_tls": True, "cert_file": "c", "key_file": "k"}, "`cert_file`, `key_file`, `mutual_tls`"),
        ({"headers": {"Authorization": MASK, "hOST": "evil.example.com"}}, "`headers/hOST`"),
    ],
)
def test_a_webhook_that_posts_elsewhere_needs_its_secrets_again(changes: dict[str, Value], names: str) -> None:
    incoming = webhook(**{"headers": {"Authorization": MASK}, **changes})
    result = restored(incoming, webhook())
    message = f"send the value itself, since {names} changed, which may say where it is sent"
    assert told(result) == {AUTHORIZATION: message}
    assert result.document == incoming


def test_a_parameter_that_is_left_out_changes_to_its_default() -> None:
    incoming = removed(webhook(headers=MASKED), ("spec", "parameters", 2))
    assert {message.split("`")[1] for message in told(restored(incoming, webhook())).values()} == {"port"}
    assert restored(incoming, webhook(port=8080)).violations == ()


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({"retries": 3}, {}, True),
        ({"retries": 3}, {"retries": 4}, True),
        ({"mode": "a"}, {"mode": "b"}, True),
        ({"password": "old"}, {"password": "new"}, True),
        ({"headers": {"x": "1"}}, {"headers": {"x": "2"}}, True),
        ({"headers": {"x": "1"}}, {"headers": {"x": MASK, ":authority": "evil"}}, False),
        ({"to": "here"}, {"to": "there"}, False),
        ({"to": "here"}, {}, False),
        ({"udpPort": 1}, {"udpPort": 2}, False),
        ({"region": "eu"}, {"region": "us"}, False),
        ({"other": "a"}, {"other": "b"}, False),
        ({"webhook_url": "https://a"}, {"webhook_url": "https://b"}, False),
        ({"webhookurl": "https://a"}, {"webhookurl": "https://b"}, False),
        ({"baseURLs": "https://a"}, {"baseURLs": "https://b"}, False),
        ({"webhook_url": "https://a"}, {"webhook_url": MASK}, True),
        ({}, {"unknown": 1}, False),
    ],
)
def test_of_another_type_only_what_is_no_address_may_change(
    before: dict[str, Value], after: dict[str, Value], kept: bool
) -> None:
    result = restored(component("sink", token=MASK, **after), component("sink", token=CANARY, **before))
    assert (result.violations == ()) is kept
    assert (CANARY in json.dumps(result.document)) is kept


def test_of_a_type_that_nobody_knows_everything_may_be_an_address() -> None:
    before = component("unknown", a="here", b=CANARY)
    assert restored(component("unknown", a=MASK, b=MASK), before).document == before
    result = restored(component("unknown", a="there", b=MASK), before)
    assert told(result) == {TOKEN: "send the value itself, since `a` changed, which may say where it is sent"}


def test_whether_an_address_that_is_a_secret_was_guessed_does_not_show() -> None:
    before = component("sink", webhook_url="https://a", token=CANARY)
    right, wrong = (
        restored(component("sink", webhook_url=guess, token=MASK), before) for guess in ("https://a", "https://b")
    )
    assert told(right) == told(wrong)
    assert list(told(right)) == [TOKEN]
    assert right.once_secret == wrong.once_secret


def test_another_type_gets_no_secret() -> None:
    before = component("sink", to="x", token=CANARY)
    for type_ in ("webhook", "custom", "unknown"):
        result = restored(component(type_, to="x", token=MASK), before)
        assert told(result) == {TOKEN: "send the value itself, since the type of its component changed"}
    assert restored(component("sink:2", to="x", token=MASK), before).violations == ()


@pytest.mark.parametrize(
    ("before", "value"),
    [
        (None, MASK),
        (component("sink", to="x"), MASK),  # no such parameter
        (component("sink", to="x", retries=MASK), MASK),
        (component("sink", to="x", token="${env:DESTINATION_DEFAULT__A}"), MASK),  # a reference is shown as it is
        (component("sink", to="x", token={"a": CANARY}), MASK),  # shown key by key
        (component("sink", to="x", token=CANARY), {"a": MASK}),
        (component("sink", to="x", token={"a": CANARY}), {"b": MASK}),
    ],
)
def test_with_nothing_to_keep_it_is_a_violation(before: dict[str, Any] | None, value: Value) -> None:
    result = restored(component("sink", to="x", token=value), before)
    place = TOKEN if value == MASK else f"{TOKEN}/{next(iter(value)) if isinstance(value, dict) else ''}"
    assert told(result) == {place: NOTHING}


def test_what_is_stored_in_clear_is_not_what_the_mask_stands_for() -> None:
    before = component("sink", to="here", retries=5)
    assert told(restored(component("sink", to=MASK, retries=5), before)) == {"/spec/parameters/0/value": NOTHING}
    literal = component("sink", to=MASK)
    assert told(restored(literal, literal)) == {"/spec/parameters/0/value": NOTHING}


def test_parameters_are_matched_by_name() -> None:
    before = component("sink", token=CANARY, password="p")
    after = component("sink", password=MASK, token=MASK)
    assert restored(after, before).document == component("sink", password="p", token=CANARY)


def configuration(*sources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return document("Configuration", sources=list(sources), **spec)


def inline(token: str, **more: Any) -> dict[str, Any]:
    return {"type": "sink", "parameters": listed({"to": "x", "token": token}), **more}


def test_components_are_matched_by_id_or_name_and_never_by_position() -> None:
    before = configuration(
        inline("one", id="1"),
        inline("two", displayName="2"),
        inline("three", id="3", processors=[inline("in", id="1")]),
    )
    after = configuration(
        inline(MASK, id="3", processors=[inline(MASK, id="1")]), inline(MASK, displayName="2"), inline(MASK, id="1")
    )
    sources = before["spec"]["sources"]
    assert restored(after, before).document == configuration(sources[2], sources[1], sources[0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (inline(CANARY), inline(MASK)),
        (inline(CANARY, id="1"), inline(MASK, id="2")),
        (inline(CANARY, displayName="1"), inline(MASK, id="1")),
        (inline(CANARY, displayName="1"), inline(MASK, id="2", displayName="1")),
    ],
)
def test_a_component_that_is_not_found_keeps_nothing(before: dict[str, Any], after: dict[str, Any]) -> None:
    result = restored(configuration(after), configuration(before))
    assert told(result) == {"/spec/sources/0/parameters/1/value": NOTHING}


def test_a_literal_inside_a_value_stands_for_nothing() -> None:
    incoming = component("sink", to="x", headers={"a": {"b": [MASK]}, "c": "d"}, other=[["x", MASK]])
    places = [("spec", "parameters", 1, "value", "a", "b", 0), ("spec", "parameters", 2, "value", 0, 1)]
    assert masking.find_placeholders(incoming) == tuple(places)
    result = restored(incoming, component("sink", to="x", headers={"a": "b"}), accept_invalid=True)
    assert list(told(result)) == [pointer_text(place) for place in places]
    assert result.document == component("sink", to="x", headers={"c": "d"})


@pytest.mark.parametrize("twice", ["before", "after"])
def test_of_components_with_one_name_none_keeps_its_secrets(twice: str) -> None:
    once, both = [inline("{}", id="1")], [inline("{}", id="1"), inline("{}", id="1")]
    before = configuration(*json.loads(json.dumps(both if twice == "before" else once).replace("{}", CANARY)))
    after = configuration(*json.loads(json.dumps(both if twice == "after" else once).replace("{}", MASK)))
    messages = told(restored(after, before)).values()
    assert len(messages) == len(after["spec"]["sources"])
    assert set(messages) == {NOTHING}


def test_a_component_that_moved_to_another_list_keeps_nothing() -> None:
    before = document("Configuration", sources=[inline(CANARY, id="1")])
    after = document("Configuration", destinations=[inline(MASK, id="1")])
    assert told(restored(after, before)) == {"/spec/destinations/0/parameters/1/value": NOTHING}


def test_an_address_counts_for_its_own_component() -> None:
    def both(to: str, token: str) -> dict[str, Any]:
        nested = {"id": "1", **component("sink", token=token)["spec"]}
        return document(type="sink", parameters=listed({"to": to, "token": token}), processors=[nested])

    result = restored(both("there", MASK), both("here", CANARY))
    assert list(told(result)) == [TOKEN]
    assert at(result.document, ("spec", "processors", 0, "parameters", 0, "value")) == CANARY


def test_a_secret_of_no_component_is_kept_while_what_is_around_it_stays() -> None:
    def with_own(value: Value, **more: Any) -> dict[str, Any]:
        own = [{"name": "own", "value": value, "sensitive": True}]
        return configuration(inline("t", id=str(len(more))), parameters=own, **more)

    before = with_own(CANARY)
    moved = with_own(MASK)
    moved["spec"]["sources"].append({"name": "another"})  # a component: it has rules of its own
    assert at(restored(moved, before).document, ("spec", "parameters", 0, "value")) == CANARY
    result = restored(with_own(MASK, raw="x"), before)
    assert told(result) == {
        "/spec/parameters/0/value": "send the value itself, since what stands beside it changed",
    }


def test_a_secret_in_an_open_spec_is_kept_while_the_spec_stays() -> None:
    def version(secret: Value, other: Value) -> dict[str, Any]:
        return document("AgentVersion", sources=[{"name": "a", "value": secret, "sensitive": True}], other=other)

    assert restored(version(MASK, 1), version(CANARY, 1)).document == version(CANARY, 1)
    assert len(restored(version(MASK, 2), version(CANARY, 1)).violations) == 1


def test_a_kept_secret_stays_one_whatever_is_said_of_it_now() -> None:
    before = document(type="webhook", parameters=[{"name": "verb", "value": CANARY, "sensitive": True}])
    place: Pointer = ("spec", "parameters", 0, "value")
    for value, secrets in ((MASK, ((place, CANARY),)), (CANARY, ((place, CANARY),)), ("POST", ())):
        result = restored(component("webhook", verb=value), before)
        assert (result.violations, result.secrets, result.once_secret) == ((), secrets, (place,))


def test_a_reference_that_an_earlier_version_stored_as_a_secret_is_one_no_more() -> None:
    masked, secrets = component("sink", to="x", token=MASK), {TOKEN: "Bearer ${env:A}"}
    for sent in (MASK, "Bearer ${env:A}"):
        incoming = component("sink", to="x", token=sent)
        result = masking.restored(incoming, masked=masked, secrets=secrets, lookup=lookup, accept_invalid=False)
        assert (result.document, result.secrets) == (component("sink", to="x", token="Bearer ${env:A}"), ())


def test_what_is_accepted_all_the_same_counts_as_missing() -> None:
    incoming = component("sink", token=MASK, to="x", headers={"a": MASK, "value": MASK, "b": "c"}, password=MASK)
    before = component("sink", to="x", password="p", webhook_url="u")
    after = component("sink", to="x", headers={"b": "c"})
    for held, kept in ((None, {}), (removed(before, ("spec", "parameters", 2)), {"password": "p"})):
        result = restored(incoming, held, accept_invalid=True)
        assert result.document == component(
            "sink", **{each["name"]: each["value"] for each in after["spec"]["parameters"]}, **kept
        )
        assert list(told(result))[:3] == [
            "/spec/parameters/0/value",
            "/spec/parameters/2/value/a",
            "/spec/parameters/2/value/value",
        ]
        assert [at(result.document, place) for place, _ in result.secrets] == list(kept.values())
        assert [at(result.document, place) for place in result.kept] == list(kept.values())


def test_secrets_of_two_sorts_are_united() -> None:
    outer, inner, other = ("spec", "a"), ("spec", "a", "b"), ("spec", "c")
    assert dict(masking.united(((outer, 1), (other, 2)), ((inner, 3), (other, 2)))) == {outer: 1, other: 2}


def test_many_places_take_no_more_than_their_share_of_time() -> None:
    values: dict[str, Value] = {f"p{number}": CANARY for number in range(20_000)}
    before = component("unknown", **values)
    assert restored(component("unknown", **dict.fromkeys(values, MASK)), before).document == before


def test_the_names_in_a_message_are_bounded() -> None:
    values: dict[str, Value] = {f"{number}{'x' * 10_000}": "v" for number in range(50)}
    result = restored(component("unknown", **values, token=MASK), component("unknown", token=CANARY))
    (message,) = told(result).values()
    assert len(message) < 600
    assert "and 45 more" in message


# For every document

IDS = st.integers(0, 10**6).map(str)
SECRET = st.one_of(VALUES, st.dictionaries(st.text(max_size=3), VALUES, max_size=3)).map(
    lambda value: json.loads(json.dumps(value).replace(MASK, "mask"))
)


def components(nested: int) -> st.SearchStrategy[dict[str, Any]]:
    """Components with parameters of their type, or any, some marked sensitive; and with nested ones."""
    names = st.sampled_from([*(each["name"] for each in OWN["sink"]), "hostname", "verb", "a/b", "~"])
    parameter = st.fixed_dictionaries({"value": SECRET}, optional={"sensitive": st.booleans()})
    return st.fixed_dictionaries(
        {
            "type": st.sampled_from(["sink", "webhook", "otlp", "unknown", "sink:3"]),
            "parameters": st.dictionaries(names, parameter, max_size=4).map(
                lambda found: [{"name": name, **rest} for name, rest in found.items()]
            ),
        },
        optional={"processors": entries(nested - 1)} if nested else {},
    )


def entries(nested: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    keys = st.sampled_from(["id", "displayName"])
    entry = st.tuples(keys, IDS, components(nested)).map(lambda parts: {parts[0]: parts[1], **parts[2]})
    return st.lists(entry, max_size=3, unique_by=lambda one: one.get("id", one.get("displayName")))


def documents() -> st.SearchStrategy[dict[str, Any]]:
    of_components = components(2).map(lambda spec: document(**spec))
    lists = {key: entries(1) for key in ("sources", "destinations", "processors")}
    own = st.lists(SECRET, max_size=1).map(
        lambda values: [{"name": "own", "value": value, "sensitive": True} for value in values]
    )
    configurations = st.fixed_dictionaries(lists, optional={"parameters": own}).map(
        lambda spec: document("Configuration", **spec)
    )
    return st.one_of(of_components, configurations)


def shuffled(value: Any, random: Any) -> Any:
    """The same with entries of lists in another order, outside of parameters' values."""
    if isinstance(value, dict):
        return {key: child if key == "value" else shuffled(child, random) for key, child in value.items()}
    if isinstance(value, list):
        return random.sample([shuffled(child, random) for child in value], len(value))
    return value


@given(documents())
def test_what_is_stored_comes_back_in_clear(owned: dict[str, Any]) -> None:
    masked, secrets = stored(owned)
    before = copy.deepcopy(masked)
    assert values.replaced(masked, values.by_place(masked, secrets)) == owned
    assert masked == before


@given(documents())
def test_what_the_service_shows_is_what_it_holds(owned: dict[str, Any]) -> None:
    """An export that is applied again: every secret is kept, and stays one."""
    judged = desired.judge(owned, api_versions=API_VERSIONS, placeholders=True)
    assert judged.owned is not None, judged.violations
    masked, secrets = stored(owned)
    result = masking.restored(
        copy.deepcopy(masked), masked=masked, secrets=secrets, lookup=lookup, accept_invalid=False
    )
    assert (result.document, result.violations) == (owned, ())
    assert {pointer_text(place): value for place, value in result.secrets} == secrets
    assert {pointer_text(place) for place in result.kept} == secrets.keys()


@given(documents(), st.randoms(use_true_random=False))
def test_order_does_not_matter(owned: dict[str, Any], random: Any) -> None:
    masked, secrets = stored(owned)
    seed = random.randrange(10**6)
    random.seed(seed)
    incoming = shuffled(masked, random)
    random.seed(seed)
    result = masking.restored(incoming, masked=masked, secrets=secrets, lookup=lookup, accept_invalid=False)
    assert (result.document, result.violations) == (shuffled(owned, random), ())


@given(documents(), st.data())
def test_no_other_secret_and_no_literal_is_ever_stored(owned: dict[str, Any], data: st.DataObject) -> None:
    """Secrets that all differ, and a change somewhere: each comes back where it was, or not at all, and untold."""
    places = [("spec", *place) for place, _ in sorted_secrets(owned)]
    for number, place in enumerate(places):
        owned = replaced(owned, place, f"{CANARY}-{number}-")
    masked, secrets = stored(owned)
    incoming: Any = masked
    changes = [place for place in pointers(masked) if len(place) > 1 and place[:1] == ("spec",)]
    if changes:
        place = data.draw(st.sampled_from(changes))
        new: Any = data.draw(st.sampled_from([MASK, "x", [MASK], {"k": MASK}, {"name": "token", "value": MASK}]))
        incoming = replaced(masked, place, new)
    before = copy.deepcopy(incoming)
    for accept_invalid in (False, True):
        result = masking.restored(
            incoming, masked=masked, secrets=secrets, lookup=lookup, accept_invalid=accept_invalid
        )
        assert incoming == before
        assert CANARY not in repr(result)
        if accept_invalid or not result.violations:
            assert masking.find_placeholders(result.document) == ()
        found = [place for place in pointers(result.document) if str(at(result.document, place)).startswith(CANARY)]
        assert {place for place, _ in result.secrets} >= set(found)
        assert {place for place, _ in result.secrets} >= set(result.kept)


def sorted_secrets(owned: dict[str, Any]) -> list[tuple[Pointer, Value]]:
    """Return where the secrets of a document stand, below its spec."""
    return [(place[1:], value) for place, value in type_checks.fit(owned, lookup).secrets]
