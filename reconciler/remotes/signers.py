"""The file that says who may sign: `verify.signersFile`, in the form of OpenSSH's allowed signers (ssh-keygen(1)).

Belongs here: reading it whole, and that it names somebody. Does not: what its lines mean, which ssh-keygen knows.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.remotes import permissions
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import FileTooLarge, NotAFile

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
        told = f"cannot be read by this user; let the user {permissions.this_user()} read it"
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
