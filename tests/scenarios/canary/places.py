"""Documents with a secret of its own in every place where one may stand, good ones and bad ones.

Belongs here: what is put where. Does not: how it is sent, or searched for.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.canaries import MARKER

Document = dict[str, Any]
COMPONENTS = ("Source", "Processor", "Connector", "Destination", "Extension")
NUMBER = "7719304451"  # how each secret number begins


def canary(place: str) -> str:
    """The secret of a place."""
    return f"{MARKER}{place}"


def document(kind: str, name: str, spec: object, **metadata: object) -> Document:
    """A document."""
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def parameter(name: str, value: object, **more: object) -> Document:
    """A parameter."""
    return {"name": name, "value": value, **more}


def type_of(kind: str) -> Document:
    """A type that calls a parameter of each type a secret, and has others that are open."""
    secret = {"options": {"sensitive": True}}
    definitions = [
        {"name": "string", "type": "string", **secret},
        {"name": "int", "type": "int", **secret},
        {"name": "enum", "type": "enum", "validValues": ["a"], "options": {"sensitive": True, "creatable": True}},
        {"name": "strings", "type": "strings", **secret},
        {"name": "map", "type": "map", **secret},
        {"name": "yaml", "type": "yaml", **secret},
        {"name": "any", "type": "fraction", **secret},
        {"name": "open", "type": "string"},
        {"name": "open_map", "type": "map"},
        {"name": "open_list", "type": "strings"},
        {"name": "needed", "type": "int"},
    ]
    return document(f"{kind}Type", "probe", {"parameters": definitions})


def component(place: str) -> Document:
    """A component with a secret in each parameter, by its type and by its own word."""
    own = {"sensitive": True}

    def secret(name: str) -> str:
        return canary(f"{place}-{name}")

    return {
        "type": "probe",
        "parameters": [
            parameter("string", secret("string")),
            parameter("int", int(f"{NUMBER}{len(place)}")),
            parameter("enum", secret("enum")),
            parameter("strings", ["${env:TOKEN}", secret("strings")]),
            parameter("map", {"key": secret("map"), "other": "${env:TOKEN}"}),
            parameter("yaml", f"a: {secret('yaml')}"),
            parameter("any", {"deep": [{"value": secret("any")}]}),
            parameter("open", secret("own"), **own),
            parameter("open_map", {"key": secret("own-map")}, **own),
            parameter("open_list", [secret("own-list")], **own),
        ],
    }


def nested(place: str) -> Document:
    """The same with processors in it."""
    inner = component(f"{place}-processor") | {"id": "one"}
    return component(place) | {"processors": [inner]}


def good() -> Iterator[Document]:
    """Return what is stored: types first."""
    yield from map(type_of, COMPONENTS)
    for kind in COMPONENTS:
        spec = nested(kind) if kind in ("Source", "Destination") else component(kind)
        yield document(kind, "secretive", spec, labels={"team": "red"})
    hook = [
        parameter("hostname", "logs.example.org"),
        parameter("headers", {"Authorization": canary("headers-first"), "X-Key": canary("headers-second")}),
        parameter("path", f"/{canary('webhook-path')}", sensitive=True),
    ]
    yield document("Destination", "hook", {"type": "webhook", "parameters": hook}, labels={"team": "red"})
    yield document("Configuration", "inline", inline("inline"), labels={"team": "red"})


def inline(place: str) -> Document:
    """A Configuration with a component of each kind, and parameters of its own."""
    lists = {f"{kind.lower()}s": [component(f"{place}-{kind}") | {"id": "one"}] for kind in COMPONENTS}
    lists["sources"][0]["processors"] = [component(f"{place}-nested") | {"id": "two"}]
    return {**lists, "parameters": [parameter("any", canary(f"{place}-configuration"), sensitive=True)]}


def incomplete() -> Iterator[Document]:
    """Return what is stored with `acceptInvalid`: parameters that no type knows, or of the wrong shape."""
    unknown = [*component("unknown")["parameters"], parameter("not_defined", canary("not-defined"))]
    yield document("Destination", "unknown", {"type": "probe", "parameters": unknown})
    wrong = [
        parameter("string", {"a": canary("wrong-object")}),
        parameter("int", canary("wrong-int")),
        parameter("strings", canary("wrong-strings")),
        parameter("map", [canary("wrong-map")]),
        parameter("yaml", f"[{canary('wrong-yaml')}"),
        parameter("needed", canary("wrong-own"), sensitive=True),
        parameter("open_map", {"a": {"b": canary("wrong-own-map")}}, sensitive=True),
    ]
    yield document("Destination", "wrong", {"type": "probe", "parameters": wrong})


def bad() -> Iterator[Document]:
    """Return what is refused, with a secret beside everything that can be wrong."""
    secret = component("bad")
    whole = document("Destination", "bad", secret)
    first, *others = secret["parameters"]
    yield document("Destination", "bad-type", secret | {"type": "missing"})
    yield document("Destination", "bad-type", secret | {"type": 3})
    yield document("Destination", "bad-type", {"parameters": secret["parameters"]})
    yield document(
        "Destination", "bad-nested", secret | {"processors": [component("bad-nested") | {"type": "missing"}]}
    )
    yield document("Destination", "bad-nested", secret | {"processors": component("bad-nested")})
    yield document("Destination", "bad-nested", secret | {"processors": [{"name": "missing", **component("bad-both")}]})
    yield document("Destination", "bad-twice", secret | {"parameters": [first, first, *others]})
    yield document("Destination", "bad-shape", secret | {"parameters": {"headers": canary("bad-shape")}})
    yield document("Destination", "bad-shape", secret | {"parameters": canary("bad-shape")})
    yield document("Destination", "bad-shape", [secret])
    yield document("Destination", "bad-flag", secret | {"parameters": [first | {"sensitive": "yes"}]})
    yield document("Destination", "bad-name", secret | {"parameters": [parameter("", canary("bad-name"))]})
    yield document("Destination", "bad-name", secret | {"parameters": [{"value": canary("bad-nameless")}]})
    yield document("Destination", "bad-name", secret | {"parameters": [{"name": 3, "value": canary("bad-number")}]})
    yield document("Destination", "bad-key", secret | {"parameters": [first | {"colour": 1}]})
    yield document("Destination", "bad-key", secret | {"colour": 1})
    yield document("Destination", "bad name", secret)
    yield document("Destination", "bad-id", secret, id="../../x")
    yield document("Destination", "bad-label", secret, labels={"a b": "c"})
    yield document("Destination", "bad-new", secret, deprecated=True)
    yield document("Pod", "bad-kind", secret)
    yield whole | {"apiVersion": "v1"}
    yield whole | {"more": 1}
    yield {"parameters": secret["parameters"]}
    yield document("Configuration", "bad-inline", inline("bad-inline") | {"raw": "a: 1"})
    yield document("Configuration", "bad-inline", inline("bad-inline") | {"sources": [{"name": "missing"}]})
    yield document("Configuration", "bad-parameters", {"parameters": [{"value": canary("bad-parameters")}]})


def undescribed() -> Iterator[Document]:
    """Return what is refused, with a secret where no schema knows a field."""
    yield document("Destination", "undescribed", component("undescribed") | {"password": canary("in-a-spec")})
    yield document("Destination", "undescribed", {"type": "webhook", "headers": {"A": canary("headers-in-a-spec")}})
    yield document("Destination", "undescribed", component("undescribed"), password=canary("in-the-metadata"))
    yield document("Destination", "undescribed", component("undescribed")) | {"password": canary("beside-the-spec")}
    first = parameter("string", "x", password=canary("beside-a-value"))
    yield document("Destination", "undescribed", {"type": "probe", "parameters": [first]})


def bodies() -> Iterator[bytes]:
    """Bodies that are no JSON, or of another shape, right at a secret."""
    secret = canary("body")
    yield from (
        text.encode()
        for text in (
            f'{{"resources": ["{secret}"]}}',
            f'{{"resources": "{secret}"}}',
            f'"{secret}"',
            f'{{"resources": [{{"value": "{secret}", }}]}}',
            f'{{"resources": [{{"value": "{secret}',
            f'{{"resources": [{{"value": {secret}}}]}}',
            f"{{'resources': '{secret}'}}",
            f'{{"resources": [], {secret}}}',
            f'{{"resources": [{{"value": "{secret}", "value": "{secret}"}}]}}',
            f'{{"resources": [{{"value": "{secret}\\x"}}]}}',
            f'{{"resources": [{{"value": "{secret}\x01"}}]}}',
            secret,
        )
    )


HEAD = (
    "apiVersion: service/v1\nkind: Destination\nmetadata: {{name: broken-{number}}}\nspec:\n  type: webhook\n  "
    "parameters:\n"
    "    - name: headers\n      value:\n        Authorization: "
)


def broken_files() -> Iterator[tuple[str, str]]:
    """Files that are no YAML or JSON, or break a rule of files, right at a secret: path and text."""
    secret = canary("file")
    texts = (
        f'"{secret}',
        f"'{secret}",
        f"[{secret}",
        f"{{{secret}",
        f"{secret}: {secret}: {secret}",
        f"!{secret} x",
        f"!!{secret} x",
        f"!<tag:{secret}> x",
        f"*{secret}",
        f"&{secret} &{secret} x",
        f"@{secret}",
        f"`{secret}",
        f"%{secret}",
        f"|{secret}",
        f">{secret}",
        f"{secret}\n        Authorization: {secret}",
        f"{secret}\n      - {secret}",
        f'"\\q{secret}"',
        f'"\\x{secret}"',
        f"? {secret}",
        f"{secret}\t\n\t{secret}: x",
        f"{secret}\0",
        f"{secret}\x07",
        f"<<: {secret}",
        f"{{<<: {secret}}}",
        f"[{secret}, {secret}]",
        f"{NUMBER}{'9' * 20}",
        f"0x{'f' * 30}",
        f"#{secret}\n---\n%{secret}\n---\n",
    )
    for number, text in enumerate(texts):
        yield f"broken/{number:02}.yaml", HEAD.format(number=number) + text + "\n"
    for number, body in enumerate(bodies()):
        yield f"broken/{number:02}.json", body.decode()


def as_file(one: Document) -> str:
    """A document as the text of a file."""
    return json.dumps(one)
