"""The rules for names, labels and projects. Pure: each returns a sentence about what is wrong, or None.

Belongs here: what a name may look like. Does not: whether something of that name exists.

The schemas state the same rules for documents; these serve paths, settings and selectors.
"""

import re

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


def name(text: str) -> str | None:
    """What is wrong with the name of a resource."""
    return None if _NAME.fullmatch(text) else NAME_RULE


def label_key(text: str) -> str | None:
    """What is wrong with a label's key: `team`, `example.com/team`."""
    prefix, slash, last = text.rpartition("/")
    fits = _NAME.fullmatch(last) and (not slash or (len(prefix) <= LONGEST_PREFIX and _PREFIX.fullmatch(prefix)))
    return None if fits else LABEL_KEY_RULE


def label_value(text: str) -> str | None:
    """What is wrong with a label's value."""
    return None if not text or _NAME.fullmatch(text) else LABEL_VALUE_RULE


def project(text: str) -> str | None:
    """What is wrong with the name of a project."""
    return None if len(text) <= LONGEST_NAME and _PROJECT.fullmatch(text) else PROJECT_RULE
