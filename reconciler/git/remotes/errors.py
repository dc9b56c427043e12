"""Failed runs of git as faults: a short table of stable phrases with their causes. Everything else is quoted.

Git and ssh run with LC_ALL=C, so their words are these. Those of curl depend on its TLS library: GnuTLS on Debian,
OpenSSL elsewhere. A remote may write anything, so its words are told from those of git, curl and ssh first. They decide
between states of the remote, and never about our own mirror or machine.
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
from reconciler.git.remotes.credentials import PASSWORD_FILE, SSH_KEY_FILE, TOKEN_FILE, Credentials
from reconciler.git.remotes.program import NO_SMART_PROTOCOL, REDIRECTED, GitProgram, Limits, Output
from reconciler.git.remotes.sources import MAX_MEMORY_BYTES, Source
from reconciler.model.text import visible

DETAIL_CHARACTERS = 200
SAID_LINES = 2
CHECK_SECONDS = 300.0  # for each git that checks a mirror, which reads all that it holds
# In place of git's words on a repository on this machine, which may quote a file that a link in it leads to.
UNSHOWN = "`git fsck` there says why"
SILENT = "git gave no reason"
# In place of any words of a remote that may hold a secret which would be known by what is left out.
WITHHELD = "its words are not shown"
ANOTHER = "another address"


class _Row(NamedTuple):
    """A phrase of git, curl, ssh or our notes on the run, and its cause.

    The sentence has places for `source`, `limit`, `detail` (git's own complaint), `said` (the remote's words in
    parentheses, or nothing), `credentials`, and the groups of the pattern, which hold nothing that a remote chooses.
    `anonymous` is the sentence where no credentials are set. `lasting`: only a person can correct it. `of_head`: and it
    stays until another commit is followed, or the bounds grow.
    """

    pattern: str
    state: RepositoryState
    sentence: str
    anonymous: str = ""
    lasting: bool = False
    of_head: bool = False


_UNREACHABLE, _UNAUTHORIZED = RepositoryState.UNREACHABLE, RepositoryState.UNAUTHORIZED
_UNSUPPORTED = RepositoryState.UNSUPPORTED_FORMAT
# The beginning of a line in which git tells the words of curl, with the URL that we gave, or the status of an answer.
_CURL = r"^(?:fatal: unable to access '[^'\n]*': |error: RPC failed; (?:HTTP [0-9]{3} )?(?:curl [0-9]{1,3} )?)"
_STATUS = f"{_CURL}The requested URL returned error: "
_NOT_SMART = (
    "what answers at {source} does not speak Git's smart protocol; correct `url`, or look at what answers there"
)

# Bounds, this machine, and the objects of the remote.
_ANYWHERE = (
    _Row(
        "^it sends (?P<count>[0-9]+) objects, and one fetch may bring (?P<most>[0-9]+)$",
        _UNREACHABLE,
        "{source} sends {count} objects, more than the {most} that one fetch may bring; shorten its history",
        of_head=True,
    ),
    _Row(
        "^(?:fatal|error): [^:]*: File too large$",
        _UNREACHABLE,
        "{source} sends more than the {limit} bytes that one fetch may bring; shorten its history",
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
        "^fatal: mismatched algorithms: ",
        _UNSUPPORTED,
        "{source} uses another object format than SHA-1, which is not supported; convert it to SHA-1",
    ),
    _Row(
        "^error: object (?P<object>[0-9a-f]{40}: [A-Za-z]{1,40}): ",
        _UNSUPPORTED,
        "{source} holds an object that fails Git's integrity checks ({object}); repair its history",
        of_head=True,
    ),
    _Row(
        "^fatal: fsck error ",
        _UNSUPPORTED,
        "{source} holds an object that fails Git's integrity checks; repair its history",
        of_head=True,
    ),
)
_NO_REPOSITORY = _Row(
    "^fatal: (?:invalid gitfile format|.* does not appear to be a git repository$)",
    _UNREACHABLE,
    "{source} is not a Git repository; make one there, or correct `url`",
    lasting=True,
)
_ON_THIS_MACHINE = (
    _Row(
        "^(?:fatal: unknown repository extension|fatal: Expected git repo version)",
        _UNSUPPORTED,
        "{source} uses a repository format or extension that the installed git does not know, reftable for instance;"
        " upgrade git",
    ),
    _Row(
        "^fatal: detected dubious ownership",
        _UNREACHABLE,
        "{source} belongs to another user; configure the repository's exact path, without links",
        lasting=True,
    ),
    _Row(
        "^fatal: not a git repository: /",
        _UNREACHABLE,
        "{source} names a Git repository that is gone; put that back, or correct `url`",
        lasting=True,
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
        _NOT_SMART,
        lasting=True,
    ),
    _Row(
        f"{_CURL}(?:CONNECT tunnel failed|Received HTTP code [0-9]{{3}} from proxy|Proxy CONNECT aborted"
        "|Could not resolve proxy)",
        _UNREACHABLE,
        "the proxy of {source} does not connect ({detail}); look at `credentials.proxy`, and at what it allows",
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
        f"{_STATUS}429",
        _UNREACHABLE,
        "{source} gets too many requests and asks to wait{said}; raise `interval` if this stays",
    ),
    _Row(
        f"{_STATUS}3", _UNREACHABLE, "{source} redirects elsewhere, which is not followed; correct `url`", lasting=True
    ),
    _Row(
        f"{_STATUS}(?P<code>5[0-9]{{2}})",
        _UNREACHABLE,
        "the server of {source} has a fault (HTTP {code}){said}; look at the server if this stays",
    ),
    _Row(
        f"{_CURL}(?:SSL: (?:.* does not match target host ?name|no alternative certificate subject name)"
        "|server certificate verification failed|SSL certificate problem|.*unable to get local issuer certificate)",
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
        r"^\S+@\S+: Permission denied \(|^Received disconnect from .{1,99}: Too many authentication failures",
        _UNAUTHORIZED,
        "{source} refuses {credentials}; allow its public key there, write another into that file, or correct the user"
        " in `url`",
        anonymous="{source} asks for an ssh key, and none is set; set `credentials.sshKeyFile`",
    ),
)
# Phrases of the remote: it alone knows. Whatever it says instead, nothing is read from it.
_OF_REMOTE = (
    _Row(
        "is not authorized to |User permission denied|^Gitea: Unauthorized"  # Gitea and Forgejo
        "|^FATAL: . .* DENIED by |^FATAL: .*access .*DENIED"  # gitolite
        "|[Rr]epository access denied|^(?:Forbidden|Unauthorized|Access denied)\\b"  # Bitbucket
        "|Public key authentication failed|^TF400813"  # Azure DevOps
        "|has enabled or enforced SAML SSO",  # GitHub
        _UNAUTHORIZED,
        "{source} refuses {credentials}{said}; have it allowed to read the repository, or write another there",
        anonymous="{source} may not be read without credentials{said}; set `credentials`",
    ),
    _NO_REPOSITORY,
    _Row(
        "access denied or repository not exported|[Rr]epository not found|[Rr]epository does not exist"
        "|could not be found or you don't have|^TF401019|You may not have access to this repository",
        _UNREACHABLE,
        "there is no repository at {source}, or it may not be read; correct `url`, or have it allowed",
        lasting=True,
    ),
)
_ROWS = {
    "file": (*_ON_THIS_MACHINE, *_ANYWHERE),
    "https": (*_ANYWHERE, *_HTTP),
    "http": (*_ANYWHERE, *_HTTP),
    "ssh": (*_ANYWHERE, *_SSH),
    "git": _ANYWHERE,
}


async def explained_fault(source: Source, output: Output, *, mirror: Path, program: GitProgram) -> GitFault:
    """Return the fault of a failed run in a mirror that talked to the source.

    Its words may be those of the remote, so the mirror counts as damaged only if our own checks find damage.
    """
    if not await asyncio.to_thread(is_mirror, mirror):
        return GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror of {source.url} is incomplete; {REBUILT}")
    own = "\n".join(_words(source, output).own)
    if (PRIVATE in own or str(mirror) in own) and await is_damaged(mirror, program):
        return GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror of {source.url} is damaged; {REBUILT}")
    fault = explain(source, output)
    if source.folder is None or fault.state is not RepositoryState.UNREACHABLE:
        return fault
    if "promisor remote" in output.stderr:  # a partial clone would have to fetch an object, which it must not
        return GitFault(
            RepositoryState.UNSUPPORTED_FORMAT,
            f"{source.url} is a partial clone that lacks objects of its history; "
            "fetch them there with `git fetch --refetch --no-filter`, or clone it whole",
        )
    message = await asyncio.to_thread(credentials.out_of_reach, source.url, source.folder)
    return fault if message is None else GitFault(RepositoryState.UNREACHABLE, message)


def explain(source: Source, output: Output) -> GitFault:
    """Return the fault of a failed run against a source, never one of our own mirror."""
    words = _words(source, output)
    given = _credentials(source.credentials)
    parts = {
        "source": source.url,
        "limit": source.max_bytes,
        "detail": _detail(words, output, is_local=source.is_local),
        "said": _in_parentheses(_said(words, output)),
        "credentials": given,
    }
    own = (*_notes(output), *words.own)
    fault = _found(_ROWS[_scheme(source)], own, parts, is_anonymous=not given)
    if fault is None and not source.is_local:
        fault = _found(_OF_REMOTE, words.remote, parts, is_anonymous=not given)
    if fault is None:
        fault = GitFault(
            RepositoryState.UNREACHABLE, f"{source.url} cannot be read ({parts['detail']}); mend that, and it is read"
        )
    fault.retry_after = output.retry_after
    return fault


def of_mirror(url: str, output: Output) -> GitFault:
    """Return the fault of a failed run on our own files alone: its words are git's own.

    If a signal ended it, that says nothing of the files: no damage, and it is tried again.
    """
    words = parse_words(output.stderr, scheme="file")
    detail = _detail(words, output)
    fault = _found(_ROWS["file"], words.own, {"source": url, "limit": 0, "detail": detail})
    if output.notes:
        fault = GitFault(
            RepositoryState.UNREACHABLE, f"the mirror of {url} cannot be read ({detail}); mend that, and it is read"
        )
    if fault is not None:
        return fault
    return GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror of {url} cannot be read ({detail}); {REBUILT}")


def vanished(source: Source, followed: Followed, output: Output) -> GitFault | None:
    """Return the fault if a fetch failed because what is followed is not there (any more); None for another cause."""
    words = _words(source, output)
    if followed.kind is RefKind.COMMIT and any("Server does not allow request for unadv" in line for line in words.own):
        return GitFault(
            RepositoryState.BRANCH_MISSING,
            f"{source.url} gives out no commit by its id; have the server allow it (uploadpack.allowAnySHA1InWant),"
            " or follow a branch or tag",
        )
    said = (*words.remote, *(line.removeprefix(_ERR) for line in words.own if line.startswith(_ERR)))
    if followed.kind is RefKind.COMMIT and f"upload-pack: not our ref {followed.name}" in said:
        return missing(source, followed)
    if any(line.startswith("fatal: couldn't find remote ref ") for line in words.own):
        return GitFault(
            RepositoryState.BRANCH_MISSING,
            f"{followed.told} disappeared from {source.url} while it was fetched; put it back, or name another with "
            f"`{followed.setting}`",
        )
    return None


def missing(source: Source, followed: Followed) -> GitFault:
    """Return the fault if a remote that has commits does not have what is followed."""
    what = f"{followed.kind.value} {followed.name}"
    return GitFault(
        RepositoryState.BRANCH_MISSING, f"{source.url} has no {what}; name another with `{followed.setting}`"
    )


def no_commit(source: Source, followed: Followed) -> GitFault:
    """Return the fault if what is followed is there and is no commit, nor a tag of one."""
    return GitFault(
        RepositoryState.UNSUPPORTED_FORMAT,
        f"{followed.told} of {source.url} names no commit; let it name one, or another with `{followed.setting}`",
        of_head=True,
    )


def is_mirror(path: Path) -> bool:
    """Return whether all parts of a mirror are there. It was renamed into place whole, so a lacking one is damage."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()


async def is_damaged(path: Path, program: GitProgram) -> bool:
    """Return whether a part of a mirror, a ref or an object, is missing or broken.

    Checked twice, since another task may be joining its packs. A check that takes too long, or is ended by a signal,
    finds no damage.
    """
    return await _has_fault(path, program) and await _has_fault(path, program)


async def _has_fault(path: Path, program: GitProgram) -> bool:
    if not await asyncio.to_thread(is_mirror, path):
        return True
    packs = await asyncio.to_thread(lambda: sorted(map(str, (path / "objects/pack").glob("*.idx"))))
    checks = [
        ("for-each-ref", "--format=%(objecttype)", "--", PRIVATE),  # warns of broken refs, and ends well
        ("rev-list", "--objects", "--quiet", "--all"),
        *([("verify-pack", "--", *packs)] if packs else []),
    ]
    for check in checks:
        try:
            output = await program.run(f"--git-dir={path}", *check, limits=Limits(seconds=CHECK_SECONDS))
        except TimeoutError:
            continue
        if not output.truncated and output.status >= 0 and (output.status != 0 or output.stderr != ""):
            return True
    return False


# Lines that git adds whatever has happened, the frame around ssh's warnings, and progress.
_IDLE = re.compile(
    r"(?:fatal: )?(?:Could not read from remote repository|expected flush after|the remote end hung up upon initial)"
    r"|Please make sure you have|and the repository exists|@|\s*$|From "
    r"|(?:Enumerating|Counting|Compressing|Receiving|Unpacking|Indexing|Resolving|Total)\b"
)
# Complaints with which git quotes what it was sent, line ends and all.
_QUOTING = re.compile(r"fatal: (?:remote error: |(?:git[ -]|invalid|protocol|expected|unexpected|unknown|server)\b)")
_ENDING = re.compile(r"fatal: ")
_ERR = "fatal: remote error: "
# Git has nothing to say of a connection that ends but this: other complaints came from the server.
_BROKEN = re.compile(
    r"^fatal: (?:Could not read from remote repository|the remote end hung up|early EOF)", re.MULTILINE
)
_OF_GIT = re.compile(r"(?:fatal|error|fetch-pack): ")
_LAST_OF_GIT = re.compile(f"{_BROKEN.pattern}|^fetch-pack: ")
_OF_SSH = re.compile(
    r"ssh: |ssh -F none .*not found$|kex_exchange_identification: |Connection (?:closed|reset|timed out)\b"
    r"|Unable to negotiate with |\S+@\S+: Permission denied \(|Received disconnect from |client_loop: "
    r"|Read from remote host |Host key verification failed\.$|No \S+ host key is known for |@ +WARNING: [A-Z ]+! +@$"
    r"|Timeout, server "
)
_COMPLAINT = re.compile(r"(?:fatal|error): (.*)")
# The URL, and a number that is another each time, which would make the same fault another one.
_VARYING = re.compile(r"unable to access '[^']*': | after [0-9]+ (?:ms|milliseconds)\b")


class GitWords(NamedTuple):
    """Lines in the order in which they came: `own` ones of git, curl and ssh, and the remote's, without prefixes."""

    own: tuple[str, ...]
    remote: tuple[str, ...]


def parse_words(stderr: str, *, scheme: str) -> GitWords:
    """Tell the lines of git, curl and ssh from those of the remote."""
    own: list[str] = []
    remote: list[str] = []
    for line in stderr.split("\n"):
        # A carriage return ends a line of progress, and may be in the middle of what a remote says.
        pieces = line.split("\r")
        if line.startswith("remote:"):
            said = (piece.removeprefix("remote:").strip() for piece in pieces)
            remote += [piece for piece in said if not _IDLE.match(piece)]
        else:
            own += [piece for piece in pieces if piece]
    if scheme == "file":
        return GitWords(tuple(own), tuple(remote))
    is_broken = scheme == "ssh" and _BROKEN.search(stderr) is not None
    own, quoted = _cut(own, goes_on=is_broken)
    if scheme != "ssh":
        return GitWords(tuple(own), (*remote, *quoted))
    # The server's own standard error has no prefix.
    of_git = _LAST_OF_GIT if is_broken else _OF_GIT
    ours = [line for line in own if of_git.match(line) or _OF_SSH.match(line)]
    others = [line for line in own if line not in ours and not _IDLE.match(line)]
    return GitWords(tuple(ours), (*others, *remote, *quoted))


def _cut(lines: list[str], *, goes_on: bool) -> tuple[list[str], list[str]]:
    """Return the lines up to the first with which git ends, and what it quotes there: all that follows may be that.

    `goes_on`: a line like that may be the server's, with ours after it.
    """
    for number, line in enumerate(lines):
        if _QUOTING.match(line):
            rest = [line.removeprefix(_ERR).removeprefix("fatal: "), *lines[number + 1 :]]
            return lines[:number], [text for text in rest if not _IDLE.match(text)]
        if _ENDING.match(line) and not goes_on:
            return lines[: number + 1], []
    return lines, []


def _scheme(source: Source) -> str:
    return "file" if source.is_local else urlsplit(source.url).scheme


def _words(source: Source, output: Output) -> GitWords:
    return parse_words(output.stderr, scheme=_scheme(source))


def _credentials(given: Credentials) -> str:
    """Name the credentials and the file to correct; nothing when none are set."""
    for what, path, setting in (
        ("the credentials", given.password_file, PASSWORD_FILE),
        ("the credentials", given.token_file, TOKEN_FILE),
        ("the ssh key", given.ssh_key_file, SSH_KEY_FILE),
    ):
        if path is not None:
            return f"{what} in {path} (`{setting}`)"
    return ""


def _found(
    rows: Sequence[_Row], lines: Sequence[str], parts: Mapping[str, object], *, is_anonymous: bool = False
) -> GitFault | None:
    """Return the fault of the first row that fits; None when none does."""
    text = "\n".join(lines)
    for row in rows:
        if (found := re.search(row.pattern, text, re.MULTILINE)) is not None:
            groups = {name: visible(value[:DETAIL_CHARACTERS]) for name, value in found.groupdict().items()}
            sentence = row.anonymous if is_anonymous and row.anonymous else row.sentence
            return GitFault(row.state, sentence.format(**parts, **groups), lasting=row.lasting, of_head=row.of_head)
    return None


def _notes(output: Output) -> tuple[str, ...]:
    """Return our notes, without any secret: where a redirect leads is the remote's choice."""
    if not credentials.is_guessable(output.secrets):
        return tuple(credentials.redacted_text(note, output.secrets) for note in output.notes)
    return tuple(f"{REDIRECTED}{ANOTHER}" if note.startswith(REDIRECTED) else note for note in output.notes)


def _detail(words: GitWords, output: Output, *, is_local: bool = False) -> str:
    """Return what best tells the cause: git's complaint, its last line, a note, or the remote's words."""
    if is_local and output.stderr.strip():
        return next(iter(output.notes), UNSHOWN)
    own = [line for line in words.own if not _IDLE.match(line)]
    complaints = [found[1] for line in own if (found := _COMPLAINT.match(line))]
    text = next(iter((*complaints, *reversed(own))), "")
    told = _shown(_VARYING.sub("", text.strip()), output).rstrip(".")
    return told or next(iter(_notes(output)), "") or _said(words, output).rstrip(".") or SILENT


def _said(words: GitWords, output: Output) -> str:
    """Return what the remote said, as it is quoted; nothing when it was silent."""
    lines = [text for line in words.remote if (text := line.strip())]
    said = _shown(" ".join(lines[:SAID_LINES]), output)
    return said if said in {"", WITHHELD} else f"it says: {said}"


def _in_parentheses(text: str) -> str:
    return f" ({text})" if text else ""


def _shown(text: str, output: Output) -> str:
    """Return text that a remote may have written, fit for people: one line, bounded, without any secret of the run."""
    if text and credentials.is_guessable(output.secrets):
        return WITHHELD
    return visible(credentials.redacted_text(text, output.secrets)[:DETAIL_CHARACTERS])
