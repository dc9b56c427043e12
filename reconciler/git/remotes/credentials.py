"""Credentials of a remote: where they are, how they are read, and how they are kept out of messages."""

import base64
import os
import pwd
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import FileTooLarge, NotAFile

# What a remote asks for: a name, and the files that hold the secrets; never a secret itself.

# What people are told to correct.
PASSWORD_FILE = "credentials.passwordFile"  # noqa: S105 - the name of a setting, as are the others
TOKEN_FILE = "credentials.tokenFile"  # noqa: S105
SSH_KEY_FILE = "credentials.sshKeyFile"
SSH_PASSPHRASE_FILE = "credentials.sshPassphraseFile"  # noqa: S105
KNOWN_HOSTS_FILE = "credentials.knownHostsFile"
CA_FILE = "credentials.caFile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Names and paths as the settings give them; None or empty: not given. That they fit the URL is settled there."""

    username: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    ssh_key_file: Path | None = None
    ssh_passphrase_file: Path | None = None
    known_hosts_file: Path | None = None
    ca_file: Path | None = None
    proxy: str = ""

    def files(self) -> tuple[Path, ...]:
        """The files that are given, in one order: a change of one may mend what was refused."""
        given = (getattr(self, field.name) for field in fields(self))
        return tuple(value for value in given if isinstance(value, Path))


ANONYMOUS = Credentials()


# The program that answers when git or ssh ask for a secret: it answers one question, and nobody who asks another.
#
# The secret itself is in no argument and no variable. That for git is in a file of memory, which it inherits open; ssh
# closes what it inherits, so the passphrase is read from its own file.

NAME = "askpass"

# A proxy that wants a password, another host and another key ask other questions. The second wording is of other
# versions: of git that write names percent-encoded, for instance.
SCRIPT = """\
#!/bin/sh
[ "$1" = "$RECONCILER_QUESTION" ] || [ "$1" = "$RECONCILER_QUESTION_ENCODED" ] || exit 1
IFS= read -r answer < "$RECONCILER_ANSWER" || [ -n "$answer" ] || exit 1
printf '%s\\n' "${answer%"$(printf '\\r')"}"
"""


def install_askpass(home: Path) -> Path:
    """Write the script, and give its path."""
    replace_file(home / NAME, SCRIPT, mode=0o700)
    return home / NAME


def replace_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a whole file or none of it: a program that reads it may be started at any moment."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    temporary.chmod(mode)
    temporary.replace(path)


def askpass_variables(question: str, answer: str, *, encoded: str = "") -> dict[str, str]:
    """The variables that make it answer one question with the first line of a file."""
    return {
        "RECONCILER_QUESTION": question,
        "RECONCILER_QUESTION_ENCODED": encoded or question,
        "RECONCILER_ANSWER": answer,
    }


# Taking secrets out of what a remote or a program wrote: a server may answer with the very header that it was sent.
#
# Pure. Which secrets there are is the caller's to know. What a text means is settled before: a secret may be a common
# word.

HIDDEN = b"(sensitive)"
FEWEST_CHARACTERS = 6  # of a secret: a shorter one is in many words, and what is taken out of them would tell it


def secret_forms(secret: bytes, *, username: str = "") -> frozenset[bytes]:
    """How a secret may stand in a text: plain, in a URL, and as basic authentication writes it with its user name."""
    percent = quote(secret, safe="").encode()
    converted = secret.decode("latin-1").encode()  # git takes a page for Latin-1 unless that says what it is
    encoded = (base64.b64encode(secret), base64.b64encode(username.encode() + b":" + secret))
    return frozenset({secret, converted, percent, percent.lower(), *encoded, *(one.rstrip(b"=") for one in encoded)})


def is_guessable(secrets: Collection[bytes]) -> bool:
    """Return whether one of these is so short that a text without it would still tell it."""
    return any(len(one.decode("utf-8", "replace")) < FEWEST_CHARACTERS for one in secrets)


def redacted(text: bytes, secrets: Iterable[bytes]) -> bytes:
    """The text with every one of these replaced, the longest first, since one may be a part of another."""
    found = sorted(filter(None, secrets), key=lambda one: (-len(one), one))
    return re.sub(b"|".join(map(re.escape, found)), HIDDEN, text) if found else text


def redacted_text(text: str, secrets: Iterable[bytes]) -> str:
    """The same of a text that was decoded."""
    return redacted(text.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")


# Files that are in memory and on no disk, for programs that inherit them: however a run ends, nothing is left of them.


@contextmanager
def open_memory_file(content: bytes) -> Iterator[int]:
    """The descriptor of such a file, at its beginning, for as long as the context lasts."""
    descriptor = os.memfd_create("reconciler", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def inherited_path(descriptor: int) -> str:
    """The path under which a program opens a file that it inherits."""
    return f"/proc/self/fd/{descriptor}"


# What of a repository on this machine its reader may not read. Git itself says only that there is no repository.

INSIDE = ("HEAD", "config", "objects", "refs", "packed-refs")  # what git must read, save what it says itself


def unreadable(folder: Path) -> Path | None:
    """The first folder or file on the way into the repository that this process may not read; None when there is none.

    A repository that does not exist is not unreadable.
    """
    try:
        return next(_closed(folder), None)
    except PermissionError as denied:  # behind a link, where no list of parents leads
        return Path(os.fsdecode(denied.filename))


def out_of_reach(url: str, folder: Path) -> str | None:
    """The sentence for a repository that may not be read or is not there; None when it is something else."""
    closed = unreadable(folder)
    if closed is not None:
        return f"{url} cannot be read by this user; let the user {this_user()} read {closed}"
    return None if folder.exists() else f"{url} does not exist; put it there, or correct `url`"


def this_user() -> str:
    """The name of the user that this process runs as, or the number when it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _closed(folder: Path) -> Iterator[Path]:
    # From the root down: what stands below a closed folder cannot even be asked about.
    for parent in reversed(folder.parents):
        if parent.is_dir() and not _allowed(parent, os.X_OK):
            yield parent
    yield from _closed_inside(folder, (".git",))
    inner = folder / ".git"
    yield from _closed_inside(inner if inner.is_dir() else folder, INSIDE)


def _closed_inside(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    for place in (folder, *(folder / name for name in names)):
        if place.exists() and not _allowed(place, os.R_OK | os.X_OK if place.is_dir() else os.R_OK):
            yield place


def _allowed(place: Path, mode: int) -> bool:
    return os.access(place, mode, effective_ids=True)


# Reading the files that credentials are in, at the moment of their use: what is put there counts from the next run on.
#
# What is wrong is said with the file's name and never with anything of its content.

MOST_BYTES = 64 * 1024
MOST_LIST_BYTES = 4 << 20  # of what is no secret: the authorities of a whole system, the hosts of a large company

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def secret_line(path: Path, setting: str) -> bytes:
    """The secret in a file of one line, without the newline at its end; `setting` is where the file was named.

    Raises GitFault (unauthorized) for a file that cannot be read, or holds nothing, more than a line, or too much.
    """
    secret = secret_content(path, setting).removesuffix(b"\n").removesuffix(b"\r")
    if not secret:
        refuse_file(path, setting, "is empty", "write the secret into it")
    if _CONTROL.search(secret):
        refuse_file(path, setting, "holds more than one line, or control characters", "write the secret alone into it")
    return secret


def secret_content(path: Path, setting: str, *, limit: int = MOST_BYTES) -> bytes:
    """All bytes of a regular file. Raises GitFault (unauthorized)."""
    try:
        return bounded_io.read_file(path, limit=limit)
    except (FileNotFoundError, NotADirectoryError):
        refuse_file(path, setting, "does not exist", f"put it there, or correct {setting}")
    except PermissionError:
        refuse_file(path, setting, "cannot be read", f"let the user {this_user()} read it")
    except OSError as error:
        refuse_file(
            path, setting, f"cannot be read ({os.strerror(error.errno or 0)})", f"mend that, or correct {setting}"
        )
    except NotAFile:
        refuse_file(path, setting, "is not a regular file", f"put one there, or correct {setting}")
    except FileTooLarge:
        refuse_file(path, setting, f"has more than {limit} bytes", "put less into it")


def refuse_file(path: Path, setting: str, wrong: str, mend: str) -> NoReturn:
    """Say what is wrong with a file, and what to do."""
    raise GitFault(RepositoryState.UNAUTHORIZED, f"{path}, the file of {setting}, {wrong}; {mend}")
