"""Reading the files that credentials are in, at the moment of their use: what is put there counts from the next run on.

Belongs here: one file's bytes, or what is wrong with it. Does not: opening it safely (`regular_files`), what the secret
is used for.

What is wrong is said with the file's name and never with anything of its content.
"""

import os
import re
from pathlib import Path
from typing import NoReturn

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.remotes import permissions
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import FileTooLarge, NotAFile

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
        refuse_file(path, setting, "cannot be read", f"let the user {permissions.this_user()} read it")
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
