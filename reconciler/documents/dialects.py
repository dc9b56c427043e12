"""What is refused before libyaml sees a YAML text.

Belongs here: where libyaml, a YAML 1.1 parser, would read a text otherwise than YAML 1.2 does, or not in bounded time.
Does not: parsing, scalars.
"""

import re
from typing import Final

from reconciler.documents.positions import refusal_at

# Line breaks to YAML 1.1 and libyaml, which folds or replaces some of them; text to YAML 1.2, editors and JSON.
_FOREIGN_BREAK: Final = re.compile("[\u0085\u2028\u2029]")
_TAG_DIRECTIVE: Final = re.compile(r"^%TAG", re.MULTILINE)
_TAG_DIRECTIVES: Final = 100  # libyaml compares each with all before it: 5 MiB of them would take minutes


def check(text: str) -> None:
    """Refuse foreign line breaks and too many directives; costs next to nothing for a text that has neither."""
    if not text.isascii() and (found := _FOREIGN_BREAK.search(text)) is not None:
        code = f"{ord(found[0]):04X}"
        message = f"holds U+{code}, a line break to some readers only; remove it or write \\u{code} in double quotes"
        raise refusal_at(message, text=text, offset=found.start())
    if text.count("%TAG") > _TAG_DIRECTIVES:
        # Same length, so the offsets hold; `^` knows no other line break than LF.
        offsets = [found.start() for found in _TAG_DIRECTIVE.finditer(text.replace("\r", "\n"))]
        if len(offsets) > _TAG_DIRECTIVES:
            message = f"holds more than {_TAG_DIRECTIVES} %TAG directives; remove them"
            raise refusal_at(message, text=text, offset=offsets[_TAG_DIRECTIVES])
