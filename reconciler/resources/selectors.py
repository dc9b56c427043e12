"""Label selectors in Kubernetes' syntax: `team=edge, env in (prod, staging), !legacy`. Pure.

Belongs here: reading a selector, and whether labels match it. Does not: where labels are kept, and what is selected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from reconciler import errors
from reconciler.resources import names

LONGEST = 4096  # characters
MOST = 100  # requirements

# One token: a space, an operator or a bracket, or a word; what no selector holds is in words, where the rules for keys
# and values refuse it.
_SPACES = " \t\r\n"
_TOKEN = re.compile(rf"[{_SPACES}]+|==|!=|[=!(),<>]|[^{_SPACES}=!(),<>]+")
_SPECIAL = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_EQUAL = frozenset({"=", "=="})
_END = ""
_OPERATOR = "`=`, `==`, `!=`, `in`, `notin`, `,` or the end"


class BadSelector(errors.Refused):
    """The text is no selector; the message says where and why, as it stands after a colon."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a selector: a label that is there, with one of some values when there are any; or the opposite."""

    key: str
    values: frozenset[str] | None = None  # None: any value
    negated: bool = False  # `!a`, `a!=b`, `a notin (b)`; the latter two match when the label is absent, too

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fit."""
        holds = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return holds != self.negated


@dataclass(frozen=True, slots=True)
class Selector:
    """What labels have to fit, all of it. Without requirements it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fit every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = Selector()


def parse(text: str) -> Selector:
    """The selector that a text is; the empty one selects everything. Raises `BadSelector`."""
    if len(text) > LONGEST:
        raise BadSelector(f"it is over {LONGEST:,} characters long")
    reader = _Reader(text)
    requirements: list[Requirement] = []
    if reader.token.text == _END:
        return EVERYTHING
    while True:
        if len(requirements) == MOST:
            raise BadSelector(f"at character {reader.token.at} begins one requirement more than {MOST}")
        requirements.append(_requirement(reader))
        if reader.token.text == _END:
            return Selector(tuple(requirements))
        reader.expect(",", "`,` or the end")


class _Token(NamedTuple):
    text: str  # empty at the end
    at: int  # the character at which it begins, from 1


class _Reader:
    """The tokens of a text, one after another; `token` is the next one."""

    def __init__(self, text: str) -> None:
        found = (_Token(match[0], match.start() + 1) for match in _TOKEN.finditer(text))
        self._tokens = iter([*(one for one in found if one.text[0] not in _SPACES), _Token(_END, len(text) + 1)])
        self.token = next(self._tokens)

    def take(self) -> _Token:
        """The next token, which is left behind; the end stays."""
        taken = self.token
        self.token = next(self._tokens, taken)
        return taken

    def takes(self, *texts: str) -> bool:
        """Whether the next token is one of these; then it is left behind."""
        found = self.token.text in texts
        if found:
            self.take()
        return found

    def is_word(self) -> bool:
        """Whether the next token may be a key or a value."""
        return self.token.text != _END and self.token.text not in _SPECIAL

    def expect(self, text: str, told: str) -> None:
        """Leave a token behind. Raises `BadSelector` when the next one is another."""
        if not self.takes(text):
            raise self.wrong(told)

    def wrong(self, expected: str) -> BadSelector:
        """What is said when the next token is not what belongs there."""
        return BadSelector(f"at character {self.token.at}, {expected} is expected")


def _requirement(reader: _Reader) -> Requirement:
    if reader.takes("!"):
        return Requirement(_key(reader, "a label's key"), negated=True)
    key = _key(reader, "a label's key or `!`")
    operator = reader.token.text
    if operator in (_END, ","):
        return Requirement(key)
    if reader.takes(*_EQUAL, "!="):
        return Requirement(key, frozenset({_value(reader)}), negated=operator == "!=")
    if reader.takes("in", "notin"):
        return Requirement(key, _values(reader), negated=operator == "notin")
    raise reader.wrong(_OPERATOR)


def _key(reader: _Reader, expected: str) -> str:
    if not reader.is_word():
        raise reader.wrong(expected)
    key = reader.take()
    problem = names.label_key(key.text)
    if problem is not None:
        raise BadSelector(f"the label's key at character {key.at} {problem}")
    return key.text


def _values(reader: _Reader) -> frozenset[str]:
    """The values in brackets; as with Kubernetes, nothing between two commas is the empty value."""
    reader.expect("(", "`(`")
    if reader.token.text == ")":
        raise reader.wrong("a label's value")
    values = {_value(reader)}
    while reader.takes(","):
        values.add(_value(reader))
    reader.expect(")", "`,` or `)`")
    return frozenset(values)


def _value(reader: _Reader) -> str:
    """A value; nothing is the empty one."""
    if not reader.is_word():
        return ""
    value = reader.take()
    problem = names.label_value(value.text)
    if problem is not None:
        raise BadSelector(f"the label's value at character {value.at} {problem}")
    return value.text
