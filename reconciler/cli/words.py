"""The form of what people read: an error's sentence, a number with its noun, a moment. Escaping is in `output`."""

import re

from reconciler.model import text

FRACTION = re.compile(r"\.[0-9]+(?=Z$)")
counted = text.counted
NAMES = frozenset({"Git"})  # words, beside the kinds, that keep their capital


def error_sentence(message: str) -> str:
    """A message as it stands after `error: `, wherever it was written: no capital, no full stop."""
    first, space, rest = message.partition(" ")
    if first.isalpha() and first.istitle() and not _is_name(first):
        first = first.lower()
    whole = first + space + rest
    return whole if whole.endswith("..") else whole.removesuffix(".")


def _is_name(word: str) -> bool:
    from reconciler.model import names  # noqa: PLC0415 - only for those who fail

    return word in NAMES or names.exact_kind(word) is not None


def moment_text(text: str) -> str:
    """An RFC 3339 moment without the parts of its second."""
    return FRACTION.sub("", text)
