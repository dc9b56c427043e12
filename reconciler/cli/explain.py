"""`reconciler explain` and `reconciler schema`: the JSON Schema of a kind, and its descriptions as text."""

import textwrap

import click

import schemas
from reconciler.cli import client, output
from reconciler.cli.client import at, text
from reconciler.cli.options import complete_kind, kind_argument, known_kind
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

WIDTH = 96  # columns of running text
DEEPEST = 64  # references that lead to references; more is a circle
WORDS = {
    "const": "exactly",
    "pattern": "matching",
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters, at least",
    "maxLength": "characters, at most",
    "minItems": "items, at least",
    "maxItems": "items, at most",
    "default": "when left out:",
}


@click.command()
@kind_argument
def schema(*, kind: str) -> None:
    """Print the JSON Schema (2020-12) of a kind's documents."""
    output.write(output.as_json(schemas.load(_schema_name(kind))))


@click.command()
@click.argument("field", metavar="KIND[.FIELD]", shell_complete=complete_kind)
def explain(*, field: str) -> None:
    """Explain a kind, or a field of it: `destination.spec.parameters`."""
    kind, *path = field.removesuffix(".").split(".")
    name = _schema_name(kind)
    output.write(described(name, path, root=schemas.load(name)))


def _schema_name(kind: str) -> str:
    return kind if kind in schemas.names() else known_kind(kind).name


def described(kind: str, path: list[str], *, root: Value) -> str:
    """Return the text for the field at `path` of a kind's schema."""
    node, required = _resolved(root, root), False
    for index, part in enumerate(path):
        fields = _fields(node, root)
        if part not in fields:
            where = ".".join([kind, *path[:index]])
            known = f"its fields are {', '.join(fields)}" if fields else "it has no fields"
            raise Refused(f"{where} has no field {part}; {known}")
        required = part in _required(node, root)
        node = _resolved(fields[part], root)
    head = visible(f"KIND:    {kind}") + "\n"
    if path:
        head += f"FIELD:   {'.'.join(path)} <{_type(node, root)}{', required' if required else ''}>\n"
    parts = [head, "DESCRIPTION:\n" + _wrapped(text(node, "description") or text(node, "title") or "(none)")]
    values, examples = at(node, "enum"), at(node, "examples")
    allowed = [f"one of {', '.join(str(value) for value in values)}"] if isinstance(values, list) else []
    allowed += [f"{words} {text(node, key)}" for key, words in WORDS.items() if at(node, key) is not None]
    if allowed:
        parts.append("ALLOWED:\n" + "".join(_wrapped(visible(line)) for line in allowed))
    if isinstance(examples, list) and examples:
        parts.append("EXAMPLE:\n" + textwrap.indent(output.as_yaml(examples[:1]), "  "))
    if fields := _fields(node, root):
        parts.append("FIELDS:\n")
        for name, raw in fields.items():
            field = _resolved(raw, root)
            remark = ", required" if name in _required(node, root) else ""
            parts[-1] += f"  {visible(name)} <{_type(field, root)}{remark}>\n"
            parts[-1] += _wrapped(text(raw, "description") or text(field, "description"), indent="    ")
    return "\n".join(parts)


def _wrapped(words: str, *, indent: str = "  ") -> str:
    return textwrap.fill(visible(words), WIDTH, initial_indent=indent, subsequent_indent=indent) + "\n"


def _type(node: Value, root: Value) -> str:
    def named(kind: Value) -> str:
        return f"list of {_type(_resolved(at(node, 'items'), root), root)}" if kind == "array" else str(kind)

    kind = at(node, "type")
    if isinstance(kind, list):
        # The comma says that it is the list that may be null, and not its elements.
        return (", or " if "array" in kind else " or ").join(map(named, kind))
    if kind:
        return named(kind)
    return "string" if isinstance(at(node, "const"), str) else "any"


def _fields(node: Value, root: Value) -> dict[str, Value]:
    properties = at(_object(node, root), "properties")
    return properties if isinstance(properties, dict) else {}


def _required(node: Value, root: Value) -> list[str]:
    return client.strings(at(_object(node, root), "required"))


def _object(node: Value, root: Value) -> Value:
    """Return the object with the fields: the node itself, or the content of its list or of one of its alternatives."""
    for _ in range(DEEPEST):
        node = _resolved(node, root)
        if at(node, "properties") is not None:
            return node
        inside = [at(node, "items")]
        inside += [each for key in ("allOf", "anyOf", "oneOf") for each in client.objects(at(node, key))]
        node = next((each for each in inside if isinstance(each, dict)), None)
        if node is None:
            return None
    return None


def _resolved(node: Value, root: Value) -> Value:
    """Return the target of a local reference (`#/$defs/...`); members beside the reference are kept."""
    for _ in range(DEEPEST):  # a schema of another server may refer to itself
        reference = text(node, "$ref") if isinstance(node, dict) else ""
        if not isinstance(node, dict) or not reference:
            return node
        target = at(root, *reference.removeprefix("#/").split("/"))
        beside = {key: value for key, value in node.items() if key != "$ref"}
        node = {**target, **beside} if isinstance(target, dict) else beside
    return None
