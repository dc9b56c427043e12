"""The one form in which equal values have equal bytes.

Belongs here: encoding. Does not: bringing numbers into canonical form, which the readers do (1.0 is 1 by then).
"""

import msgspec

from reconciler.documents.values import Value

_ENCODER = msgspec.json.Encoder(order="sorted")


def encode(value: Value) -> bytes:
    """JSON with sorted keys (by code point, so by UTF-8 bytes), in UTF-8, without spare white space.

    The value comes from a reader: NaN would become null, and a lone surrogate raises UnicodeEncodeError.
    """
    return _ENCODER.encode(value)
