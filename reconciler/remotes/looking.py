"""A look: where the followed things of a remote are now, as `git ls-remote` tells it. Nothing is fetched, nothing is
written.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping

from reconciler.git import refs
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import Followed, Listing, RefHead, RefKind
from reconciler.remotes import explaining, listing
from reconciler.remotes.mirrors import Mirror
from reconciler.remotes.program import Limits
from reconciler.remotes.sources import Source

MOST_ASKED = 256  # names in one command line, so that it stays below what the system takes
HAS_COMMITS = "HEAD"  # asked for with all else: in most remotes it tells that they are not empty, without another call
PROBED_SECONDS = 60.0
PROBE_BYTES = 64 * 1024  # enough refs to know that there are some
SHA256_CHARACTERS = 64
LISTING_BYTES = 1 << 20


class PollProbe:
    """Of one remote: whether it is empty, which is a call of its own. Its answer holds for PROBED_SECONDS, or until
    something is found; `clock` is in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: tuple[float, bool] | None = None  # until when, and whether it is

    def forget(self) -> None:
        """Ask again the next time."""
        self._known = None

    async def is_empty(self, mirror: Mirror, source: Source) -> bool:
        """Whether it has no ref at all. Raises GitFault."""
        if self._known is None or self._clock() >= self._known[0]:
            output = await mirror.ask(source, "ls-remote", "--", source.operand, output_bytes=PROBE_BYTES)
            # To ask a folder here costs nobody anything.
            self._known = self._clock() + (0 if source.is_local else PROBED_SECONDS), not output.stdout
        return self._known[1]


async def poll(
    mirror: Mirror, source: Source, followed: Collection[Followed], *, probe: PollProbe
) -> Mapping[Followed, RefHead | Exception]:
    """Where each is, or the fault that is its own: branch-missing, empty, unsupported-format.

    Raises GitFault for what concerns them all. `source` gives the URL and the limits.
    """
    found: dict[Followed, RefHead | Exception] = {}
    has_commits = False
    asked = sorted(followed)
    for first in range(0, len(asked), MOST_ASKED):
        part = asked[first : first + MOST_ASKED]
        listed = await _listed(mirror, source, part)
        has_commits = has_commits or bool(listed.refs)
        heads = ((one, one.found(listed)) for one in part)
        found |= {one: _judged(source, head) for one, head in heads if head is not None}
    lacking = [one for one in asked if one not in found]
    if has_commits:
        probe.forget()
    is_empty = bool(lacking) and not has_commits and await probe.is_empty(mirror, source)
    return found | {one: await _absent(mirror, source, one, is_empty=is_empty) for one in lacking}


async def _listed(mirror: Mirror, source: Source, asked: Collection[Followed]) -> Listing:
    if source.is_local and (found := await _listed_here(mirror, source, asked)) is not None:
        return found
    patterns = dict.fromkeys(pattern for one in asked for pattern in (*one.patterns, HAS_COMMITS))
    output = await mirror.ask(source, "ls-remote", "--symref", "--", source.operand, *patterns)
    if output.truncated:
        raise GitFault(
            RepositoryState.UNSUPPORTED_FORMAT,
            f"{source.url} has too many refs whose names end like what is followed; remove some of them",
        )
    return refs.parse_listing(output.stdout)


async def _listed_here(mirror: Mirror, source: Source, asked: Collection[Followed]) -> Listing | None:
    """The same of a repository on this machine, for half of the time; None when `ls-remote` is to try and explain."""
    names = dict.fromkeys((HAS_COMMITS, *(one.full for one in asked)))
    output = await mirror.ask_apart(
        source, *listing.COMMAND, source.operand, stdin=listing.listing_request(names), output_bytes=LISTING_BYTES
    )
    if output.status == 0 and not output.truncated:
        with contextlib.suppress(ValueError):
            return listing.parse_listing(output.stdout)
    return None


def _judged(source: Source, head: RefHead) -> RefHead | Exception:
    if len(head.commit) == SHA256_CHARACTERS:
        return GitFault(
            RepositoryState.UNSUPPORTED_FORMAT,
            f"{source.url} uses SHA-256 object names, which are not supported; convert it to SHA-1",
        )
    return head


async def _absent(mirror: Mirror, source: Source, one: Followed, *, is_empty: bool) -> GitFault:
    """Why a look did not find it: there is no commit at all, or not this name."""
    if is_empty:
        return GitFault(RepositoryState.EMPTY, f"{source.url} has no commit yet; commit something to it")
    return await _no_head(mirror, source) if one.kind is RefKind.HEAD else explaining.missing(source, one)


async def _no_head(mirror: Mirror, source: Source) -> GitFault:
    unborn = await _unborn(mirror, source)
    return GitFault(
        RepositoryState.BRANCH_MISSING,
        f"the HEAD of {source.url} names {unborn}, which does not exist; name another with `branch`",
    )


async def _unborn(mirror: Mirror, source: Source) -> str:
    """The branch that a HEAD without commit names: `ls-remote` does not tell, and only a folder here can be asked."""
    if source.folder is not None:
        limits = Limits(seconds=source.timeout)
        arguments = ("-C", str(source.folder), "symbolic-ref", "--short", "HEAD")
        with contextlib.suppress(TimeoutError):
            output = await mirror.program.run(*arguments, limits=limits)
            name = output.stdout.decode("utf-8", "replace").strip()
            if output.status == 0 and name.isprintable():
                return f"the branch {name}"
    return "a branch"
