"""Verifying that a commit or tag is signed by an allowed signer."""

import hashlib
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.git import faults
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.remotes import credentials
from reconciler.git.remotes.credentials import UnusableFile
from reconciler.git.remotes.program import GitProgram, Limits, Output
from reconciler.model.errors import Transient
from reconciler.model.text import visible

# The file of allowed signers, `verify.signersFile`, in OpenSSH's format (ssh-keygen(1)).

MOST_BYTES = 1 << 20
BLANK = re.compile(rb"^[ \t\r]*$", re.MULTILINE)  # ssh-keygen would report such a line as one without a key


@dataclass(frozen=True, slots=True)
class AllowedSigners:
    """The content of the file of signers at one moment."""

    path: Path
    content: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """A digest of the file. While it is the same, a verified head need not be verified again."""
        return hashlib.sha256(self.content).hexdigest()


def read_signers(path: Path) -> AllowedSigners:
    """Read the file of signers. Raises GitFault unsigned if it cannot be read or has no signer."""
    try:
        content = credentials.file_content(path, limit=MOST_BYTES)
    except UnusableFile as fault:
        raise _fault(path, f"{fault}; mend that, or correct `verify.signersFile`") from None
    if not any(line.strip() and not line.lstrip().startswith(b"#") for line in content.splitlines()):
        raise _fault(path, "names nobody; write a line for each who may sign")
    return AllowedSigners(path, BLANK.sub(b"#", content))


def _fault(path: Path, why: str) -> GitFault:
    return GitFault(RepositoryState.UNSIGNED, f"the file of signers {path} {why}; until then no new head is applied")


# The verification of a head by git. Git parses the object and calls ssh-keygen with the object's own time. We read the
# object only to choose the message, and to decide if the tag or its commit counts.

SECONDS = 10.0  # for one run of git: it takes milliseconds
MOST_OBJECT_BYTES = 1 << 20  # of a commit or tag: its message, mostly
MOST_TAGS = 8  # tags of tags
SHOWN_CHARACTERS = 200  # of what git says

COMMIT, TAG = "commit", "tag"  # the objects that can be signed
# Git recognises the program of a signature by these beginnings of a line (gpg-interface.c).
_SIGNATURE = re.compile(
    rb"^(?:gpgsig )?-----BEGIN (?:(SSH SIGNATURE)|(PGP) [A-Z]+|(SIGNED MESSAGE))-----", re.MULTILINE
)
_TAGGED = re.compile(rb"object ([0-9a-f]{40})\ntype (commit|tag)\n")
_KEY = re.compile(r"^Good \"git\" signature with .* key (SHA256:\S+)$", re.MULTILINE)
_THIS_KEY = ": key "  # followed by: has expired, is not yet valid, is not permitted


class Verification:
    """Verifies heads of one mirror against these signers. `program` runs git in the mirror."""

    def __init__(self, signers: AllowedSigners, *, mirror: Path, program: GitProgram) -> None:
        self._signers = signers
        self._mirror = mirror
        self._program = program

    async def verify(self, head: RefHead) -> None:
        """Check that the head is signed by one of the signers: the tag if it has a signature, otherwise the commit.

        Raises GitFault unsigned, and mirror-corrupt for an object that is not there; Transient.
        """
        kind, name = (TAG, head.tag) if head.tag else (COMMIT, head.commit)
        signed: tuple[str, str] | None = None
        for _ in range(MOST_TAGS):
            if kind == COMMIT:
                break
            raw = await self._read(kind, name)
            if signed is None and _SIGNATURE.search(raw):
                signed = kind, name
            target = _TAGGED.match(raw)
            if target is None:
                break
            name, kind = target[1].decode(), target[2].decode()
        if (kind, name) != (COMMIT, head.commit):
            # The remote claims the target of its tag, but only the tag itself counts.
            told = f"the tag {faults.short_commit(head.tag)} does not lead to {faults.short_commit(head.commit)}"
            raise self._unsigned(told)
        await self._check(*(signed or (kind, name)))

    async def _read(self, kind: str, name: str) -> bytes:
        output = await self._git("cat-file", kind, name, shows=name)
        if output.truncated:
            raise self._unsigned(f"{_described(kind, name)} has more than {MOST_OBJECT_BYTES} bytes")
        if output.status != 0:
            raise GitFault(
                RepositoryState.MIRROR_CORRUPT, f"the mirror lacks {_described(kind, name)}; {faults.REBUILT}"
            )
        return output.stdout

    async def _check(self, kind: str, name: str) -> None:
        """Check that an object has a good signature of one of the signers."""
        raw, told = await self._read(kind, name), _described(kind, name)
        found = _SIGNATURE.search(raw.partition(b"\n\n")[0] if kind == COMMIT else raw)
        with tempfile.NamedTemporaryFile(dir=self._program.home, prefix="signers-") as file:
            file.write(self._signers.content)
            file.flush()
            # Git would call gpg for a signature that is not from ssh.
            settings = (f"gpg.ssh.allowedSignersFile={file.name}", "gpg.program=false", "gpg.x509.program=false")
            options = [word for setting in settings for word in ("-c", setting)]
            output = await self._git(*options, f"verify-{kind}", name, shows=name)
        if output.status == 0:
            return
        said = output.stderr.replace(file.name, str(self._signers.path))
        if found is None:
            raise self._unsigned(f"{told} is not signed")
        if found[1] is None:
            made_with = "PGP" if found[2] else "X.509"
            raise self._unsigned(f"{told} is signed with {made_with}, and only SSH signatures are checked")
        key, reason = _KEY.search(said), self._reason(said)
        if key or reason:
            shown = f"the key {key[1]}" if key else "a key"
            raise self._unsigned(f"{told} is signed with {shown}, which is not allowed{reason}")
        if "incorrect signature" in said:
            raise self._unsigned(f"{told} was altered, or has the signature of another object")
        last = visible(said.strip().rpartition("\n")[2][:SHOWN_CHARACTERS])
        raise self._unsigned(f"{told} has a signature that cannot be checked ({last})")

    async def _git(self, *arguments: str, shows: str) -> Output:
        limits = Limits(seconds=SECONDS, output_bytes=MOST_OBJECT_BYTES)
        # Without replacement refs (git-replace), even if the mirror has such a ref.
        try:
            output = await self._program.run(
                "--no-replace-objects", f"--git-dir={self._mirror}", *arguments, limits=limits
            )
        except TimeoutError:
            raise Transient(f"git did not show {shows} within {SECONDS:g} seconds; it is tried again") from None
        if output.status < 0 and not output.truncated:  # unrelated to the object
            raise Transient(f"git was ended by a signal before it showed {shows}; it is tried again")
        return output

    def _unsigned(self, why: str) -> GitFault:
        until = f"nothing more is applied until the head is signed with an SSH key that {self._signers.path} allows"
        return GitFault(RepositoryState.UNSIGNED, f"{why}; {until}")

    def _reason(self, said: str) -> str:
        """Return ssh-keygen's complaint about a line of the signers file, as `path:line: reason`; '' without one."""
        path = str(self._signers.path)
        reasons = [line for line in said.splitlines() if line.startswith(f"{path}:")]
        # It also reports unusable lines, which are rarely the cause if another line has this key.
        told = [reason for reason in reasons if _THIS_KEY in reason] or reasons
        return f" ({visible(told[0][:SHOWN_CHARACTERS])})" if told else ""


def _described(kind: str, name: str) -> str:
    return f"the {kind} {faults.short_commit(name)}"
