"""The settings of one repository: where its commits are, what they may change, and how far a prune may go."""

from pydantic import Field

from reconciler.settings.repository_scalars import Branch, Commit, Folder, FullRef, Globs, RepositoryURL, Tag, UserName
from reconciler.settings.scalars import (
    Boolean,
    Count,
    Duration,
    Filled,
    Name,
    OptionalPath,
    OptionalWebURL,
    Percent,
    Project,
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
        "Two or more that are over half of what it owns are held too. Off: `100`.",
    )
    min_count: Count = Field(
        default=3, description="Such a percentage holds no prune of at most so many resources in 24 hours."
    )


class Verify(Topic):
    """Which commits are trusted."""

    signers_file: OptionalPath = Field(
        default=None, description="SSH allowed signers; a head that none of them signed is not applied. Off: empty."
    )


class Credentials(Topic):
    """What the remote asks for. Secrets are in files, never here."""

    username: UserName = Field(default="", description="User name for https.")
    password_file: OptionalPath = Field(default=None, description="File with the password for https; needs `username`.")
    token_file: OptionalPath = Field(
        default=None,
        description="File with a token for https: the password of `username`, or a bearer token without one.",
    )
    ssh_key_file: OptionalPath = Field(
        default=None, description="File with the private key for ssh; an ssh URL needs it."
    )
    ssh_passphrase_file: OptionalPath = Field(
        default=None, description="File with the passphrase of the private key. Off: empty, the key has none."
    )
    known_hosts_file: OptionalPath = Field(
        default=None, description="File with the host keys that ssh trusts; an ssh URL needs it."
    )
    ca_file: OptionalPath = Field(
        default=None,
        description="File with the certificate authorities that https trusts, and no others. Off: empty, the system's.",
    )
    proxy: OptionalWebURL = Field(default="", description="Proxy for an https URL. Off: empty.")


class Hook(Topic):
    """Pushes that are told by the forge."""

    secret_file: OptionalPath = Field(
        default=None,
        description="File with the secret that signs what `/hooks/<name>` takes. Off: empty, it takes nothing.",
    )


class Repository(Topic):
    """One repository that the service follows."""

    name: Name = Field(description="What the repository is called; unique.")
    url: RepositoryURL = Field(description="Where its commits are.")
    branch: Branch = Field(default=None, description="The branch to follow; the remote's HEAD when left out.")
    tag: Tag = Field(default=None, description="The tag to follow, instead of a branch. Off: empty.")
    commit: Commit = Field(default=None, description="The commit to stay at, instead of a branch. Off: empty.")
    ref: FullRef = Field(
        default=None,
        description="Any other ref to follow, such as `refs/pull/7/head`, instead of a branch. Off: empty.",
    )
    path: Folder = Field(default="", description="The folder whose files count; all of them when empty.")
    include: Globs = Field(
        default=(), description="Patterns of the files that count, relative to `path`. Off: empty, all of them."
    )
    exclude: Globs = Field(
        default=(), description="Patterns of files that do not count, relative to `path`. Off: empty."
    )
    project: Project = Field(default="default", description="The project that gets the resources.")
    interval: Duration = Field(
        default=60.0,
        description="Time between two looks at the remote. A commit to a local repository is seen at once anyway; that "
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
    hook: Hook = Field(default=Hook(), description="Pushes that are told by the forge.")
