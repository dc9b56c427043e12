"""Places in a document as people read them: `spec.parameters[endpoint].value`, `spec.attributes[2]`.

Belongs here: writing a place, and what an entry of a list is called in it. Does not: JSON pointers, which programs read
(`documents.values`), lines and columns.

No two places of a document are written alike, so what could be mistaken for something else is quoted as JSON quotes it.
A path is fit for a sentence: nothing in it acts on a terminal or begins a line, and no part of it is long.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence

from reconciler.escaping import visible, visible_json

LONGEST_PART = 100  # characters of one key or name
_SPECIAL = re.compile(r"""[\s.\[\]"\\]""")


def below(path: str, key: str) -> str:
    """The path of what stands under a key of a mapping."""
    return f"{path}.{_part(key)}" if path else _part(key)


def labels(names: Sequence[str | None]) -> list[str]:
    """How the entries of a list are told apart in paths: by name, if it occurs once, else by index."""
    often = Counter(names)
    return [f"[{index}]" if name is None or often[name] > 1 else f"[{_name(name)}]" for index, name in enumerate(names)]


def _name(name: str) -> str:
    """A name as it stands in brackets, where digits alone are an index."""
    return f'"{name}"' if name.isascii() and name.isdigit() and len(name) <= LONGEST_PART else _part(name)


def _part(text: str) -> str:
    if len(text) > LONGEST_PART:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{_quoted(text[:LONGEST_PART] + '…')}~{digest[:12]}"
    return text if text and not _SPECIAL.search(text) and visible(text) == text else _quoted(text)


def _quoted(text: str) -> str:
    return visible_json(json.dumps(text, ensure_ascii=False))
