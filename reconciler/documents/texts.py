"""Bytes to text, for both syntaxes.

Belongs here: what must hold before any parser sees the bytes (size, UTF-8, no NUL). Does not: any syntax.
"""

from typing import Final

from reconciler.documents.limits import Limits
from reconciler.documents.positions import DocumentError, refusal_at

_MARK: Final = "\ufeff"  # the byte order mark that some editors put before UTF-8


def decoded(data: bytes, *, limits: Limits) -> str:
    """The text without its byte order mark; size comes first, so that a huge input costs nothing."""
    if len(data) > limits.bytes:
        message = f"holds {len(data):,} bytes and the limit is {limits.bytes:,}; split it into smaller ones"
        raise DocumentError(message, line=1, column=1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix(_MARK)
        message = f"is not UTF-8 text (byte 0x{data[error.start]:02X}); save it as UTF-8"
        raise refusal_at(message, text=before, offset=len(before)) from None
    text = text.removeprefix(_MARK)
    nul = text.find("\0")
    if nul >= 0:
        raise refusal_at("holds a NUL character, so it is no text file; remove it", text=text, offset=nul)
    return text
