"""The settings of one repository: the source of its commits, what they may change, and how far a prune may go.

Types that other sections use too are in `scalars`.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from pydantic import AfterValidator, Field

from reconciler.model import forges, gitignore
from reconciler.model.names import check_ref_name
from reconciler.model.repository_rules import RepositoryRules
from reconciler.settings import scalars
from reconciler.settings.scalars import Allowed, Mistake, Topic, has_control, or_nothing, refusal, setting, topic_key

MAX_GLOBS = 100
MAX_GLOB_CHARACTERS = 1024
MAX_USER_NAME_CHARACTERS = 255
MAX_PAGE_CHARACTERS = 1024
FOLLOWED = ("branch", "tag", "commit", "ref")
HTTPS = ("username", "password_file", "token_file", "ca_file", "proxy")
SSH = ("ssh_key_file", "ssh_passphrase_file", "known_hosts_file")
NEEDED = ("ssh_key_file", "known_hosts_file")
# ssh expands `$` in its options without a way to quote it, and has its own meaning for `"` and a backslash.
ODD_FOR_SSH = frozenset('"\\$')


def _short(text: str) -> str:
    """Check a short name of a branch or tag. Names such as `refs/heads/main` or `HEAD` are possible, but surely
    mistakes.
    """
    if text == "HEAD" or text.startswith("refs/"):
        raise refusal("must be the short name, such as main or v1.2; use `ref` for a full one, and nothing for HEAD")
    check_ref_name(text)
    return text


def _full_ref(text: str) -> str:
    if not text.startswith("refs/"):
        raise ValueError
    check_ref_name(text)
    return text


def _commit(text: str) -> str:
    """Check the full SHA-1 id of a commit. A short one may become ambiguous."""
    if not re.fullmatch(r"[0-9a-f]{40}", text):
        raise ValueError
    return text


def _glob(text: str) -> str:
    """Check one pattern of a `.gitignore`. A pattern that can match nothing is a mistake, and so is one with `!`, which
    reverses others.
    """
    if len(text) > MAX_GLOB_CHARACTERS or has_control(text) or text.startswith("!"):
        raise ValueError
    parts = text.strip("/").split("/")
    if gitignore.parse(text) is None or any(part in ("", ".", "..") for part in parts):
        raise ValueError
    return text


def _user_name(text: str) -> str:
    """Check a user name. It has no colon, which would end it in basic authentication (RFC 7617, section 2)."""
    if len(text) > MAX_USER_NAME_CHARACTERS or ":" in text or has_control(text):
        raise ValueError
    return text


def _page(text: str) -> str:
    """Check the repository's page at a known forge, or the pattern for a line at another."""
    parts = urlsplit(text)
    _ = parts.port
    is_web = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    if text != forges.NO_PAGES and (not is_web or has_control(text) or len(text) > MAX_PAGE_CHARACTERS):
        raise ValueError
    if text == forges.NO_PAGES or forges.PATH in text:
        return text
    if not forges.is_known(text):
        raise refusal(
            "must be at a host that begins with github, gitlab, gitea, forgejo or codeberg; for others give the "
            "address of a line, with placeholders for commit, path and line"
        )
    if parts.query or parts.fragment:
        raise ValueError
    return text


def _folder(text: str) -> str:
    """Check a folder in the repository: no leading `/`, no `..`. A `.` and a trailing `/` are ignored."""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or has_control(text):
        raise ValueError
    return "" if path == PurePosixPath() else str(path)


def _for_ssh(path: Path | None) -> Path | None:
    if ODD_FOR_SSH & set(str(path)):
        raise refusal('must be a path without `$`, `"` and backslashes, which ssh reads as its own')
    return path


SSHPath = Annotated[scalars.OptionalPath, AfterValidator(_for_ssh)]
Branch = Annotated[str | None, or_nothing(_short, nothing=None), Allowed('a branch name such as main, or "" for HEAD')]
Tag = Annotated[str | None, or_nothing(_short, nothing=None), Allowed('a tag name such as v1.2, or "" for none')]
Commit = Annotated[
    str | None, or_nothing(_commit, nothing=None), Allowed('the 40 hexadecimal digits of a commit, or "" for none')
]
FullRef = Annotated[
    str | None,
    or_nothing(_full_ref, nothing=None),
    Allowed('the full name of a ref such as refs/pull/7/head, or "" for none'),
]
Glob = Annotated[
    str,
    AfterValidator(_glob),
    Allowed(
        f"a pattern such as teams/**/*.yaml of 1 to {MAX_GLOB_CHARACTERS} characters that can match, without `..`, "
        "not beginning with `!` or `#`"
    ),
]
Globs = Annotated[
    tuple[Glob, ...],
    Field(max_length=MAX_GLOBS),
    Allowed(f"a list of at most {MAX_GLOBS} patterns such as teams/**/*.yaml"),
]
UserName = Annotated[
    str, AfterValidator(_user_name), Allowed(f"a name of at most {MAX_USER_NAME_CHARACTERS} characters without a colon")
]
Page = Annotated[
    str,
    or_nothing(_page),
    Allowed("an http or https URL: the repository's page, or a line's address with {path}; `none` or \"\""),
]
Folder = Annotated[
    str, AfterValidator(_folder), Allowed('a folder in the repository such as teams/web, without `..`, or ""')
]
RepositoryURL = Annotated[
    str, AfterValidator(scalars.repository_url), Allowed("a local path or an https, ssh or file URL")
]


class Allow(Topic):
    """The resources that the repository may define; all others are `forbidden`."""

    kinds: tuple[scalars.Filled, ...] = setting(("*",), "Patterns of the permitted kinds.")
    names: tuple[scalars.Filled, ...] = setting(("*",), "Patterns of the permitted names.")


class Prune(Topic):
    """Deleting resources that disappeared from Git, and the limits above which this is held."""

    enabled: scalars.Boolean = setting(True, "Delete what disappears from Git. Off: `false`.")
    max_percent: scalars.Percent = setting(
        25,
        "Hold deletions above this percentage of the repository's resources within 24 hours, and two or "
        "more above half of them. Off: `100`.",
    )
    min_count: scalars.Count = setting(3, "Up to this number of deletions in 24 hours, the percentage does not count.")


class Verify(Topic):
    """The verification of commits."""

    signers_file: scalars.OptionalPath = setting(
        None, "SSH allowed signers; only heads that they signed are applied. Off: empty."
    )


class Credentials(Topic):
    """The credentials for the remote. Secrets are in files, never here."""

    username: UserName = setting("", "User name for https.")
    password_file: scalars.OptionalPath = setting(None, "File with the password for https; needs `username`.")
    token_file: scalars.OptionalPath = setting(
        None, "File with a token for https: the password of `username`, or a bearer token without one."
    )
    ssh_key_file: SSHPath = setting(None, "File with the private key for ssh; an ssh URL needs it.")
    ssh_passphrase_file: SSHPath = setting(
        None, "File with the passphrase of the private key. Off: empty, the key has none."
    )
    known_hosts_file: SSHPath = setting(None, "File with the host keys that ssh trusts; an ssh URL needs it.")
    ca_file: scalars.OptionalPath = setting(
        None, "File with the only certificate authorities that https trusts. Off: empty, the system's."
    )
    proxy: scalars.OptionalWebURL = setting("", "Proxy for an https URL. Off: empty.")

    def contradictions(self) -> Iterator[Mistake]:
        """Yield keys that need or exclude each other."""
        if self.password_file and self.token_file:
            yield ("tokenFile",), "must not be given beside passwordFile; leave one of them out"
        if self.password_file and not self.username:
            yield ("passwordFile",), "needs username too"
        if self.username and not (self.password_file or self.token_file):
            yield ("username",), "needs passwordFile or tokenFile too"


class Hook(Topic):
    """Hooks by which the forge reports pushes."""

    secret_file: scalars.OptionalPath = setting(None, "File with the secret of `/hooks/<name>`. Off: empty.")


class Repository(Topic):
    """One repository that the service follows."""

    name: scalars.Name = Field(description="Name of the repository; unique.")
    url: RepositoryURL = Field(description="Path or URL of the repository.")
    web_url: Page = setting(
        "",
        "The repository's page at GitHub, GitLab or Gitea, for links in plans; at another forge the address of a line, "
        "with {commit}, {path} and {line}. Empty: from `url`, if its host is known. Off: `none`.",
    )
    branch: Branch = setting(None, "The branch to follow; default: the remote's HEAD.")
    tag: Tag = setting(None, "The tag to follow, instead of a branch. Off: empty.")
    commit: Commit = setting(None, "The commit to apply, instead of a branch. Off: empty.")
    ref: FullRef = setting(
        None, "Any other ref to follow, such as `refs/pull/7/head`, instead of a branch. Off: empty."
    )
    path: Folder = setting("", "Only files below this folder count. Off: empty, all.")
    include: Globs = setting((), "Patterns of the files that count, relative to `path`. Off: empty, all.")
    exclude: Globs = setting((), "Patterns of files that do not count, relative to `path`. Off: empty.")
    project: scalars.Project = setting("default", "The project that gets the resources.")
    interval: scalars.Duration = setting(
        60.0, "Time between two polls. A local repository is also polled at each file event."
    )
    full_interval: scalars.Duration = setting(24 * 3600.0, "Time between two full reads.")
    timeout: scalars.Duration = setting(60.0, "Time limit of one git command.")
    allow: Allow = setting(Allow(), "What the repository may hold.")
    prune: Prune = setting(Prune(), "Deleting what disappears from Git.")
    atomic: scalars.Boolean = setting(False, "Apply all of a commit or nothing. Off: `false`.")
    accept_invalid: scalars.Boolean = setting(
        False, "Store resources with missing or bad parameters, as incomplete. Off: `false`."
    )
    suspend: scalars.Boolean = setting(False, "Do not poll the repository. Off: `false`.")
    verify: Verify = setting(Verify(), "Which commits are trusted.")
    credentials: Credentials = setting(Credentials(), "What the remote asks for.")
    hook: Hook = setting(Hook(), "Pushes that are told by the forge.")

    def contradictions(self) -> Iterator[Mistake]:
        """Yield a second ref to follow, and credentials that are useless for the URL, or missing."""
        first, *more = [key for key in FOLLOWED if getattr(self, key)] or [""]
        for key in more:
            yield (key,), f"must not be given beside `{first}`: a repository follows one of branch, tag, commit and ref"
        scheme = "file" if self.url.startswith("/") else self.url.partition("://")[0]
        told = {"file": "a local one", "git": "a git one"}.get(scheme, f"an {scheme} one")
        for wanted, names in (("https", HTTPS), ("ssh", SSH)):
            for name in names:
                if getattr(self.credentials, name) and scheme != wanted:
                    why = f"is for {wanted} URLs, and the URL is {told}; leave it out, or change `url`"
                    yield ("credentials", topic_key(name)), why
        lacking = [f"credentials.{topic_key(name)}" for name in NEEDED if not getattr(self.credentials, name)]
        if scheme == "ssh" and lacking:
            yield ("url",), f"needs {' and '.join(lacking)}, since a host is trusted by its key alone"

    @property
    def origin(self) -> str:
        """A digest of the URL and the followed ref, without credentials. While it is the same, a head should continue
        the history of the applied commit.
        """
        return hashlib.sha256(msgspec.json.encode([self.url, self.follows])).hexdigest()

    @property
    def follows(self) -> tuple[str | None, ...]:
        """The settings of the followed ref or commit, of which at most one is set."""
        return self.branch, self.tag, self.commit, self.ref

    @property
    def rules(self) -> RepositoryRules:
        """The settings that affect how a commit is judged."""
        return RepositoryRules(
            name=self.name,
            path=self.path,
            include=self.include,
            exclude=self.exclude,
            prune=self.prune.enabled,
            prune_min_count=self.prune.min_count,
            prune_max_percent=self.prune.max_percent,
            atomic=self.atomic,
            allowed_kinds=self.allow.kinds,
            allowed_names=self.allow.names,
            accept_invalid=self.accept_invalid,
        )
