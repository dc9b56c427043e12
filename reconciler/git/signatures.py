"""What of a commit or tag is signed, by which key, and when: the stored object taken apart as git does.

Pure: the object's bytes come in. Whether the signature is good, and of somebody who may sign, is asked elsewhere
(`verifying`).
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from reconciler.model.text import visible

NAMESPACE = "git"  # what git signs for; a signature of a file has another one
HEADER = b"gpgsig"  # so called whatever made the signature
# By these beginnings of a line git tells what made a signature (gpg-interface.c).
FORMATS = {
    b"-----BEGIN SSH SIGNATURE-----": "SSH",
    b"-----BEGIN PGP SIGNATURE-----": "PGP",
    b"-----BEGIN PGP MESSAGE-----": "PGP",
    b"-----BEGIN SIGNED MESSAGE-----": "X.509",
}
SHOWN_CHARACTERS = 100  # of a text that a stranger chose

# One space where several may stand: two greedy parts that both take spaces would take time in the square of the length.
ARMOR = re.compile(rb"-----BEGIN SSH SIGNATURE-----\s([A-Za-z0-9+/=\s]+)-----END SSH SIGNATURE-----\s*")
MAGIC, VERSION = b"SSHSIG", 1  # PROTOCOL.sshsig of OpenSSH
CERTIFICATE = b"-cert-v01@openssh.com"

LINE = re.compile(rb"[^\n]*\n|[^\n]+")
TREE = re.compile(rb"tree [0-9a-f]{40}\n")
TAGGED = re.compile(rb"object ([0-9a-f]{40})\ntype ([a-z]+)\n")
MADE = re.compile(rb"^(?:committer|tagger) [^\n]*> ([1-9][0-9]{0,10}) [-+][0-9]{4}$", re.MULTILINE)


class ObjectKind(StrEnum):
    """The objects that can be signed."""

    COMMIT = "commit"
    TAG = "tag"


class UnusableSignature(Exception):
    """No signature of the object can be checked. The message says why, and the object is its subject."""


@dataclass(frozen=True, slots=True)
class SignedObject:
    """A signed object: `payload` is what was signed, `armor` the signature as `ssh-keygen` reads it.

    `key` names the key to a person: its fingerprint, or that it is a certificate. `made` is when the object says that
    it was made: whoever signs decides that.
    """

    payload: bytes
    armor: bytes
    key: str
    made: datetime


def read_signed(kind: ObjectKind, raw: bytes) -> SignedObject | None:
    """The signature of a stored object; None when there is none. Raises Unusable."""
    # One who may sign tags must not have signed what could be taken for a commit, nor the other way round.
    if not (TREE if kind is ObjectKind.COMMIT else TAGGED).match(raw):
        raise UnusableSignature(f"is not a well-formed {kind}")
    payload, armor = split_commit(raw) if kind is ObjectKind.COMMIT else split_tag(raw)
    if armor is None:
        return None
    return SignedObject(payload, armor, _key(armor), _made(payload))


def tag_target(raw: bytes) -> tuple[str, ObjectKind]:
    """What a stored tag is a tag of: the id of a commit or another tag. Raises Unusable."""
    found = TAGGED.match(raw)
    if found is None or found[2].decode() not in set(ObjectKind):
        raise UnusableSignature("leads to no commit")
    return found[1].decode(), ObjectKind(found[2].decode())


def split_commit(raw: bytes) -> tuple[bytes, bytes | None]:
    """(what is signed of a commit, the signature): the header `gpgsig` and the lines that continue it. Raises Unusable
    when there are several, which git would join and others would not.
    """
    header, body = _header(raw)
    payload, signature = bytearray(), bytearray()
    number, inside = 0, False
    for line in header:
        begins = line.startswith(HEADER)
        if begins and (number or not line.startswith(HEADER + b" ")):
            raise UnusableSignature("has several signatures, or one of an unknown sort")
        number += begins
        inside = begins or (inside and line.startswith(b" "))
        if inside:
            signature += line.removeprefix(HEADER)[1:] if begins else line[1:]
        else:
            payload += line
    return bytes(payload) + body, bytes(signature) if number else None


def split_tag(raw: bytes) -> tuple[bytes, bytes | None]:
    """(what is signed of a tag, the signature): the last line that begins a signature, and what follows. Raises
    Unusable for one in the header, where newer versions of git keep a second one.
    """
    header, _ = _header(raw)
    if any(line.startswith(HEADER) for line in header):
        raise UnusableSignature("has several signatures, or one of an unknown sort")
    begins = [found.start() for found in LINE.finditer(raw) if found[0].startswith(tuple(FORMATS))]
    return (raw[: begins[-1]], raw[begins[-1] :]) if begins else (raw, None)


def _header(raw: bytes) -> tuple[Iterator[bytes], bytes]:
    """(the lines before the first empty one, the rest)."""
    end = raw.find(b"\n\n") + 1 or len(raw)
    return (found[0] for found in LINE.finditer(raw, 0, end)), raw[end:]


def _key(armor: bytes) -> str:
    """The key of a signature for git, as a person knows it. Raises Unusable."""
    made_with = next((name for begin, name in FORMATS.items() if armor.startswith(begin)), None)
    if made_with not in {None, "SSH"}:
        raise UnusableSignature(f"is signed with {made_with}, and only SSH signatures are checked")
    found = ARMOR.fullmatch(armor)
    try:
        key, namespace, _, _, _ = _fields(base64.b64decode(b"".join(found[1].split()), validate=True) if found else b"")
        sort = _string(key)[0]
    except (ValueError, binascii.Error):
        raise UnusableSignature("has a signature that cannot be read") from None
    if namespace != NAMESPACE.encode():
        told = visible(namespace.decode("utf-8", "replace")[:SHOWN_CHARACTERS])
        raise UnusableSignature(f"has a signature that was made for `{told}` and not for `{NAMESPACE}`")
    if sort.endswith(CERTIFICATE):
        return "a certificate"
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return f"the key SHA256:{digest}"


def _fields(blob: bytes) -> list[bytes]:
    """Public key, namespace, what is reserved, hash algorithm and signature. Raises ValueError."""
    rest = blob.removeprefix(MAGIC)
    if len(rest) == len(blob) or rest[:4] != VERSION.to_bytes(4, "big"):
        raise ValueError("not an SSH signature")
    rest = rest[4:]
    fields = []
    for _ in range(5):
        field, rest = _string(rest)
        fields.append(field)
    if rest:
        raise ValueError("something follows the signature")
    return fields


def _string(data: bytes) -> tuple[bytes, bytes]:
    """A string of SSH (RFC 4251, section 5), and what follows it. Raises ValueError."""
    end = 4 + int.from_bytes(data[:4], "big")
    if len(data) < end:
        raise ValueError("cut short")
    return data[4:end], data[end:]


def _made(payload: bytes) -> datetime:
    header = payload[: payload.find(b"\n\n") + 1 or len(payload)]
    found = MADE.search(header)
    if found is None:
        raise UnusableSignature("does not say when it was made")
    return datetime.fromtimestamp(int(found[1]), UTC)
