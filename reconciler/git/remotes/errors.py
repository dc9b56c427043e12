"""Git's standard error, and the fault that explains a failed run."""

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
from reconciler.git.remotes.error_table import BEFORE_PROXY, ENDED_BY, MIRROR, NOTED, OF_OWN, OF_SCHEME, GitErrorRow
from reconciler.git.remotes.program import GitProgram, Limits, Output
from reconciler.git.remotes.sources import Source
from reconciler.model.text import visible

# Whose words stand in git's standard error: git's, curl's and ssh's own, by which a fault is told, or the remote's.

# What git adds whatever has happened, the frame around ssh's warnings, and progress.
IDLE = re.compile(
    r"(?:fatal: )?(?:Could not read from remote repository|expected flush after|the remote end hung up upon initial)"
    r"|Please make sure you have|and the repository exists|@|\s*$|From "
    r"|(?:Enumerating|Counting|Compressing|Receiving|Unpacking|Indexing|Resolving|Total)\b"
)
# Complaints with which git quotes what it was sent, line ends and all.
_QUOTING = re.compile(r"fatal: (?:remote error: |(?:git[ -]|invalid|protocol|expected|unexpected|unknown|server)\b)")
_ENDING = re.compile(r"fatal: (?!cannot exec )")  # the program that askpass is says that before git does
_ERR = "fatal: remote error: "
# Git has nothing to say of a connection that ends but this: what else there is like a complaint came from the server.
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
_LOAD_KEY = 'Load key "{}": '


class GitWords(NamedTuple):
    """Lines in the order in which they came: `own` ones of git, curl and ssh, and the remote's, without prefixes."""

    own: tuple[str, ...]
    remote: tuple[str, ...]

    def said(self) -> tuple[str, ...]:
        """What the remote says, also where git quotes the one on this machine, which is a git of ours."""
        return (*self.remote, *(line.removeprefix(_ERR) for line in self.own if line.startswith(_ERR)))


def parse_words(stderr: str, *, scheme: str, key: Path | None = None) -> GitWords:
    """Whose words these are. `scheme` is that of the URL, `key` the file of the one that ssh shows."""
    own, remote = _prefixed(stderr)
    if scheme == "file":
        return GitWords(tuple(own), tuple(remote))
    is_broken = scheme == "ssh" and _BROKEN.search(stderr) is not None
    own, quoted = _cut(own, goes_on=is_broken)
    if scheme != "ssh":
        return GitWords(tuple(own), tuple(remote + quoted))
    return _over_ssh(own, remote + quoted, is_broken=is_broken, key=key)


def _prefixed(stderr: str) -> tuple[list[str], list[str]]:
    """The lines without `remote:` before them, and those with it.

    A carriage return ends a line of progress, and may stand in the middle of what a remote says.
    """
    own: list[str] = []
    remote: list[str] = []
    for line in stderr.split("\n"):
        if line.startswith("remote:"):
            pieces = [piece.removeprefix("remote:").strip() for piece in line.split("\r")]
            remote += [piece for piece in pieces if not IDLE.match(piece)]
        else:
            own += [piece for piece in line.split("\r") if piece]
    return own, remote


def _cut(lines: list[str], *, goes_on: bool) -> tuple[list[str], list[str]]:
    """The lines to the first with which git ends, and what it quotes there. Whatever follows may belong to that.

    `goes_on`: a line like that may be the server's, with ours after it.
    """
    for number, line in enumerate(lines):
        if _QUOTING.match(line):
            rest = [line.removeprefix(_ERR).removeprefix("fatal: "), *lines[number + 1 :]]
            return lines[:number], [text for text in rest if not IDLE.match(text)]
        if _ENDING.match(line) and not goes_on:
            return lines[: number + 1], []
    return lines, []


def _over_ssh(lines: list[str], remote: list[str], *, is_broken: bool, key: Path | None) -> GitWords:
    """The server's own standard error has no prefix."""
    load_key = _LOAD_KEY.format(key)
    of_git = _LAST_OF_GIT if is_broken else _OF_GIT
    own = [
        line
        for line in lines
        if of_git.match(line) or _OF_SSH.match(line) or (key is not None and line.startswith(load_key))
    ]
    others = [line for line in lines if line not in own and not IDLE.match(line)]
    return GitWords(tuple(own), tuple(others + remote))


# Whether a mirror is damaged, by looking into it: what a remote, or a program on it, says of that counts for nothing.

CHECK_SECONDS = 300.0  # for each git of it, which reads all that the mirror holds


def is_mirror(path: Path) -> bool:
    """Whether what `git init` makes is all there. It was renamed into place whole, so a part missing is damage."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()


async def is_damaged(path: Path, program: GitProgram) -> bool:
    """Whether a mirror cannot be used as it is: a part of it, a ref or an object is missing or broken.

    Found twice, since another task may be joining its packs. What takes too long, or is ended by a signal, is not
    known, so it is no damage.
    """
    return await _has_fault(path, program) and await _has_fault(path, program)


async def _has_fault(path: Path, program: GitProgram) -> bool:
    if not await asyncio.to_thread(is_mirror, path):
        return True
    packs = await asyncio.to_thread(_packs, path)
    checks = (
        ("for-each-ref", "--format=%(objecttype)", "--", PRIVATE),  # warns of broken refs, and ends well
        ("rev-list", "--objects", "--quiet", "--all"),
        *((("verify-pack", "--", *packs),) if packs else ()),
    )
    for check in checks:
        if await _fails(path, program, check):
            return True
    return False


async def _fails(path: Path, program: GitProgram, check: tuple[str, ...]) -> bool:
    try:
        output = await program.run(f"--git-dir={path}", *check, limits=Limits(seconds=CHECK_SECONDS))
    except TimeoutError:
        return False
    is_whole = not output.truncated and output.status >= 0
    return is_whole and (output.status != 0 or output.stderr != "")


def _packs(path: Path) -> list[str]:
    return sorted(str(index) for index in (path / "objects/pack").glob("*.idx"))


# Why git could not do what it was told for a source, as a fault: its own words, and what they leave out.
#
# The words and what they mean are the table in `error_table`; here a row is chosen and its sentence filled, with what
# takes a look at the disk, or the knowledge of what is followed.

DETAIL_CHARACTERS = 200
# In place of git's words on a repository on this machine, which may quote a file that a link in it leads to.
UNSHOWN = "`git fsck` there says why"
SILENT = "git gave no reason"
SAID_LINES = 2

# In place of any words of a remote that may have a secret in them which would be known by what is left out.
WITHHELD = "its words are not shown"
ANOTHER = "another address"
REDIRECTED = "redirected to "  # how the note of it begins

# What git says of an object that a partial clone on this machine would have to fetch, which it must not.
PROMISED = "promisor remote"
NO_SUCH_REF = "fatal: couldn't find remote ref "
# What a server says of a commit that it does not have, and git of one that the server serves only by a ref.
NOT_OURS = "upload-pack: not our ref "
NOT_BY_ID = re.compile("(?:fatal|error): Server does not allow request for unadvertised object ")

_COMPLAINT = re.compile(r"(?:fatal|error): (.*)")
_URL = re.compile(r"unable to access '[^']*': ")
# Another number each time, which would make the same fault another one.
_VARYING = re.compile(r" after [0-9]+ (?:ms|milliseconds)\b")


async def explained_fault(source: Source, output: Output, *, mirror: Path, program: GitProgram) -> GitFault:
    """The fault behind a git program that talked to the source in a mirror, and failed.

    What it wrote may be the remote's own words, so that the mirror is damaged only if we find it so ourselves.
    """
    if not await asyncio.to_thread(is_mirror, mirror):
        return GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror of {source.url} is incomplete; {REBUILT}")
    if suspects(source, output, mirror=str(mirror)) and await is_damaged(mirror, program):
        return _damaged(source.url)
    fault = explain(source, output)
    return fault if source.folder is None else await _of_folder(source.url, source.folder, output, fault)


async def _of_folder(url: str, folder: Path, output: Output, fault: GitFault) -> GitFault:
    """The same fault, unless the folder tells more than git does."""
    if fault.state is not RepositoryState.UNREACHABLE:
        return fault
    if PROMISED in output.stderr:
        return GitFault(
            RepositoryState.UNSUPPORTED_FORMAT,
            f"{url} is a partial clone that lacks objects of its history; "
            "fetch them there with `git fetch --refetch --no-filter`, or clone it whole",
        )
    message = await asyncio.to_thread(credentials.out_of_reach, url, folder)
    return fault if message is None else GitFault(RepositoryState.UNREACHABLE, message)


def of_mirror(url: str, output: Output, *, mirror: Path) -> GitFault:
    """The fault behind a git program that worked on our own files alone, and failed: its words are its own.

    One that somebody ended tells nothing of them: that is no damage, and it is tried again.
    """
    words = parse_words(output.stderr, scheme="file")
    parts = {"source": url, "limit": 0, "detail": _detail(words, output)}
    if (ended := _known(ENDED_BY, GitWords(output.notes, ()), {**parts, "source": f"the mirror of {url}"})) is not None:
        return ended
    if (fault := _known(OF_OWN, words, parts)) is not None:
        return fault
    if str(mirror) in output.stderr:
        return _damaged(url)
    return GitFault(
        RepositoryState.MIRROR_CORRUPT, f"the mirror of {url} cannot be read ({parts['detail']}); {REBUILT}"
    )


def suspects(source: Source, output: Output, *, mirror: str) -> bool:
    """Whether what a git program wrote may be about our own mirror: reason enough to look into that. Pure."""
    words = _heard(source, output)
    own = "\n".join(words.own)
    if any(saying.pattern.search(own) for saying in MIRROR):
        return True
    return mirror in own and not any(saying.pattern.search(own) for saying in OF_SCHEME[_scheme(source)])


def vanished(source: Source, followed: Followed, output: Output) -> GitFault | None:
    """The fault when a fetch failed because what is followed is not there (any more); None when it is another cause."""
    words = _heard(source, output)
    if followed.kind is RefKind.COMMIT and any(map(NOT_BY_ID.match, words.own)):
        return GitFault(
            RepositoryState.BRANCH_MISSING,
            f"{source.url} gives out no commit by its id; have the server allow it (uploadpack.allowAnySHA1InWant),"
            " or follow a branch or tag",
        )
    if followed.kind is RefKind.COMMIT and NOT_OURS + followed.name in words.said():
        return missing(source, followed)
    if any(line.startswith(NO_SUCH_REF) for line in words.own):
        return GitFault(
            RepositoryState.BRANCH_MISSING,
            f"{followed.told} disappeared from {source.url} while it was fetched; put it back, or name another with "
            f"`{followed.setting}`",
        )
    return None


def missing(source: Source, followed: Followed) -> GitFault:
    """The fault when a remote that has commits does not have what is followed."""
    what = f"{followed.kind.value} {followed.name}"
    return GitFault(
        RepositoryState.BRANCH_MISSING, f"{source.url} has no {what}; name another with `{followed.setting}`"
    )


def no_commit(source: Source, followed: Followed) -> GitFault:
    """The fault when what is followed is there and is no commit, nor a tag of one."""
    return GitFault(
        RepositoryState.UNSUPPORTED_FORMAT,
        f"{followed.told} of {source.url} names no commit; let it name one, or another with `{followed.setting}`",
        of_head=True,
    )


def explain(source: Source, output: Output) -> GitFault:
    """The fault that a run of git ended with, never one of our own mirror: a remote may have written all that it says.

    The words mean what they mean; the secrets of the run are taken out of what is shown of them.
    """
    words = _heard(source, output)
    rows = OF_SCHEME[_scheme(source)]
    rows = (*BEFORE_PROXY, *rows) if source.credentials.proxy else rows
    detail = _detail(words, output, is_local=source.is_local)
    parts = {"source": source.url, "limit": source.max_bytes, "detail": detail, "said": _said(words, output)}
    credentials = _credentials(source.credentials)
    notes = GitWords(_notes(output), ())
    fault = (
        _known(NOTED, notes, parts)
        or _known(rows, words, {**parts, "credentials": credentials}, is_anonymous=not credentials)
        or _known(ENDED_BY, notes, parts)
        or GitFault(RepositoryState.UNREACHABLE, f"{source.url} cannot be read ({detail}); mend that, and it is read")
    )
    fault.retry_after = output.retry_after
    return fault


def _scheme(source: Source) -> str:
    return "file" if source.is_local else urlsplit(source.url).scheme


def _heard(source: Source, output: Output) -> GitWords:
    return parse_words(output.stderr, scheme=_scheme(source), key=source.credentials.ssh_key_file)


def _credentials(given: Credentials) -> str:
    """Which credentials, and the file to mend; nothing when none are set."""
    for what, path, setting in (
        ("the credentials", given.password_file, PASSWORD_FILE),
        ("the credentials", given.token_file, TOKEN_FILE),
        ("the ssh key", given.ssh_key_file, SSH_KEY_FILE),
    ):
        if path is not None:
            return f"{what} in {path} (`{setting}`)"
    return ""


def _notes(output: Output) -> tuple[str, ...]:
    """Our notes, without what a remote may have had put into them: a redirect leads where it likes."""
    if not credentials.is_guessable(output.secrets):
        return tuple(credentials.redacted_text(note, output.secrets) for note in output.notes)
    return tuple(f"{REDIRECTED}{ANOTHER}" if note.startswith(REDIRECTED) else note for note in output.notes)


def _known(
    sayings: Sequence[GitErrorRow], words: GitWords, parts: Mapping[str, object], *, is_anonymous: bool = False
) -> GitFault | None:
    """The fault that the first row which fits tells; None when none does."""
    own, remote = "\n".join(words.own), "\n".join(words.remote)
    for saying in sayings:
        if (found := saying.pattern.search(remote if saying.of_remote else own)) is not None:
            groups = {name: visible(text[:DETAIL_CHARACTERS]) for name, text in found.groupdict().items()}
            sentence = saying.anonymous if is_anonymous and saying.anonymous else saying.sentence
            message = sentence.format(**parts, **groups)
            return GitFault(saying.state, message, lasting=saying.lasting, of_head=saying.of_head)
    return None


def _damaged(url: str) -> GitFault:
    return GitFault(RepositoryState.MIRROR_CORRUPT, f"the mirror of {url} is damaged; {REBUILT}")


def _detail(words: GitWords, output: Output, *, is_local: bool = False) -> str:
    """What best tells the cause, fit to be shown: git's first complaint, the last that ssh says, or the remote."""
    if is_local:
        return UNSHOWN if output.stderr.strip() else SILENT
    own = [line for line in words.own if not IDLE.match(line)]
    complaints = [found[1] for line in own if (found := _COMPLAINT.match(line))]
    text = next(iter((*complaints, *reversed(own))), "")
    told = _shown(_VARYING.sub("", _URL.sub("", text.strip(), count=1)), output).rstrip(".")
    said = _quoted(words, output).rstrip(".")
    return told or (_says(said) if said else SILENT)


def _said(words: GitWords, output: Output) -> str:
    """What the remote said, in parentheses; nothing when it was silent."""
    said = _quoted(words, output)
    return f" ({_says(said)})" if said else ""


def _says(said: str) -> str:
    return said if said == WITHHELD else f"it says: {said}"


def _quoted(words: GitWords, output: Output) -> str:
    lines = [text for line in words.remote if (text := line.strip())]
    return _shown(" ".join(lines[:SAID_LINES]), output)


def _shown(text: str, output: Output) -> str:
    """Text that a remote may have written, as people may read it: one line, bounded, without any secret of the run."""
    if text and credentials.is_guessable(output.secrets):
        return WITHHELD
    return visible(credentials.redacted_text(text, output.secrets)[:DETAIL_CHARACTERS])
