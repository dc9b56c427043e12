"""`reconciler explain` and `reconciler schema`."""

import textwrap

import click

import schemas
from reconciler.cli import output
from reconciler.cli.options import complete_kind, kind_argument, known_kind
from reconciler.cli.tables import answer_at, answer_objects, answer_strings, answer_text
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

# `reconciler schema`: the JSON Schema of a kind, for editors and checks.


@click.command()
@kind_argument
def schema(*, kind: str) -> None:
    """Print the JSON Schema (2020-12) of a kind's documents."""
    output.write(output.as_json(schemas.load(schema_name(kind))))


def schema_name(kind: str) -> str:
    """The name of a kind's schema, whatever way the kind is spelled."""
    return kind if kind in schemas.names() else known_kind(kind).name


# `reconciler explain`: what a kind or a field means, out of its schema's descriptions.

WIDTH = 96  # columns of running text
DEEPEST = 64  # references that lead to references; more is a circle


@click.command()
@click.argument("field", metavar="KIND[.FIELD]", shell_complete=complete_kind)
def explain(*, field: str) -> None:
    """Explain a kind, or a field of it: `destination.spec.parameters`."""
    kind, *path = field.removesuffix(".").split(".")
    name = schema_name(kind)
    root = schemas.load(name)
    output.write(described(name, path, root=root))


def described(kind: str, path: list[str], *, root: Value) -> str:
    """The text for the field at `path` of a kind's schema."""
    node, required = _resolved(root, root), False
    for index, part in enumerate(path):
        fields = _fields(node, root)
        if part not in fields:
            where = ".".join([kind, *path[:index]])
            known = f"its fields are {', '.join(fields)}" if fields else "it has no fields"
            raise Refused(f"{where} has no field {part}; {known}")
        required = part in answer_strings(answer_at(_object(node, root), "required"))
        node = _resolved(fields[part], root)
    parts = [
        _head(kind, path, kind_of_value=_type(node, root), required=required),
        _description(node),
        *_allowed(node),
        *_example(node),
    ]
    fields = _fields(node, root)
    if fields:
        parts.append(_listed(fields, node=node, root=root))
    return "\n".join(parts)


def _head(kind: str, path: list[str], *, kind_of_value: str, required: bool) -> str:
    remark = ", required" if required else ""
    field = f"FIELD:   {'.'.join(path)} <{kind_of_value}{remark}>\n" if path else ""
    return visible(f"KIND:    {kind}") + "\n" + field


def _description(node: Value) -> str:
    return "DESCRIPTION:\n" + _wrapped(answer_text(node, "description") or answer_text(node, "title") or "(none)")


def _allowed(node: Value) -> list[str]:
    lines = []
    values = answer_at(node, "enum")
    if isinstance(values, list):
        lines.append(f"one of {', '.join(str(value) for value in values)}")
    lines += [f"{words} {answer_text(node, key)}" for key, words in WORDS.items() if answer_at(node, key) is not None]
    return ["ALLOWED:\n" + "".join(_wrapped(visible(line)) for line in lines)] if lines else []


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


def _example(node: Value) -> list[str]:
    examples = answer_at(node, "examples")
    if not isinstance(examples, list) or not examples:
        return []
    return ["EXAMPLE:\n" + textwrap.indent(output.as_yaml(examples[:1]), "  ")]


def _listed(fields: dict[str, Value], *, node: Value, root: Value) -> str:
    required = answer_strings(answer_at(_object(node, root), "required"))
    lines = ["FIELDS:\n"]
    for name, raw in fields.items():
        field = _resolved(raw, root)
        remark = ", required" if name in required else ""
        lines.append(f"  {visible(name)} <{_type(field, root)}{remark}>\n")
        lines.append(_wrapped(answer_text(raw, "description") or answer_text(field, "description"), indent="    "))
    return "".join(lines)


def _wrapped(words: str, *, indent: str = "  ") -> str:
    return textwrap.fill(visible(words), WIDTH, initial_indent=indent, subsequent_indent=indent) + "\n"


def _type(node: Value, root: Value) -> str:
    kind = answer_at(node, "type")
    if isinstance(kind, list):
        # The comma says that it is the list that may be null, and not what is in it.
        return (", or " if "array" in kind else " or ").join(_named(each, node, root) for each in kind)
    if kind == "array":
        return _named(kind, node, root)
    return str(kind) if kind else "string" if isinstance(answer_at(node, "const"), str) else "any"


def _named(kind: Value, node: Value, root: Value) -> str:
    return f"list of {_type(_resolved(answer_at(node, 'items'), root), root)}" if kind == "array" else str(kind)


def _fields(node: Value, root: Value) -> dict[str, Value]:
    properties = answer_at(_object(node, root), "properties")
    return properties if isinstance(properties, dict) else {}


def _object(node: Value, root: Value) -> Value:
    """The object that has the fields: the node itself, or what its list or one of its alternatives holds."""
    for _ in range(DEEPEST):
        node = _resolved(node, root)
        if answer_at(node, "properties") is not None:
            return node
        inside = [
            answer_at(node, "items"),
            *(each for key in ("allOf", "anyOf", "oneOf") for each in answer_objects(answer_at(node, key))),
        ]
        node = next((each for each in inside if isinstance(each, dict)), None)
        if node is None:
            return None
    return None


def _resolved(node: Value, root: Value) -> Value:
    """The node that a local reference (`#/$defs/...`) leads to; what stands beside the reference is kept."""
    for _ in range(DEEPEST):
        reference = answer_text(node, "$ref")
        if not isinstance(node, dict) or not reference.startswith("#/"):
            break
        target = answer_at(root, *(part.replace("~1", "/").replace("~0", "~") for part in reference[2:].split("/")))
        beside = {key: value for key, value in node.items() if key != "$ref"}
        node = {**target, **beside} if isinstance(target, dict) else beside
    return node
