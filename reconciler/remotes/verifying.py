"""Asking whether a head is signed by somebody who may: git for the object, ssh-keygen for the signature.

Belongs here: running both, and the sentence when the answer is no. Does not: taking an object apart (`signatures`), the
file of signers (`signers`), and what becomes of a head that is not signed.
"""

import contextlib
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

from reconciler.git import faults, signatures
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.signatures import NAMESPACE, ObjectKind, SignedObject, UnusableSignature
from reconciler.model.errors import Refused, Transient
from reconciler.model.text import visible
from reconciler.remotes import memory_files, processes
from reconciler.remotes.processes import Command, Finished
from reconciler.remotes.program import GitProgram, Limits
from reconciler.remotes.signers import AllowedSigners

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
            signed = signatures.read_signed(kind, raw)
            found = found or (None if signed is None else (kind, name, signed))
            name, kind = signatures.tag_target(raw)
    if (kind, name) != (ObjectKind.COMMIT, head.commit):
        # The remote says where its tag leads, and only the tag itself is believed.
        raise _unsigned(
            f"{_told(ObjectKind.TAG, head.tag)} does not lead to {faults.short_commit(head.commit)}", signers
        )
    if found is not None:
        return found
    raw = await read(kind, name)
    with _judging(kind, name, signers):
        return kind, name, signatures.read_signed(kind, raw)


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
    """What ssh-keygen reads, in memory: nothing is left on a disk, however a run ends."""

    def __init__(self, signed: SignedObject, signers: AllowedSigners) -> None:
        with contextlib.ExitStack() as opened:
            contents = (signed.payload, signed.armor, signers.content)
            self._payload, *passed = (
                opened.enter_context(memory_files.open_memory_file(content)) for content in contents
            )
            self._opened = opened.pop_all()
        self.passed = tuple(passed)
        self.armor, self.signers = map(memory_files.inherited_path, self.passed)

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
    """What ssh-keygen has against a line of the file of signers, as `path:line: reason`; nothing when it has not."""
    reasons = REASON.findall(found.errors.decode("utf-8", "replace"))
    # Of lines that cannot be used it tells too, and these are rarely the cause when another one has this very key.
    told = [reason for reason in reasons if THIS_KEY in reason] or reasons
    return f" ({visible(f'{signers.path}{told[0]}')})" if told else ""
