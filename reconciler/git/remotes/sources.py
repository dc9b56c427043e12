"""Sources: the URL of a repository and the followed ref. Nothing is opened here. `refs` has the names of refs."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reconciler.git import refs
from reconciler.git.refs import Followed, shown_name
from reconciler.git.remotes.credentials import ANONYMOUS, Credentials
from reconciler.model.errors import Refused
from reconciler.settings import scalars
from reconciler.settings.repositories import Repository

MAX_FETCH_BYTES = 2 << 30  # 2 GiB: the first fetch of a large repository's whole history
MAX_FETCH_OBJECTS = 5_000_000
# 1.5 GiB: git takes up to 300 bytes for each object, and does not count the files that it maps.
MAX_MEMORY_BYTES = 3 << 29

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A remote as one repository follows it. Raises Refused for a URL that git must not be given."""

    url: str
    follows: Followed = refs.HEAD
    credentials: Credentials = ANONYMOUS
    timeout: float = 60.0  # seconds, for each run of git
    max_bytes: int = MAX_FETCH_BYTES
    max_objects: int = MAX_FETCH_OBJECTS

    def __post_init__(self) -> None:
        if self.is_local:
            local_path(self.url)
        else:
            _check_remote(self.url)

    @property
    def is_local(self) -> bool:
        """True if the repository is a folder on this machine."""
        return self.url.startswith(("/", "file:"))

    @property
    def folder(self) -> Path | None:
        """The folder of the working tree or of the bare repository; None for a remote."""
        return local_path(self.url) if self.is_local else None

    @property
    def operand(self) -> str:
        """The repository as an argument of git. With the slash, git does not read a file as a bundle of objects."""
        return f"{self.folder}/" if self.is_local else self.url


def source_of(one: Repository) -> Source:
    """Return the remote that a repository follows by its settings."""
    follows = refs.following(branch=one.branch, tag=one.tag, commit=one.commit, ref=one.ref)
    return Source(url=one.url, follows=follows, credentials=Credentials(**dict(one.credentials)), timeout=one.timeout)


def local_path(url: str) -> Path:
    """Return the absolute path of a path or a `file://` URL. Raises Refused for anything else."""
    path = url
    if url.startswith("file:"):
        parts = urlsplit(url)
        if parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
            raise Refused(f"the repository URL {shown_name(url)} is not of the form file:///path")
        path = unquote(parts.path, errors="surrogateescape")
    if not path.startswith("/") or CONTROL.search(path) or not path.isprintable():
        raise Refused(f"the repository {shown_name(url)} is neither an absolute path nor a file:///path URL")
    return Path(path)


def host_of(url: str) -> str:
    """Return the host of a checked URL as `https://host:port`, in lower case and without user; '' for a local path."""
    if url.startswith(("/", "file:")):
        return ""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def _check_remote(url: str) -> None:
    try:
        scalars.repository_url(url)  # the same rule as for the settings
    except ValueError as error:
        why = str(error) or "must be an absolute path or an https, ssh or file URL"
        raise Refused(f"the URL of the repository {why}") from None  # not quoted, because it may contain a password
