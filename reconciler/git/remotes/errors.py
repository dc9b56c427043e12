"""Failed runs of git as faults: a short table of stable phrases with their causes. Everything else is quoted.

Git and ssh run with LC_ALL=C, so their phrases are fixed. Those of curl depend on its TLS library: GnuTLS on Debian,
OpenSSL elsewhere. A remote may write any text, even these phrases, and so choose the message of its own failure. Its
text has no other effect: our mirror counts as damaged only if our own checks find damage.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from reconciler.git.faults import REBUILT, GitFault, RepositoryState
from reconciler.git.refs import PRIVATE, Followed, RefKind
from reconciler.git.remotes import credentials
from reconciler.git.remotes.credentials import PASSWORD_FILE, SSH_KEY_FILE, SSH_PASSPHRASE_FILE, TOKEN_FILE, Credentials
from reconciler.git.remotes.program import NO_SMART_PROTOCOL, REDIRECTED, TOO_MANY_OBJECTS, GitProgram, Limits, Output
from reconciler.git.remotes.sources import MAX_MEMORY_BYTES, Source
from reconciler.model.text import visible

DETAIL_CHARACTERS = 200
SAID_LINES = 2
CHECK_SECONDS = 300.0  # for a check of a mirror, which reads all of it
ODD_OBJECT = 1  # the status of `git fsck` for an intact object that breaks a rule, which a fetch may accept
# The message for a repository on this machine. Git's own may quote a file outside that a link leads to.
UNSHOWN = "`git fsck` there says why"
SILENT = "git gave no reason"


class _Row(NamedTuple):
    """A phrase of git, curl, ssh, a remote, or our notes on the run, and its cause.

    The sentence has places for `source`, its `max_bytes` and `max_objects`, `detail` (git's complaint), `said` (the
    remote's words in parentheses, or nothing), `credentials`, and the groups of the pattern. `anonymous` is the
    sentence if no credentials are set. `lasting`: only a person can correct it. `of_head`: it also lasts until there is
    another head, or larger limits.
    """

    pattern: str
    state: RepositoryState
    sentence: str
    anonymous: str = ""
    lasting: bool = False
    of_head: bool = False


_UNREACHABLE, _UNAUTHORIZED = RepositoryState.UNREACHABLE, RepositoryState.UNAUTHORIZED
_UNSUPPORTED = RepositoryState.UNSUPPORTED_FORMAT
# The beginning of a line in which git quotes curl, with our URL, or the status of an answer.
_CURL = r"^(?:fatal: unable to access '[^'\n]*': |error: RPC failed; (?:HTTP [0-9]{3} )?(?:curl [0-9]{1,3} )?)"
_STATUS = f"{_CURL}The requested URL returned error: "

# Bounds, this machine, and the objects of the remote.
_ANYWHERE = (
    _Row(
        f"^{TOO_MANY_OBJECTS}$|^(?:fatal|error): [^:]*: File too large$",
        _UNREACHABLE,
        "{source} sends more than the {max_bytes} bytes or the {max_objects} objects that one fetch may bring; shorten"
        " its history",
        of_head=True,
    ),
    _Row(
        "^(?:fatal|error): (?:unable to access .*: |[a-zA-Z]+: )?[Oo]ut of memory\\b",
        _UNREACHABLE,
        f"{{source}} takes more than {MAX_MEMORY_BYTES / 2**30:g} GiB of memory to look at or fetch; delete refs, or"
        " shorten its history",
        lasting=True,
    ),
    _Row(
        "^(?:fatal|error): .*: No space left on device$",
        _UNREACHABLE,
        "there is no disk space left for the mirror of {source}; make room where `stateDir` is",
    ),
    _Row(
        r"^(?:ssh -F none |sh: |/bin/sh: |git).*\b(?:git|ssh): (?:command )?not found$",
        _UNREACHABLE,
        "a program that {source} needs is not on PATH; install git and OpenSSH's client",
        lasting=True,
    ),
    _Row(
        "^(?:error: object [0-9a-f]{40}: |fatal: fsck error )",
        _UNSUPPORTED,
        "{source} holds an object that fails Git's integrity checks ({detail}); repair its history",
        of_head=True,
    ),
)
_NO_REPOSITORY = _Row(
    "^fatal: (?:invalid gitfile format|not a git repository: /|.* does not appear to be a git repository$)",
    _UNREACHABLE,
    "{source} is not a Git repository; make one there, or correct `url`",
    lasting=True,
)
_ON_THIS_MACHINE = (
    _Row(
        "promisor remote",  # a partial clone would have to fetch an object, which it must not
        _UNSUPPORTED,
        "{source} is a partial clone that lacks objects of its history; fetch them there with `git fetch --refetch"
        " --no-filter`, or clone it whole",
    ),
    _Row(
        "^(?:fatal: unknown repository extension|fatal: Expected git repo version)",
        _UNSUPPORTED,
        "{source} uses a repository format or extension that the installed git does not know, reftable for instance;"
        " upgrade git",
    ),
    _NO_REPOSITORY,
)
_HTTP = (
    _Row(
        f"^{REDIRECTED}(?P<where>.*)$",
        _UNREACHABLE,
        "{source} redirects to {where}, which is not followed; correct `url`",
        lasting=True,
    ),
    _Row(
        f"^{NO_SMART_PROTOCOL}$|^fatal: .*/info/refs not valid: is this a git repository",
        _UNREACHABLE,
        "what answers at {source} does not speak Git's smart protocol; correct `url`, or look at what answers there",
        lasting=True,
    ),
    _Row(
        f"^fatal: (?:Authentication failed for|could not read Username for) |{_STATUS}40[13]",
        _UNAUTHORIZED,
        "{source} refuses {credentials}{said}; write the right one there, or have it allowed, and it is noticed",
        anonymous="{source} asks for credentials, and none are set{said}; set `credentials`",
    ),
    _Row(
        f"^fatal: repository '.*' not found$|{_STATUS}(?:404|410)",
        _UNREACHABLE,
        "there is no repository at {source}, or these credentials may not read it{said}; correct `url` or"
        " `credentials`",
        lasting=True,
    ),
    _Row(
        f"{_STATUS}(?P<code>429|5[0-9]{{2}})",
        _UNREACHABLE,
        "the server of {source} answers with HTTP {code}{said}; look at the server, or raise `interval`, if this stays",
    ),
    _Row(
        f"{_CURL}(?:SSL: (?:.* does not match target host ?name|no alternative certificate subject name)"
        "|server certificate verification failed|SSL certificate problem|Problem with the SSL CA cert"
        "|.*unable to get local issuer certificate)",
        _UNREACHABLE,
        "the certificate of {source} is not trusted ({detail}); renew it, correct `url`, or name its authority in"
        " `credentials.caFile`",
        lasting=True,
    ),
)
_SSH = (
    _Row(
        "^@ +WARNING: (?:REMOTE HOST IDENTIFICATION HAS CHANGED|REVOKED HOST KEY DETECTED)",
        _UNREACHABLE,
        "the host of {source} shows another key than `credentials.knownHostsFile` has, or a revoked one: it got a new"
        " one, or somebody stands in its place; find out which, and then correct that file",
        lasting=True,
    ),
    _Row(
        r"^(?:No \S+ host key is known for |Host key verification failed\.)",
        _UNREACHABLE,
        "the host of {source} is not in `credentials.knownHostsFile`; add its line of `ssh-keyscan`, once you know that"
        " the key is the host's own",
        lasting=True,
    ),
    _Row(
        r'^Load key "identity": (?P<why>.*)$',
        _UNAUTHORIZED,
        "{credentials} cannot be used by ssh ({why}); make its mode 0600 and put a private key there",
    ),
    _Row(
        r"^\S+@\S+: Permission denied \(|^Received disconnect from .{1,99}: Too many authentication failures",
        _UNAUTHORIZED,
        "{source} refuses {credentials}; allow its public key there, write another into that file, or correct its"
        f" passphrase in `{SSH_PASSPHRASE_FILE}` or the user in `url`",
        anonymous="{source} asks for an ssh key, and none is set; set `credentials.sshKeyFile`",
    ),
)
# Phrases of the remote, because only it knows the cause.
_OF_REMOTE = (
    _Row(
        "is not authorized to |User permission denied|^Gitea: Unauthorized"  # Gitea and Forgejo
        "|^FATAL: . .* DENIED by |^FATAL: .*access .*DENIED"  # gitolite
        r"|[Rr]epository access denied|^(?:remote: )?(?:Forbidden|Unauthorized|Access denied)\b"  # Bitbucket
        "|Public key authentication failed|^(?:remote: )?TF400813"  # Azure DevOps
        "|has enabled or enforced SAML SSO",  # GitHub
        _UNAUTHORIZED,
        "{source} refuses {credentials}{said}; have it allowed to read the repository, or write another there",
        anonymous="{source} may not be read without credentials{said}; set `credentials`",
    ),
    _NO_REPOSITORY,
    _Row(
        "access denied or repository not exported|[Rr]epository not found|[Rr]epository does not exist"
        "|could not be found or you don't have|^(?:remote: )?TF401019|You may not have access to this repository",
        _UNREACHABLE,
        "there is no repository at {source}, or it may not be read; correct `url`, or have it allowed",
        lasting=True,
    ),
)
_ROWS = {
    "file": (*_ON_THIS_MACHINE, *_ANYWHERE),
    "https": (*_ANYWHERE, *_HTTP, *_OF_REMOTE),
    "http": (*_ANYWHERE, *_HTTP, *_OF_REMOTE),
    "ssh": (*_ANYWHERE, *_SSH, *_OF_REMOTE),
    "git": (*_ANYWHERE, *_OF_REMOTE),
}


async def explained_fault(source: Source, output: Output, *, mirror: Path, program: GitProgram) -> GitFault:
    """Return the fault of a failed run in a mirror that talked to the source."""
    if not await asyncio.to_thread(is_mirror, mirror):
        return GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror of {source.url} is incomplete; {REBUILT}")
    is_named = PRIVATE in output.stderr or str(mirror) in output.stderr
    if is_named and await is_damaged(mirror, program):
        return GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror of {source.url} is damaged; {REBUILT}")
    return explain(source, output)


def explain(source: Source, output: Output) -> GitFault:
    """Return the fault of a failed run against a source, never a fault of our own mirror."""
    scheme = "file" if source.is_local else urlsplit(source.url).scheme
    said = _shown(" ".join(_other_words(output)[:SAID_LINES]), output)
    given = _credentials(source.credentials)
    parts = {
        "source": source.url,
        "max_bytes": source.max_bytes,
        "max_objects": source.max_objects,
        "detail": _detail(output, is_local=source.is_local),
        "said": f" (it says: {said})" if said else "",
        "credentials": given,
    }
    fault = _found(_ROWS[scheme], output, parts, is_anonymous=not given)
    if fault is None:
        fault = GitFault(
            RepositoryState.UNREACHABLE, f"{source.url} cannot be read ({parts['detail']}); mend that, and it is read"
        )
    fault.retry_after = output.retry_after
    return fault


def of_mirror(url: str, output: Output) -> GitFault:
    """Return the fault of a failed run on our own files, whose words are git's own.

    If a signal ended it, the files are not damaged, and it is tried again.
    """
    detail = _detail(output)
    fault = _found(_ANYWHERE, output, {"source": url, "max_bytes": 0, "max_objects": 0, "detail": detail})
    if output.notes:
        fault = GitFault(
            RepositoryState.UNREACHABLE, f"the mirror of {url} cannot be read ({detail}); mend that, and it is read"
        )
    if fault is not None:
        return fault
    return GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror of {url} cannot be read ({detail}); {REBUILT}")


def vanished(source: Source, followed: Followed, output: Output) -> GitFault | None:
    """Return the fault if a fetch failed because the followed ref does not exist (any more); None for another cause."""
    if followed.kind is RefKind.COMMIT and "Server does not allow request for unadv" in output.stderr:
        return GitFault(
            RepositoryState.BRANCH_MISSING,
            f"{source.url} gives out no commit by its id; have the server allow it (uploadpack.allowAnySHA1InWant),"
            " or follow a branch or tag",
        )
    is_gone = "fatal: couldn't find remote ref " in output.stderr or f"not our ref {followed.name}" in output.stderr
    return missing(source, followed) if is_gone else None


def missing(source: Source, followed: Followed) -> GitFault:
    """Return the fault if a remote has commits but not the followed ref."""
    what = f"{followed.kind.value} {followed.name}"
    return GitFault(
        RepositoryState.BRANCH_MISSING, f"{source.url} has no {what}; name another with `{followed.setting}`"
    )


def no_commit(source: Source, followed: Followed) -> GitFault:
    """Return the fault if the followed ref exists but is neither a commit nor a tag of one."""
    return GitFault(
        RepositoryState.UNSUPPORTED_FORMAT,
        f"{followed.told} of {source.url} names no commit; let it name one, or another with `{followed.setting}`",
        of_head=True,
    )


def is_mirror(path: Path) -> bool:
    """Return True if all parts of a mirror are there. It was renamed into place whole, so a lacking one is damage."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()


async def is_damaged(path: Path, program: GitProgram) -> bool:
    """Return True if a part of a mirror, a ref or an object, is missing or broken.

    Checked twice, since another task may be joining its packs. A check that takes too long, or is ended by a signal,
    finds no damage.
    """
    return await _has_fault(path, program) and await _has_fault(path, program)


async def _has_fault(path: Path, program: GitProgram) -> bool:
    try:
        limits = Limits(seconds=CHECK_SECONDS)
        output = await program.run(f"--git-dir={path}", "fsck", "--no-dangling", "--no-progress", limits=limits)
    except TimeoutError:
        return False
    return not output.truncated and output.status > ODD_OBJECT


# Lines that git always adds, the frame around ssh's warnings, and progress.
_IDLE = re.compile(
    r"(?:fatal: )?(?:Could not read from remote repository|expected flush after|the remote end hung up upon initial)"
    r"|Please make sure you have|and the repository exists|@|\s*$|From "
    r"|(?:Enumerating|Counting|Compressing|Receiving|Unpacking|Indexing|Resolving|Total)\b"
)
_COMPLAINT = re.compile(r"(?:fatal|error): (.*)")
# Parts that are left out: the URL, and a number that differs each time, so that equal faults have equal messages.
_VARYING = re.compile(r"unable to access '[^']*': | after [0-9]+ (?:ms|milliseconds)\b")


def _lines(output: Output) -> list[str]:
    """Return the lines that may have the cause. A carriage return ends a line of progress."""
    return [line for line in re.split(r"[\r\n]", output.stderr) if not _IDLE.match(line)]


def _other_words(output: Output) -> list[str]:
    """Return the lines that are not from git: those of the remote and of ssh."""
    others = (line.removeprefix("remote:").strip() for line in _lines(output) if not _COMPLAINT.match(line))
    return [line for line in others if line]


def _detail(output: Output, *, is_local: bool = False) -> str:
    """Return the best description of the cause: git's complaint, a note, or the last line."""
    if is_local and output.stderr.strip():
        return next(iter(output.notes), UNSHOWN)
    complaints = [found[1] for line in _lines(output) if (found := _COMPLAINT.match(line))]
    text = next(iter((*complaints, *output.notes, *reversed(_other_words(output)))), SILENT)
    return _shown(_VARYING.sub("", text.strip()), output).rstrip(".")


def _credentials(given: Credentials) -> str:
    """Name the credentials and the file to correct; an empty text without credentials."""
    for what, path, setting in (
        ("the credentials", given.password_file, PASSWORD_FILE),
        ("the credentials", given.token_file, TOKEN_FILE),
        ("the ssh key", given.ssh_key_file, SSH_KEY_FILE),
    ):
        if path is not None:
            return f"{what} in {path} (`{setting}`)"
    return ""


def _found(
    rows: Sequence[_Row], output: Output, parts: Mapping[str, object], *, is_anonymous: bool = False
) -> GitFault | None:
    """Return the fault of the first matching row; None if none matches."""
    text = "\n".join((*output.notes, output.stderr.replace("\r", "\n")))
    for row in rows:
        if (found := re.search(row.pattern, text, re.MULTILINE)) is not None:
            groups = {name: _shown(value, output) for name, value in found.groupdict().items()}
            sentence = row.anonymous if is_anonymous and row.anonymous else row.sentence
            return GitFault(row.state, sentence.format(**parts, **groups), lasting=row.lasting, of_head=row.of_head)
    return None


def _shown(text: str, output: Output) -> str:
    """Make text from a remote showable: one line of bounded length, without the secrets of the run."""
    return visible(credentials.redacted_text(text, output.secrets)[:DETAIL_CHARACTERS])
