"""Where a repository is, checked before anything of it reaches the git program's command line.

Only repositories on this machine so far: a path or a `file://` URL. What is there is not looked at here.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reconciler.errors import Refused

MAX_FETCH_BYTES = 2 << 30  # 2 GiB: the first fetch of a large repository's whole history
MAX_NAME_BYTES = 1024

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# What git-check-ref-format(1) forbids anywhere in a name, and at the edges of its parts.
FORBIDDEN_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
FORBIDDEN_AT_EDGE = re.compile(r"^[-/]|/$|\.$|^@$|(?:^|/)\.|\.lock(?:/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One branch of one repository. Raises Refused for a URL or branch that git must not be given."""

    url: str
    branch: str | None = None  # None: what the repository's HEAD names
    local: bool = True
    timeout: float = 60.0  # seconds, for each run of git
    max_bytes: int = MAX_FETCH_BYTES

    def __post_init__(self) -> None:
        if not self.local:
            raise Refused(f"the repository {shown(self.url)} is not on this machine; give a path or a file:// URL")
        local_path(self.url)
        if self.branch is not None:
            check_branch(self.branch)

    @property
    def folder(self) -> Path:
        """The repository's folder: of the working tree, or the bare repository itself."""
        return local_path(self.url)

    @property
    def operand(self) -> str:
        """The repository as git is told it. The slash keeps a file from being taken for a bundle of objects."""
        return f"{self.folder}/"

    @property
    def ref(self) -> str | None:
        """The full name of the branch's ref."""
        return None if self.branch is None else f"refs/heads/{self.branch}"


def local_path(url: str) -> Path:
    """The absolute path that a path or a `file://` URL names; Refused for anything else."""
    path = url
    if url.startswith("file:"):
        parts = urlsplit(url)
        if parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
            raise Refused(f"the repository URL {shown(url)} is not of the form file:///path")
        path = unquote(parts.path, errors="surrogateescape")
    if not path.startswith("/") or CONTROL.search(path) or not path.isprintable():
        raise Refused(f"the repository {shown(url)} is neither an absolute path nor a file:///path URL")
    return Path(path)


def check_branch(name: str) -> None:
    """Raise Refused unless Git allows the branch name and it cannot be taken for an option."""
    if not name or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise Refused(f"a branch name has 1 to {MAX_NAME_BYTES} bytes")
    if FORBIDDEN_IN_REF.search(name) or FORBIDDEN_AT_EDGE.search(name) or not name.isprintable():
        raise Refused(f"{shown(name)} is not a branch name that Git allows")


def shown(text: str) -> str:
    """Text from settings, fit to stand in a message."""
    return repr(text[:200])
