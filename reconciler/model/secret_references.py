"""References to secrets: `${env:NAME}` and `${file:NAME}` inside a text.

Every text with such a beginning is a reference. If it then breaks the grammar (no end, `..`, a default such as `:-x`),
it is malformed and never plain text, so that nobody believes that it is resolved. There is no escape to write one as
plain text.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

LONGEST_NAME = 255  # characters, with folders
RESERVED_PREFIX = "SERVICE_"  # the service's own variables, its keys among them; in any case of letters

_PART = r"[A-Za-z0-9_][-A-Za-z0-9_.]*"  # no part begins with a dot or is `..`
_FILE = re.compile(rf"{_PART}(?:/{_PART})*")
_BEGINNING = re.compile(r"\$\{(?:env|file):")
_VARIABLE = re.compile(rf"\$\{{env:({_PART})?")
_OF_COLLECTORS = re.compile(rf"\$\{{(?:env:({_PART})|({_PART})(?=\}}|:-))")  # `${NAME}` is `${env:NAME}` there
_SCHEME = re.compile(  # of the header `Authorization`; any other word may be a secret
    r"\A(?:api-?key|api-token|basic|bearer|digest|dpop|geniekey|key|negotiate|oauth|splunk|ssws|token) (?=\$\{env:)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(rf"\$\{{(?:(env):({_PART})|(file):({_PART}(?:/{_PART})*))\}}")


class SecretSource(StrEnum):
    """The kinds of places of secrets."""

    ENV = "env"  # a variable of the service's environment
    FILE = "file"  # a file in the project's folder of secrets


class SecretReference(NamedTuple):
    """One valid reference."""

    source: SecretSource
    name: str

    def __str__(self) -> str:
        return f"${{{self.source}:{self.name}}}"


@dataclass(frozen=True, slots=True)
class AvailableSecrets:
    """The names of variables and files that a project may use now. No values.

    `flat`: all files are in one folder, and `_` replaces the `/` in their names. `patterns` cover the names of
    variables that are for the service alone, whether they exist or not; `*` stands for any characters. Unless
    `is_known`, the names are unknown, as without a server, and any reference may be valid.
    """

    env: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    flat: bool = False
    patterns: tuple[str, ...] = ()
    is_known: bool = True

    def covers(self, text: str) -> bool:
        """Return True if a text for a Collector names a variable that is for the service."""
        found = [env or bare for env, bare in _OF_COLLECTORS.findall(text)]
        names = [one for one in found if not _is_reserved(one)]
        return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in self.patterns)

    def has(self, reference: SecretReference) -> bool:
        """Return True if the project may use the target of the reference."""
        if not self.is_known:
            return True
        if reference.source is SecretSource.ENV:
            return reference.name in self.env and not is_reserved(reference)
        return (flattened(reference.name) if self.flat else reference.name) in self.files


NO_SECRETS = AvailableSecrets()
UNKNOWN_SECRETS = AvailableSecrets(is_known=False)

PROJECT = "<PROJECT>"  # in the patterns of settings
DEFAULT_PATTERNS: tuple[str, ...] = (f"DESTINATION_{PROJECT}__*",)


def own_patterns(patterns: Iterable[str], project: str) -> tuple[str, ...]:
    """Return the patterns with the name of a project in place."""
    written = project.upper().replace("-", "_")
    return tuple(pattern.replace(PROJECT, written) for pattern in patterns)


def secrets_elsewhere(patterns: Iterable[str], project: str) -> AvailableSecrets:
    """Return the facts about a project's secrets that are known without its server: the names that are for the
    service.
    """
    return replace(UNKNOWN_SECRETS, patterns=own_patterns(patterns, project))


def text_pieces(text: str) -> Iterator[str | SecretReference | None]:
    """Yield the parts of a text in order: plain text, references, and None for the beginning of each malformed one."""
    end = 0
    for beginning in _BEGINNING.finditer(text):
        start = beginning.start()
        if start < end:
            continue
        if start > end:
            yield text[end:start]
        found = _REFERENCE.match(text, start)
        reference = None if found is None else _reference(found)
        yield reference
        end = beginning.end() if found is None or reference is None else found.end()
    if end < len(text):
        yield text[end:]


def find_secret_references(text: str) -> tuple[SecretReference | None, ...]:
    """Return every reference in a text in order, None for a malformed one."""
    return tuple(piece for piece in text_pieces(text) if not isinstance(piece, str))


def whole_secret_reference(text: str) -> SecretReference | None:
    """Return the reference if the whole text is one valid reference, otherwise None."""
    found = _REFERENCE.fullmatch(text)
    return None if found is None else _reference(found)


def is_secret_reference(value: object) -> bool:
    """Return True if a value is one whole reference to a secret, or a variable after a scheme of HTTP, `Bearer
    ${env:NAME}`, rather than the secret.
    """
    return isinstance(value, str) and "${" in value and whole_secret_reference(_SCHEME.sub("", value)) is not None


def is_env_name(text: str) -> bool:
    """Return True if a reference may name this variable."""
    return len(text) <= LONGEST_NAME and re.fullmatch(_PART, text) is not None


def is_file_name(text: str) -> bool:
    """Return True if a reference may name this file: plain parts, joined by `/`."""
    return len(text) <= LONGEST_NAME and _FILE.fullmatch(text) is not None


def is_reserved(reference: SecretReference) -> bool:
    """Return True if it names a variable of the service itself, which no project may read."""
    return reference.source is SecretSource.ENV and _is_reserved(reference.name)


def _is_reserved(name: str) -> bool:
    return name.upper().startswith(RESERVED_PREFIX)


def without_variables(text: str) -> str:
    """Return a text for a Collector without the beginnings of `${env:NAME}`, which the Collector resolves."""
    return _VARIABLE.sub("", text)


def flattened(name: str) -> str:
    """Return the name of a file in a flat folder."""
    return name.replace("/", "_")


def _reference(found: re.Match[str]) -> SecretReference | None:
    name = found[2] or found[4]
    return SecretReference(SecretSource(found[1] or found[3]), name) if len(name) <= LONGEST_NAME else None
