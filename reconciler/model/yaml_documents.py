"""YAML text to plain values and back; the only module that imports PyYAML.

Only the *events* of the C parser are used. PyYAML's own constructor recurses in C and crashes the process on deep
nesting, knows no limits, and reads YAML 1.1; the builder here keeps its own stack, counts as it reads, and follows YAML
1.2 core. Texts that libyaml would read differently are refused before. Written text has the same meaning for every
reader.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, Protocol, cast

import yaml
from yaml import MarkedYAMLError, YAMLError
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # its stubs do not say that it is there
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from reconciler.model import values as model_values
from reconciler.model.positions import (
    DocumentError,
    LocationRecorder,
    Locations,
    Position,
    TextLimits,
    refusal,
    refusal_at,
    shown,
)
from reconciler.model.text import visible_lines
from reconciler.model.values import Document, Value

WIDTH: Final = 2**30  # columns: lines are never folded, so that a changed word is a changed line
# Numbers of YAML 1.2 that PyYAML, a library for YAML 1.1, would write as unquoted text.
_NUMBER: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_FIRST: Final = list("-+.0123456789")


class _Dumper(yaml.CSafeDumper):
    """PyYAML's safe writer on its C emitter, with our quoting."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write no aliases: values are trees, and equal parts are written in full."""
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    # Only double quotes can escape, and only a literal block keeps lines readable.
    style = None
    if visible_lines(value) != value:
        style = '"'
    elif "\n" in value:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{_NUMBER.pattern})$"), _FIRST)


def to_yaml(values: Iterable[Value]) -> str:
    """Return the values as a stream of documents, `---` between them."""
    return "---\n".join(_document(value) for value in values)


def _document(value: Value) -> str:
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=WIDTH)
    # After a document without a clear end (a bare scalar, kept empty lines) the emitter writes a line `...`, which a
    # stream does not need. Text is indented or quoted, so such a line at the margin is never part of a value.
    if text.endswith("\n...\n"):
        text = text.removesuffix("...\n")
    return visible_lines(text, _escaped)


def _escaped(character: str) -> str:
    """Return the escape of a character. Escapes are allowed only in double quotes."""
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


# These are line breaks for YAML 1.1 and libyaml, which folds or replaces some of them, but text for YAML 1.2, editors
# and JSON.
_FOREIGN_BREAK: Final = re.compile("[\u0085\u2028\u2029]")
_TAG_DIRECTIVE: Final = re.compile(r"^%TAG", re.MULTILINE)
_TAG_DIRECTIVES: Final = 100  # libyaml compares each with all before it: 5 MiB of them would take minutes


def refuse_yaml_1_1(text: str) -> None:
    """Refuse line breaks of YAML 1.1 and too many directives. This is cheap for a text without them."""
    if not text.isascii() and (found := _FOREIGN_BREAK.search(text)) is not None:
        code = f"{ord(found[0]):04X}"
        message = f"holds U+{code}, a line break to some readers only; remove it or write \\u{code} in double quotes"
        raise refusal_at(message, text=text, offset=found.start())
    if text.count("%TAG") > _TAG_DIRECTIVES:
        # The length stays the same, so offsets stay valid. `^` only matches after LF.
        offsets = [found.start() for found in _TAG_DIRECTIVE.finditer(text.replace("\r", "\n"))]
        if len(offsets) > _TAG_DIRECTIVES:
            message = f"holds more than {_TAG_DIRECTIVES} %TAG directives; remove them"
            raise refusal_at(message, text=text, offset=offsets[_TAG_DIRECTIVES])


_HINTS: Final = {
    "found character that cannot start any token": "quote the text that begins here",
    "mapping values are not allowed in this context": "check the indentation, or quote a text that holds `: `",
    "could not find expected ':'": "add the `:` or check the indentation",
    "did not find expected key": "check the indentation",
    "did not find expected '-' indicator": "check the indentation",
    "found unexpected end of stream": "close the quote",
    "found undefined tag handle": "remove the tag",
}


_NODES: Final = frozenset({ScalarEvent, AliasEvent, MappingStartEvent, SequenceStartEvent})


class _Mark(Protocol):
    index: int
    line: int
    column: int


class _Event(Protocol):
    """The fields of events that the loops read when they know the class: one flat view instead of a cast in each
    branch.
    """

    start_mark: _Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None


def documents(text: str, *, limits: TextLimits) -> list[Document]:
    """Return every document of the stream that is not empty."""
    refuse_yaml_1_1(text)
    parser = CParser(text)
    try:
        return _build(parser, limits)
    except YAMLError as error:
        raise _translated(error, text) from None


def _build(parser: CParser, limits: TextLimits) -> list[Document]:  # noqa: PLR0912, PLR0915
    """Build values from events. This is one long function, because its loop runs once for each node of every file: a
    call for each event, or an attribute instead of a local variable, makes a full read measurably slower. The open list
    or mapping is `items` or `fields` (`fields` is None inside a list), `key` waits for its value, and `stack` has the
    same for all enclosing ones.
    """
    next_event = cast("Callable[[], _Event]", parser.get_event)
    first, plain = model_values.FIRST, model_values.plain_scalar
    max_depth, max_nodes, max_text = limits.depth, limits.nodes, limits.text
    found: list[Document] = []
    roots: list[Value] = []
    items = roots
    fields: dict[str, Value] | None = None
    key: str | None = None
    stack: list[tuple[list[Value], dict[str, Value] | None, str | None, str | None, int, int]] = []
    anchors: dict[str, tuple[Value, int, int] | None] = {}  # value, nodes, text; None while it is still open
    value: Value
    index, root, nodes, size = -1, Position(1, 1), 0, 0
    empty = False
    while True:
        event = next_event()
        kind: type = event.__class__
        if kind is ScalarEvent:
            value = written = event.value
            length = len(written) if written.isascii() else len(written.encode())
            nodes += 1
            size += length
            if nodes > max_nodes or size > max_text:
                raise _too_large(event, nodes=nodes, limits=limits)
            try:
                if event.tag is not None:
                    value = model_values.tagged_scalar(written, event.tag)
                elif not event.style and written[:1] in first:
                    value = plain(written)
            except model_values.NotAScalar as unfit:
                raise refusal(str(unfit), _place(event.start_mark)) from None
            if event.anchor is not None:
                anchors[event.anchor] = (value, 1, length)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            mapping = kind is MappingStartEvent
            if len(stack) >= max_depth:
                raise _refused(event, _too_deep(limits))
            if fields is not None and key is None:
                raise _refused(event, "a key must be text, not a list or mapping")
            if event.tag is not None:
                _check_collection(event, mapping=mapping)
            if event.anchor is not None:
                anchors[event.anchor] = None
            stack.append((items, fields, key, event.anchor, nodes, size))
            nodes += 1
            if nodes > max_nodes:
                raise _too_large(event, nodes=nodes, limits=limits)
            items, fields, key = [], ({} if mapping else None), None
            continue
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            value = items if fields is None else fields
            items, fields, key, anchor, nodes_before, size_before = stack.pop()
            # Unless the same anchor occurs again inside: then the later one counts.
            if anchor is not None and anchors[anchor] is None:
                anchors[anchor] = (value, nodes - nodes_before, size - size_before)
        elif kind is AliasEvent:
            value, more_nodes, more_size = _anchored(event, anchors)
            nodes += more_nodes
            size += more_size
            # Checked before the copy, so that an alias never costs more than the limits allow.
            if nodes > max_nodes or size > max_text:
                raise _too_large(event, nodes=nodes, limits=limits)
            if value.__class__ is dict or value.__class__ is list:
                value = _copied(event, value, levels=max_depth - len(stack), limits=limits)
        elif kind is DocumentStartEvent:
            index += 1
            anchors.clear()
            node = cast("_Event", parser.peek_event())
            root, empty = _place(node.start_mark), _is_empty(node)
            if index >= limits.documents:
                raise refusal(f"holds more than {limits.documents:,} documents; split it into smaller ones", root)
            continue
        elif kind is DocumentEndEvent:
            whole = roots.pop()
            if not empty:
                found.append(Document(whole, index, root.line, root.column))
            continue
        elif kind is StreamEndEvent:
            return found
        else:  # the start of the stream
            continue

        if fields is None:
            items.append(value)
        elif key is not None:
            fields[key] = value
            key = None
        elif value.__class__ is not str or value in fields or value == "<<":
            key = _checked_key(event, value, fields)
        else:
            key = value


def locate(text: str, *, limits: TextLimits) -> Locations:
    """Return the positions in a text that `documents` has accepted.

    Two checks are repeated here, because other callers only test if a text is YAML: the depth, for which libyaml takes
    quadratic time, and the number of nodes. An alias counts as one node, because aliases share positions.
    """
    refuse_yaml_1_1(text)
    parser = CParser(text)
    try:
        return _record(parser, limits)
    except YAMLError as error:
        raise _translated(error, text) from None


def _record(parser: CParser, limits: TextLimits) -> Locations:
    next_event = cast("Callable[[], _Event]", parser.get_event)
    recorder, index, depth, nodes = LocationRecorder(), -1, 0, 0
    while True:
        event = next_event()
        kind: type = event.__class__
        place = _place(event.start_mark)
        if kind in _NODES:
            nodes += 1
            if nodes > limits.nodes:
                raise _too_large(event, nodes=nodes, limits=limits)
        if kind is ScalarEvent:
            recorder.scalar(place, event.value, anchor=event.anchor)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            depth += 1
            if depth > limits.depth:
                raise _refused(event, _too_deep(limits))
            recorder.enter(place, mapping=kind is MappingStartEvent, anchor=event.anchor)
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            depth -= 1
            recorder.leave()
        elif kind is AliasEvent:
            recorder.alias(place, event.anchor or "")
        elif kind is DocumentStartEvent:
            index += 1
            recorder.document(index)
        elif kind is StreamEndEvent:
            return recorder.finish()


def _place(mark: _Mark) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _refused(event: _Event, message: str) -> DocumentError:
    return refusal(message, _place(event.start_mark))


def _too_deep(limits: TextLimits) -> str:
    return f"is nested deeper than {limits.depth} levels; flatten it"


def _too_large(event: _Event, *, nodes: int, limits: TextLimits) -> DocumentError:
    if nodes > limits.nodes:
        what = f"more than {limits.nodes:,} values and keys"
    else:
        what = f"more than {limits.text:,} bytes of text"
    return _refused(event, f"holds {what} (an alias counts as what it stands for); split it into smaller ones")


def _check_collection(event: _Event, *, mapping: bool) -> None:
    try:
        model_values.check_collection(event.tag or "", mapping=mapping)
    except model_values.NotAScalar as unfit:
        raise _refused(event, str(unfit)) from None


def _is_empty(node: _Event) -> bool:
    """Return True if the document is empty: its only node is implicit."""
    kind: type = node.__class__
    return kind is ScalarEvent and not (node.value or node.style or node.tag or node.anchor)


def _anchored(event: _Event, anchors: dict[str, tuple[Value, int, int] | None]) -> tuple[Value, int, int]:
    name = event.anchor or ""
    if name not in anchors:
        raise _refused(event, "the alias has no anchor before it; quote text that begins with `*`")
    anchored = anchors[name]
    if anchored is None:
        raise _refused(event, f"the alias `*{shown(name)}` stands inside what it refers to; write the value out")
    return anchored


def _copied(event: _Event, value: Value, *, levels: int, limits: TextLimits) -> Value:
    try:
        return model_values.copied(value, levels=levels)
    except model_values.NotAScalar:
        raise _refused(event, _too_deep(limits)) from None


def _checked_key(event: _Event, key: Value, fields: dict[str, Value]) -> str:
    """Return the key if it is allowed nevertheless (a quoted `<<`). Otherwise raise the reason."""
    if not isinstance(key, str):
        raise _refused(event, "a key must be text, and this one is not; quote it")
    if key in fields:
        raise _refused(event, f"the key `{shown(key)}` is there twice; remove one")
    if not getattr(event, "style", None):
        raise _refused(event, "the merge key `<<` is not supported; write the merged keys out")
    return key


def _translated(error: YAMLError, text: str) -> DocumentError:
    """Return libyaml's complaint as one sentence, without its excerpt of the text, which may contain a secret."""
    if isinstance(error, ReaderError):
        before = text.encode()[: error.position].decode(errors="ignore")
        message = f"holds the control character U+{error.character:04X}; remove it, or escape it in double quotes"
        return refusal_at(message, text=text, offset=len(before))
    if not isinstance(error, MarkedYAMLError):
        return refusal("is not valid YAML", Position(1, 1))
    mark = cast("_Mark | None", error.problem_mark or error.context_mark)
    problem = error.problem or "cannot be read"
    hint = _HINTS.get(problem, "correct the syntax")
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        hint = "indent with spaces, not tabs"
    context = f"{error.context}, " if error.context else ""
    return refusal(f"is not valid YAML: {context}{problem}; {hint}", _place(mark) if mark else Position(1, 1))
