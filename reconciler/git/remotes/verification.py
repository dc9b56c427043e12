"""Verifying that a commit or tag is signed by an allowed signer."""

import base64
import binascii
import contextlib
import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path

from reconciler.git import faults
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.remotes import credentials, processes
from reconciler.git.remotes.processes import Command, Finished
from reconciler.git.remotes.program import GitProgram, Limits
from reconciler.model.errors import Refused, Transient
from reconciler.model.text import visible
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import FileTooLarge, NotAFile

# The file that says who may sign: `verify.signersFile`, in the form of OpenSSH's allowed signers (ssh-keygen(1)).

MOST_BYTES = 1 << 20
BLANK = re.compile(rb"^[ \t\r]*$", re.MULTILINE)  # ssh-keygen takes such a line for one without a key


@dataclass(frozen=True, slots=True)
class AllowedSigners:
    """The file as it was at one moment."""

    path: Path
    content: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """As long as it is the same, a head that was found good is good."""
        return hashlib.sha256(self.content).hexdigest()


def read_signers(path: Path) -> AllowedSigners:
    """The file as it is now. Raises GitFault unsigned for one that cannot be read or names nobody."""
    try:
        content = bounded_io.read_file(path, limit=MOST_BYTES)
    except FileNotFoundError:
        raise _fault(path, "does not exist; put it there, or correct `verify.signersFile`") from None
    except PermissionError:
        told = f"cannot be read by this user; let the user {credentials.this_user()} read it"
        raise _fault(path, told) from None
    except OSError as error:
        raise _fault(path, f"cannot be read ({error.strerror or 'unknown reason'}); mend that") from None
    except NotAFile:
        raise _fault(path, "is not a file; correct `verify.signersFile`") from None
    except FileTooLarge:
        raise _fault(path, f"has more than {MOST_BYTES} bytes; name fewer signers") from None
    if not any(line.strip() and not line.lstrip().startswith(b"#") for line in content.splitlines()):
        raise _fault(path, "names nobody; write a line for each who may sign")
    return AllowedSigners(path, BLANK.sub(b"#", content))


def _fault(path: Path, why: str) -> GitFault:
    return GitFault(RepositoryState.UNSIGNED, f"the file of signers {path} {why}; until then no new head is applied")


# What of a commit or tag is signed, by which key, and when: the stored object taken apart as git does.
#
# Pure: the object's bytes come in. Whether the signature is good, and of somebody who may sign, is asked further down.

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
    """Return what a stored tag is a tag of: the id of a commit or another tag. Raises Unusable."""
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


# Asking whether a head is signed by somebody who may: git for the object, ssh-keygen for the signature.

PROGRAM = "ssh-keygen"
SECONDS = 10.0  # for one run of git or ssh-keygen: both take milliseconds
MOST_OBJECT_BYTES = 1 << 20  # of a commit or tag: its message, mostly
MOST_TAGS = 8  # tags of tags
MOST_PRINCIPALS = 16  # that one key stands for, and are tried
OUTPUT_BYTES = 64 * 1024

REASON = re.compile(r"^/proc/self/fd/[0-9]+(:[0-9]+: [^\r\n]{1,200})\r?$", re.MULTILINE)
THIS_KEY = ": key "  # has expired, is not yet valid, is not permitted for something


Read = Callable[[ObjectKind, str], Awaitable[bytes]]  # an object of the mirror, by its kind and id
Ask = Callable[..., Awaitable[Finished]]  # ssh-keygen: a question, and what is asked of


async def verify_head(head: RefHead, signers: AllowedSigners, *, mirror: Path, program: GitProgram) -> None:
    """Return when the head is signed by one of the signers: the tag, when it has a signature, else the commit.

    `program` runs git in the mirror. Raises GitFault unsigned, and mirror-corrupt for an object that is not there;
    Transient.
    """
    read = partial(_object, mirror=mirror, program=program, signers=signers)
    kind, name, signed = await _signed(head, read, signers)
    if signed is None:
        raise _unsigned(f"{_told(kind, name)} is not signed", signers)
    with _Files(signed, signers) as files:
        await _check(signed, files, ask=partial(_ask, files, program.home), told=_told(kind, name), signers=signers)


async def _signed(head: RefHead, read: Read, signers: AllowedSigners) -> tuple[ObjectKind, str, SignedObject | None]:
    """The object whose signature counts, and the signature."""
    kind, name = (ObjectKind.TAG, head.tag) if head.tag else (ObjectKind.COMMIT, head.commit)
    found: tuple[ObjectKind, str, SignedObject] | None = None
    for _ in range(MOST_TAGS):
        if kind is ObjectKind.COMMIT:
            break
        raw = await read(kind, name)
        with _judging(kind, name, signers):
            signed = read_signed(kind, raw)
            found = found or (None if signed is None else (kind, name, signed))
            name, kind = tag_target(raw)
    if (kind, name) != (ObjectKind.COMMIT, head.commit):
        # The remote says where its tag leads, and only the tag itself is believed.
        raise _unsigned(
            f"{_told(ObjectKind.TAG, head.tag)} does not lead to {faults.short_commit(head.commit)}", signers
        )
    if found is not None:
        return found
    raw = await read(kind, name)
    with _judging(kind, name, signers):
        return kind, name, read_signed(kind, raw)


async def _object(kind: ObjectKind, name: str, *, mirror: Path, program: GitProgram, signers: AllowedSigners) -> bytes:
    limits = Limits(seconds=SECONDS, output_bytes=MOST_OBJECT_BYTES)
    # No object stands for another one, even if somebody managed to bring such a ref into the mirror.
    arguments = ("--no-replace-objects", f"--git-dir={mirror}", "cat-file", kind.value, name)
    try:
        output = await program.run(*arguments, limits=limits)
    except TimeoutError:
        raise Transient(f"git did not show {name} within {SECONDS:g} seconds; it is tried again") from None
    if output.truncated:
        raise _unsigned(f"{_told(kind, name)} has more than {MOST_OBJECT_BYTES} bytes", signers)
    if output.status < 0:  # which says nothing of the object
        raise Transient(f"git was ended by a signal before it showed {name}; it is tried again")
    if output.status != 0:
        raise GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror lacks {_told(kind, name)}; {faults.REBUILT}")
    return output.stdout


async def _check(signed: SignedObject, files: "_Files", *, ask: Ask, told: str, signers: AllowedSigners) -> None:
    # In UTC, as our environment says. The object's own time counts, as in `git log --show-signature`.
    at = f"-Overify-time={signed.made:%Y%m%d%H%M%S}"
    found = await ask("find-principals", "-f", files.signers, "-s", files.armor, at)
    principals = found.stdout.decode("utf-8", "surrogateescape").splitlines()
    if found.status != 0 or not principals:
        raise _unsigned(f"{told} is signed with {signed.key}, which is not allowed{_reason(found, signers)}", signers)
    arguments = ("-n", NAMESPACE, "-f", files.signers, "-s", files.armor, at)
    for principal in principals[:MOST_PRINCIPALS]:
        found = await ask("verify", *arguments, "-I", principal)
        if found.status == 0:
            return
    if why := _reason(found, signers):
        raise _unsigned(f"{told} is signed with {signed.key}, which is not allowed{why}", signers)
    raise _unsigned(f"{told} was altered, or has the signature of another object, with {signed.key}", signers)


async def _ask(files: "_Files", home: Path, question: str, *arguments: str) -> Finished:
    command = Command(
        arguments=(PROGRAM, "-Y", question, *arguments),
        environment={**processes.environment(home), "TZ": "UTC"},
        folder=home,
        stdin=files.payload(),
        descriptors=files.passed,
        seconds=SECONDS,
        output_bytes=OUTPUT_BYTES,
    )
    try:
        return await processes.run_command(command)
    except TimeoutError:
        raise Transient(f"{PROGRAM} did not answer within {SECONDS:g} seconds; it is tried again") from None
    except Refused as refused:
        raise GitFault(
            RepositoryState.UNSIGNED, f"no signature can be checked, so no new head is applied: {refused.message}"
        ) from None


class _Files:
    """The files that ssh-keygen reads, in memory: nothing is left on a disk, however a run ends."""

    def __init__(self, signed: SignedObject, signers: AllowedSigners) -> None:
        with contextlib.ExitStack() as opened:
            contents = (signed.payload, signed.armor, signers.content)
            self._payload, *passed = (
                opened.enter_context(credentials.open_memory_file(content)) for content in contents
            )
            self._opened = opened.pop_all()
        self.passed = tuple(passed)
        self.armor, self.signers = map(credentials.inherited_path, self.passed)

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def payload(self) -> int:
        """The signed text, at its beginning: each run of the program reads on from where the last one was."""
        os.lseek(self._payload, 0, os.SEEK_SET)
        return self._payload


@contextlib.contextmanager
def _judging(kind: ObjectKind, name: str, signers: AllowedSigners) -> Iterator[None]:
    try:
        yield
    except UnusableSignature as unusable:
        raise _unsigned(f"{_told(kind, name)} {unusable}", signers) from None


def _told(kind: ObjectKind, name: str) -> str:
    return f"the {kind} {faults.short_commit(name)}"


def _unsigned(why: str, signers: AllowedSigners) -> GitFault:
    until = f"nothing more is applied until the head is signed with an SSH key that {signers.path} allows"
    return GitFault(RepositoryState.UNSIGNED, f"{why}; {until}")


def _reason(found: Finished, signers: AllowedSigners) -> str:
    """Return the complaint of ssh-keygen about a line of the file of signers, as `path:line: reason`; '' without."""
    reasons = REASON.findall(found.errors.decode("utf-8", "replace"))
    # Of lines that cannot be used it tells too, and these are rarely the cause when another one has this very key.
    told = [reason for reason in reasons if THIS_KEY in reason] or reasons
    return f" ({visible(f'{signers.path}{told[0]}')})" if told else ""
