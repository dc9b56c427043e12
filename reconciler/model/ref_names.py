"""Which names Git allows for a branch, a tag or another ref: one rule, for the settings and for what a remote lists.

Pure, and without pydantic: the reader child and `plan` import it too.
"""

import re

MAX_NAME_BYTES = 1024

# What git-check-ref-format(1) forbids anywhere in a name, and at the edges of its parts; and a leading `-`, which a
# program takes for an option.
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_FORBIDDEN_AT_EDGE = re.compile(r"^[-/]|/$|\.$|^@$|(?:^|/)\.|\.lock(?:/|$)")


def check_ref_name(name: str) -> None:
    """Raise ValueError with half a sentence unless Git allows the name and it cannot be taken for an option."""
    if not name or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise ValueError(f"must have 1 to {MAX_NAME_BYTES} bytes to name a branch, tag or ref")
    if _FORBIDDEN.search(name) or _FORBIDDEN_AT_EDGE.search(name) or not name.isprintable():
        raise ValueError("is not a name that Git allows for a branch, tag or ref")
