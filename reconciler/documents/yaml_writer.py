"""Plain values to YAML text that every YAML reader understands the same way.

Belongs here: quoting. Does not: reading, resources, order (a mapping keeps the order it has).
Text that YAML 1.1 or YAML 1.2 would take for something else (`no`, `1e3`, `0o17`, `2026-01-01`) is quoted, and every
character that does not show as itself is escaped, so that reading gives it back.
"""

import re
from collections.abc import Iterable
from typing import Final

import yaml

from reconciler.documents.values import Value
from reconciler.escaping import visible_lines

WIDTH: Final = 2**30  # columns: lines are never folded, so that a changed word is a changed line
# Numbers of YAML 1.2 that PyYAML, a 1.1 library, takes for text and would leave unquoted.
_NUMBER: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_FIRST: Final = list("-+.0123456789")


class _Dumper(yaml.CSafeDumper):
    """PyYAML's safe writer on its C emitter, with our quoting."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Values are trees; equal parts are written out."""
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    # Double quotes are the one style that can escape, and a literal block the one that keeps lines readable.
    style = None
    if visible_lines(value) != value:
        style = '"'
    elif "\n" in value:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{_NUMBER.pattern})$"), _FIRST)


def write(values: Iterable[Value]) -> str:
    """The values as a stream of documents, `---` between them."""
    return "---\n".join(_document(value) for value in values)


def _document(value: Value) -> str:
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=WIDTH)
    # The emitter ends a document of which it does not see the end (a bare scalar, kept empty lines) with a line `...`,
    # which a stream does not need. Text is indented or quoted, so such a line at the margin is never part of a value.
    if text.endswith("\n...\n"):
        text = text.removesuffix("...\n")
    return visible_lines(text, _escaped)


def _escaped(character: str) -> str:
    """The escape that double quotes understand; such characters stand nowhere else."""
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
