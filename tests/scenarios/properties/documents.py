"""Which documents the properties are tried on: few names, so that they meet; every kind of trouble a document makes.

A canary is a value that must never be seen: it stands only where a value is a secret whatever the types say.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.worlds import Options

Document: TypeAlias = dict[str, Any]
Content: TypeAlias = Sequence[Document] | str

CANARY = "canary"
API = "api"  # where a repository could be named
MASK = "(sensitive)"
FILES = ["a.yaml", "b.yaml", "d/a.yaml", "d/e/c.yml"]
IGNORE = "d/.serviceignore"


def document(kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> Document:
    """A document as a user writes it."""
    return {
        "apiVersion": "service/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": dict(spec),
    }


def text(content: Content) -> str:
    """A file of these documents, each on one line of JSON, which is YAML."""
    return content if isinstance(content, str) else "---\n".join(f"{json.dumps(each)}\n" for each in content)


def definition(name: str, kind: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **rest}


_P = definition("p", "string")
_SECRET = {"options": {"sensitive": True}}
# What a type may define. `s` is a secret wherever it is known, and of an unknown parameter everything is.
DEFINITIONS: list[list[dict[str, Any]]] = [
    [],
    [_P],
    [definition("p", "string", required=True)],
    [definition("p", "int")],
    [definition("p", "string", **_SECRET)],
    [_P, definition("q", "int", required=True)],
    [_P, definition("s", "string", **_SECRET)],
    [_P, definition("s", "map", **_SECRET)],
    [definition("s", "string", required=True, **_SECRET)],
]
PARAMETERS: list[list[dict[str, Any]]] = [
    [],
    [{"name": "p", "value": "x"}],
    [{"name": "p", "value": 5}],
    [{"name": "p", "value": "x"}, {"name": "q", "value": 5}],
    [{"name": "s", "value": "canary-1"}],
    [{"name": "p", "value": "canary-2", "sensitive": True}],
    [{"name": "s", "value": {"k": "canary-3"}}],
    [{"name": "s", "value": {"k": "canary-3", "l": "canary-4"}}, {"name": "p", "value": "x"}],
    [{"name": "s", "value": "${env:DESTINATION_DEFAULT__TOKEN}"}],
    [{"name": "p", "value": "x", "sensitive": True}],
]
MASKED: list[list[dict[str, Any]]] = [
    [{"name": "s", "value": MASK}],
    [{"name": "p", "value": MASK, "sensitive": True}],
    [{"name": "s", "value": {"k": MASK}}],
    [{"name": "s", "value": {"k": MASK, "l": "canary-5"}}, {"name": "p", "value": "x"}],
]

_metadata = st.fixed_dictionaries(
    {},
    optional={
        "description": st.sampled_from(["edited"]),
        "labels": st.sampled_from([{"team": "a"}, {"team": "b"}, {"team": "c"}, {"service/prune": "disabled"}]),
    },
)
_rare = st.sampled_from([*[dict[str, Any]()] * 12, {"deprecated": True}, {"id": "id-1"}, {"id": "id-2"}])
_types = st.sampled_from(["ta", "ta", "ta", "ta", "tb", "otlp", "missing"])
_parameters = st.sampled_from(PARAMETERS)


def _merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


def _meta() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(_merged, _metadata, _rare)


def _processors() -> st.SearchStrategy[list[dict[str, Any]]]:
    named: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{"name": "p1"}, {"name": "p2:7"}])
    inline: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [{"id": "i", "type": "custom"}, {"id": "i", "type": "ta", "parameters": PARAMETERS[4]}]
    )
    return st.lists(named | inline, max_size=1)


def _component(parameters: st.SearchStrategy[list[dict[str, Any]]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": _types, "parameters": parameters}, optional={"processors": _processors()})


@st.composite
def types(draw: st.DrawFn) -> Document:
    """A type of destinations or processors, one that shadows a built-in one, or one whose name is reserved."""
    kind = draw(st.sampled_from(["DestinationType", "DestinationType", "ProcessorType"]))
    name = draw(st.sampled_from(["ta", "ta", "tb", "otlp", "webhook"] if kind == "DestinationType" else ["ta"]))
    return document(kind, name, {"parameters": draw(st.sampled_from(DEFINITIONS))}, **draw(_meta()))


@st.composite
def destinations(draw: st.DrawFn, parameters: st.SearchStrategy[list[dict[str, Any]]] = _parameters) -> Document:
    """A destination of a type that may be there."""
    name = draw(st.sampled_from(["d1", "d2"]))
    return document("Destination", name, draw(_component(parameters)), **draw(_meta()))


@st.composite
def processors(draw: st.DrawFn) -> Document:
    """A processor, which may name others, itself too."""
    spec: dict[str, Any] = {"type": draw(st.sampled_from(["custom", "ta"]))}
    optional = {"processors": _processors(), "parameters": _parameters, "disabled": st.booleans()}
    spec |= draw(st.fixed_dictionaries({}, optional=optional))
    return document("Processor", draw(st.sampled_from(["p1", "p2"])), spec, **draw(_meta()))


@st.composite
def configurations(draw: st.DrawFn, parameters: st.SearchStrategy[list[dict[str, Any]]] = _parameters) -> Document:
    """A configuration that names destinations and holds components in place."""
    named = st.sampled_from([{"name": "d1"}, {"name": "d2:latest"}])
    inline = _component(parameters).map(lambda spec: {"id": "i", **spec})
    spec = {"destinations": draw(st.lists(named | inline, max_size=2, unique_by=lambda one: one.get("name", "i")))}
    spec |= draw(st.fixed_dictionaries({}, optional={"sources": st.just([{"type": "otlp"}])}))
    return document("Configuration", draw(st.sampled_from(["c1", "c2"])), spec, **draw(_meta()))


@st.composite
def others(draw: st.DrawFn) -> Document:
    """Return what refers to nothing, or in an odd way, and what is wrong by itself."""
    found: list[Document] = [
        document("Fleet", "f1", {}),
        document("Fleet", "f1", {"selector": {"matchLabels": {"team": "a"}}}),
        document("Extension", "e1", {"type": "file_storage"}),
        document("Extension", "e1", {"type": "te"}),
        document("Extension", "e1", {"type": "te", "processors": [{"name": "p2"}]}),
        document("Destination", "d1", _webhook("e1")),
        document("Destination", "d2", _webhook("e2")),
        document("Destination", "d1", {**_webhook("e1"), "processors": [{"name": "p1"}]}),
        document("Destination", "d2", {**_webhook("e1"), "disabled": True}),
        document("Destination", "d1", {"typ": "ta"}),
        document("Configuration", "c1", {"nothing": True}),
        document("DestinationType", "ta", {"parameters": [definition("p", "enum")]}),
        document("Destinaton", "d1", {}),
        {"apiVersion": "service/v1", "kind": "Destination", "metadata": {}, "spec": {"parameters": PARAMETERS[4]}},
        document("Extension", "file_storage_persistent_queue", {"type": "file_storage"}),
    ]
    return draw(st.sampled_from(found))


def _webhook(storage: str) -> dict[str, Any]:
    return {
        "type": "webhook",
        "parameters": [
            {"name": "hostname", "value": "example.com"},
            {"name": "headers", "value": {"authorization": "canary-6"}},
            {"name": "persistent_queue_enabled", "value": True},
            {"name": "persistent_queue_storage", "value": storage},
        ],
    }


BASE = {
    "a.yaml": [
        document("DestinationType", "ta", {"parameters": DEFINITIONS[6]}),
        document("DestinationType", "tb", {"parameters": DEFINITIONS[1]}),
        document("ProcessorType", "ta", {"parameters": []}),
        document("ExtensionType", "te", {"parameters": []}),
    ],
    "b.yaml": [
        document("Destination", "d1", {"type": "ta", "parameters": PARAMETERS[4]}),
        document("Destination", "d2", {"type": "tb", "parameters": PARAMETERS[1], "processors": [{"name": "p1"}]}),
        document("Extension", "e1", {"type": "file_storage"}),
    ],
    "d/a.yaml": [
        document("Processor", "p1", {"type": "custom"}),
        document("Processor", "p2", {"type": "ta", "processors": [{"name": "p1"}]}),
    ],
    "d/e/c.yml": [
        document("Configuration", "c1", {"destinations": [{"name": "d1"}, {"id": "i", "type": "ta"}]}),
        document("Fleet", "f1", {}),
    ],
}
"""The documents at first: everything fits, and most of it is used."""

FIRST: st.SearchStrategy[dict[str, dict[str, Content]]] = st.sampled_from(
    [
        {"a": BASE},
        {API: BASE},
        {API: BASE, "a": {"other.yaml": [document("Fleet", "other", {})]}},
        {},
        {"a": BASE, "b": {"other.yaml": [document("Fleet", "other", {})]}},
        {
            "a": {path: BASE[path] for path in ("a.yaml", "d/a.yaml")},
            "b": {path: BASE[path] for path in ("b.yaml", "d/e/c.yml")},
        },
    ]
)

DOCUMENTS = st.one_of(destinations(), types(), configurations(), processors(), types(), others())
SENT = st.one_of(
    DOCUMENTS, destinations(_parameters | st.sampled_from(MASKED)), configurations(st.sampled_from(MASKED))
)
CONTENTS: st.SearchStrategy[Content] = st.one_of(
    st.lists(DOCUMENTS, min_size=1, max_size=4), st.sampled_from(["", "a: b: c\n", "nothing: here\n"])
)
EDITS: st.SearchStrategy[dict[str, Content | None]] = st.one_of(
    st.dictionaries(st.sampled_from(FILES), st.none() | st.lists(DOCUMENTS, min_size=1, max_size=4), min_size=1),
    st.dictionaries(st.sampled_from(FILES), st.none() | CONTENTS, min_size=1),
    st.fixed_dictionaries({IGNORE: st.sampled_from([None, "c.yml\n", "*\n"])}),
)
KEYS = st.builds(
    lambda one: {"kind": one["kind"], "metadata": {"name": one["metadata"].get("name", "")}},
    DOCUMENTS,
)
OPTIONS = st.builds(
    Options,
    accept_invalid=st.booleans(),
    atomic=st.sampled_from([False, False, True]),
    role=st.sampled_from(["admin", "admin", "admin", "user"]),
)
