"""From when and until when a certificate holds, read off its DER (RFC 5280, 4.1); pure.

Belongs here: as much of DER as leads to those two times. Does not: whether anybody trusts it. The standard library
tells them of authorities alone.
"""

import binascii
import ssl
from datetime import UTC, datetime
from typing import NamedTuple

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


class CertificateSpan(NamedTuple):
    """Both in UTC."""

    since: datetime
    until: datetime


def certificate_span(pem: str) -> CertificateSpan | None:
    """The span of the first certificate in a PEM file, the leaf of a chain; None when it cannot be read."""
    start, end = pem.find(_BEGIN), pem.find(_END)
    if not 0 <= start < end:
        return None
    try:
        certificate, _ = _contents(ssl.PEM_cert_to_DER_cert(pem[start : end + len(_END)] + "\n"), _SEQUENCE)
        signed, _ = _contents(certificate, _SEQUENCE)
        return _span(signed)
    except (ValueError, IndexError, binascii.Error):
        return None


def _span(signed: bytes) -> CertificateSpan:
    if signed[0] == _VERSION:
        _, signed = _contents(signed, _VERSION)
    for _ in range(3):  # serial number, signature, issuer
        _, signed = _contents(signed, signed[0])
    times, _ = _contents(signed, _SEQUENCE)
    since, rest = _contents(times, times[0])
    until, _ = _contents(rest, rest[0])
    return CertificateSpan(_time(times[0], since), _time(rest[0], until))


def _contents(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """What one value holds, and what is behind it."""
    if data[0] != tag:
        raise ValueError
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    return data[start : start + length], data[start + length :]


def _time(tag: int, text: bytes) -> datetime:
    """`YYMMDDhhmmssZ`, whose years from 50 on are of the last century, or with four digits of the year."""
    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    elif tag != _GENERALIZED_TIME:
        raise ValueError
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
