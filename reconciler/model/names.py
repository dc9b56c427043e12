"""Kinds, names, keys, label selectors and names of Git refs.

The rules return a sentence about what is wrong, or None. The schemas state the same rules for documents; these are for
paths, settings and selectors. Selectors have Kubernetes' syntax: `team=edge, env in (prod, staging), !legacy`.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model import errors


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind: `name` is how documents spell it, `plural` is its form in paths."""

    name: str  # DestinationType
    plural: str  # destination-types

    @property
    def hyphened(self) -> str:
        """The singular in small letters, words apart: `destination-type`."""
        return self.plural.removesuffix("s")


_COMPONENTS = ("Source", "Processor", "Connector", "Destination", "Extension")
_NAMES = (*_COMPONENTS, *(f"{name}Type" for name in _COMPONENTS), "Configuration", "Fleet", "AgentVersion")


def _kind(name: str) -> Kind:
    return Kind(name=name, plural=re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower() + "s")


def _forms(kind: Kind) -> tuple[str, ...]:
    hyphened = (kind.hyphened, kind.plural)
    return (*hyphened, *(form.replace("-", "") for form in hyphened))


KINDS: tuple[Kind, ...] = tuple(sorted((_kind(name) for name in _NAMES), key=lambda kind: kind.name))

_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_FORM = {form: kind for kind in KINDS for form in _forms(kind)}


def exact_kind(name: str) -> Kind | None:
    """The kind that documents spell so."""
    return _BY_NAME.get(name)


def find_kind(text: str) -> Kind | None:
    """The kind that a path or a person means: any case, singular or plural, hyphened or not."""
    return _BY_FORM.get(text.lower())


def nearest_kind(text: str) -> Kind | None:
    """The kind that somebody who mistyped may have meant; None when nothing is near."""
    close = difflib.get_close_matches(text.lower(), _BY_FORM, n=1, cutoff=0.8)
    return _BY_FORM[close[0]] if close else None


NAME_RULE = "must be 1 to 63 letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit"
LABEL_KEY_RULE = (
    "must be 1 to 63 letters, digits, `-`, `_` or `.`, beginning and ending with a letter or digit, "
    "after an optional DNS prefix of at most 253 characters and `/`"
)
LABEL_VALUE_RULE = "must be empty or 1 to 63 letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit"
PROJECT_RULE = "must be 1 to 63 small letters and digits, with single `-` between them"

LONGEST_NAME = 63  # characters, as in Kubernetes labels and DNS labels
LONGEST_PREFIX = 253  # characters, as in DNS names

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PROJECT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def wrong_name(text: str) -> str | None:
    """Say why the name of a resource is wrong; None if it is right."""
    return None if _NAME.fullmatch(text) else NAME_RULE


def wrong_label_key(text: str) -> str | None:
    """Say why a label's key (`team`, `example.com/team`) is wrong; None if it is right."""
    prefix, slash, last = text.rpartition("/")
    fits = _NAME.fullmatch(last) and (not slash or (len(prefix) <= LONGEST_PREFIX and _PREFIX.fullmatch(prefix)))
    return None if fits else LABEL_KEY_RULE


def wrong_label_value(text: str) -> str | None:
    """Say why a label's value is wrong; None if it is right."""
    return None if not text or _NAME.fullmatch(text) else LABEL_VALUE_RULE


def wrong_project(text: str) -> str | None:
    """Say why the name of a project is wrong; None if it is right."""
    return None if len(text) <= LONGEST_NAME and _PROJECT.fullmatch(text) else PROJECT_RULE


class Key(NamedTuple):
    """Kind and name; keys sort by kind, then name."""

    kind: str  # the exact spelling, `Destination`
    name: str


LONGEST_SELECTOR = 4096  # characters
MOST_REQUIREMENTS = 100  # requirements

# One token: a space, an operator or a bracket, or a word; what no selector holds is in words, where the rules for keys
# and values refuse it.
_SPACES = " \t\r\n"
_TOKEN = re.compile(rf"[{_SPACES}]+|==|!=|[=!(),<>]|[^{_SPACES}=!(),<>]+")
_SPECIAL = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_EQUAL = frozenset({"=", "=="})
_END = ""
_OPERATOR = "`=`, `==`, `!=`, `in`, `notin`, `,` or the end"


class BadSelector(errors.Refused):
    """The text is no selector; the message says where and why, to be put after a colon."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a selector: a label that is there, with one of some values when there are any; or the opposite."""

    key: str
    values: frozenset[str] | None = None  # None: any value
    negated: bool = False  # `!a`, `a!=b`, `a notin (b)`; the latter two match when the label is absent, too

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the labels match."""
        holds = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return holds != self.negated


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector: all requirements have to match. Without requirements it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the labels match every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = Selector()


def parse_selector(text: str) -> Selector:
    """The selector that a text is; the empty one selects everything. Raises `BadSelector`."""
    if len(text) > LONGEST_SELECTOR:
        raise BadSelector(f"it is over {LONGEST_SELECTOR:,} characters long")
    reader = _Reader(text)
    requirements: list[Requirement] = []
    if reader.token.text == _END:
        return EVERYTHING
    while True:
        if len(requirements) == MOST_REQUIREMENTS:
            raise BadSelector(f"at character {reader.token.at} begins one requirement more than {MOST_REQUIREMENTS}")
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
        """Skip the next token if it is one of these, and return True."""
        found = self.token.text in texts
        if found:
            self.take()
        return found

    def is_word(self) -> bool:
        """Return True if the next token may be a key or a value."""
        return self.token.text != _END and self.token.text not in _SPECIAL

    def expect(self, text: str, told: str) -> None:
        """Leave a token behind. Raises `BadSelector` when the next one is another."""
        if not self.takes(text):
            raise self.wrong(told)

    def wrong(self, expected: str) -> BadSelector:
        """Return the error for an unexpected next token."""
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
    problem = wrong_label_key(key.text)
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
    problem = wrong_label_value(value.text)
    if problem is not None:
        raise BadSelector(f"the label's value at character {value.at} {problem}")
    return value.text


MAX_REF_BYTES = 1024

# What git-check-ref-format(1) forbids anywhere in a name, and at the edges of its parts; and a leading `-`, which a
# program takes for an option.
_FORBIDDEN_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_FORBIDDEN_AT_REF_EDGE = re.compile(r"^[-/]|/$|\.$|^@$|(?:^|/)\.|\.lock(?:/|$)")


def check_ref_name(name: str) -> None:
    """Raise ValueError with half a sentence unless Git allows the name and it cannot be taken for an option."""
    if not name or len(name.encode("utf-8", "replace")) > MAX_REF_BYTES:
        raise ValueError(f"must have 1 to {MAX_REF_BYTES} bytes to name a branch, tag or ref")
    if _FORBIDDEN_IN_REF.search(name) or _FORBIDDEN_AT_REF_EDGE.search(name) or not name.isprintable():
        raise ValueError("is not a name that Git allows for a branch, tag or ref")
