"""The settings of one repository: where its commits are, what they may change, and how far a prune may go."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import Field

from reconciler.settings.scalars import (
    Boolean,
    Branch,
    Count,
    Duration,
    Filled,
    Folder,
    Name,
    OptionalPath,
    OptionalWebURL,
    Percent,
    Project,
    RepositoryURL,
    Text,
)
from reconciler.settings.topics import Topic


class Allow(Topic):
    """Which resources the repository may hold; what is outside is `forbidden`."""

    kinds: tuple[Filled, ...] = Field(default=("*",), description="Patterns of the kinds it may hold.")
    names: tuple[Filled, ...] = Field(default=("*",), description="Patterns of the names it may hold.")


class Prune(Topic):
    """Deleting what disappeared from Git, and when to hold that for a person."""

    enabled: Boolean = Field(default=True, description="Delete what disappears from Git. Off: `false`.")
    max_percent: Percent = Field(
        default=25,
        description="Hold a prune of more than so many percent of what the repository owned within 24 hours. "
        "Off: `100`.",
    )
    min_count: Count = Field(default=3, description="Never hold a prune of at most so many resources in 24 hours.")


class Verify(Topic):
    """Which commits are trusted."""

    signers_file: OptionalPath = Field(
        default=None, description="SSH allowed signers; a head that none of them signed is not applied. Off: empty."
    )


class Credentials(Topic):
    """What the remote asks for. Secrets are in files, never here."""

    username: Text = Field(default="", description="User name for https.")
    password_file: OptionalPath = Field(default=None, description="File with the password for https.")
    token_file: OptionalPath = Field(default=None, description="File with a token for https, instead of a password.")
    ssh_key_file: OptionalPath = Field(default=None, description="File with the private key for ssh.")
    known_hosts_file: OptionalPath = Field(default=None, description="File with the host keys that ssh trusts.")
    ca_file: OptionalPath = Field(default=None, description="File with the certificate authorities that https trusts.")
    proxy: OptionalWebURL = Field(default="", description="Proxy for this repository. Off: empty.")


class Repository(Topic):
    """One repository that the service follows."""

    name: Name = Field(description="What the repository is called; unique.")
    url: RepositoryURL = Field(description="Where its commits are.")
    branch: Branch = Field(default=None, description="The branch to follow; the remote's HEAD when left out.")
    path: Folder = Field(default="", description="The folder whose files count; all of them when empty.")
    project: Project = Field(default="default", description="The project that gets the resources.")
    interval: Duration = Field(
        default=60.0,
        description="Time between two looks at the branch. A commit to a local repository is seen at once anyway; that "
        "its folder was moved away, or that a network disk changed, at the next look.",
    )
    full_interval: Duration = Field(
        default=24 * 3600.0, description="Time between two complete readings, which make sure that nothing was missed."
    )
    timeout: Duration = Field(default=60.0, description="How long one git command may take.")
    allow: Allow = Field(default=Allow(), description="What the repository may hold.")
    prune: Prune = Field(default=Prune(), description="Deleting what disappears from Git.")
    atomic: Boolean = Field(
        default=False,
        description="Apply a commit only when all of it can be. Off: `false`, what can be stored is stored.",
    )
    accept_invalid: Boolean = Field(
        default=False, description="Store resources with missing or bad parameters, as incomplete. Off: `false`."
    )
    suspend: Boolean = Field(
        default=False, description="Do not look at the repository; what it owns stays as it is. Off: `false`."
    )
    verify: Verify = Field(default=Verify(), description="Which commits are trusted.")
    credentials: Credentials = Field(default=Credentials(), description="What the remote asks for.")

    @property
    def local_path(self) -> Path | None:
        """The folder of a repository on this machine; None for a remote one."""
        if self.url.startswith("/"):
            return Path(self.url)
        parts = urlsplit(self.url)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None
