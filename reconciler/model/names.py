"""Kinds, names, keys, label selectors and names of Git refs.

The rules return a sentence about what is wrong, or None. The schemas state the same rules for documents; these are for
paths, settings and selectors. Selectors have Kubernetes' syntax: `team=edge, env in (prod, staging), !legacy`.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
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
        """The singular in lower case, with hyphens between words: `destination-type`."""
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
    """Return the kind with exactly this name."""
    return _BY_NAME.get(name)


def find_kind(text: str) -> Kind | None:
    """Return a kind by its name in a path or from a person: in any case, singular or plural, with or without
    hyphens.
    """
    return _BY_FORM.get(text.lower())


def nearest_kind(text: str) -> Kind | None:
    """Return the kind with the most similar name; None if no name is similar."""
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

_SPACES = " \t\r\n"
_WORD = rf"[^{_SPACES}=!(),<>]+"  # what no label holds is in words, too: the rules for keys and values refuse it
_REQUIREMENT = re.compile(
    rf"""[{_SPACES}]*+ (?P<absent>!)? [{_SPACES}]*+ (?P<key>{_WORD}) [{_SPACES}]*+
    (?: (?P<equal>==?|!=) [{_SPACES}]*+ (?P<value>(?:{_WORD})?)
      | (?P<among>in|notin) [{_SPACES}]*+ \( (?P<values>[^()]*) \) )? [{_SPACES}]*+""",
    re.VERBOSE,
)


NAMED = 5  # a sentence names this many resources or places, and counts the rest


def named(keys: Sequence[Key], *, limit: int = NAMED) -> str:
    """Name the first resources in a sentence and count the others: `Fleet a, Fleet b and 2 more`."""
    more = f" and {len(keys) - limit} more" if len(keys) > limit else ""
    return ", ".join(f"{kind} {name}" for kind, name in keys[:limit]) + more


class BadSelector(errors.Refused):
    """The text is no selector. The message says where and why, and follows a colon."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a selector: a label exists, with one of the `values` if these are given; `negated` is the
    opposite.
    """

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
    """Parse a selector. The empty one matches everything. Raises `BadSelector`."""
    if len(text) > LONGEST_SELECTOR:
        raise BadSelector(f"it is over {LONGEST_SELECTOR:,} characters long")
    requirements: list[Requirement] = []
    at = 0
    while text.strip(_SPACES):
        if len(requirements) == MOST_REQUIREMENTS:
            raise BadSelector(f"at character {at + 1} begins one requirement more than {MOST_REQUIREMENTS}")
        found = _REQUIREMENT.match(text, at)
        if found is None:
            raise BadSelector(
                f"at character {at + 1}, one of `team=edge`, `env in (a, b)`, `team` or `!team` is expected"
            )
        requirements.append(_requirement(found))
        at = found.end() + 1
        if at > len(text):
            break
        if text[at - 1] != ",":
            raise BadSelector(f"at character {at}, `,` or the end is expected")
    return Selector(tuple(requirements))


def _requirement(found: re.Match[str]) -> Requirement:
    key, operator = found["key"], found["equal"] or found["among"]
    problem = wrong_label_key(key)
    if problem is not None:
        raise BadSelector(f"the label's key at character {found.start('key') + 1} {problem}")
    if operator is None:
        return Requirement(key, negated=found["absent"] is not None)
    if found["absent"] is not None:
        raise BadSelector(f"at character {found.end('key') + 1}, `,` or the end is expected")
    group = "value" if found["equal"] else "values"
    if group == "values" and not found[group].strip(_SPACES):
        raise BadSelector(f"at character {found.start(group) + 1}, a label's value is expected")
    values, at = set(), found.start(group) + 1
    for piece in found[group].split(","):  # as in Kubernetes, two adjacent commas have an empty value between them
        value = piece.strip(_SPACES)
        problem = wrong_label_value(value)
        if problem is not None:
            raise BadSelector(f"the label's value at character {at + piece.index(value)} {problem}")
        values.add(value)
        at += len(piece) + 1
    return Requirement(key, frozenset(values), negated=operator in ("!=", "notin"))


MAX_REF_BYTES = 1024

# The characters that git-check-ref-format(1) forbids anywhere in a name, and at the edges of its parts; and a leading
# `-`, which would be an option.
_FORBIDDEN_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_FORBIDDEN_AT_REF_EDGE = re.compile(r"^[-/]|/$|\.$|^@$|(?:^|/)\.|\.lock(?:/|$)")


def check_ref_name(name: str) -> None:
    """Raise ValueError with half a sentence unless Git allows the name and it cannot be taken for an option."""
    if not name or len(name.encode("utf-8", "replace")) > MAX_REF_BYTES:
        raise ValueError(f"must have 1 to {MAX_REF_BYTES} bytes to name a branch, tag or ref")
    if _FORBIDDEN_IN_REF.search(name) or _FORBIDDEN_AT_REF_EDGE.search(name) or not name.isprintable():
        raise ValueError("is not a name that Git allows for a branch, tag or ref")
