"""What may be proposed: the names that a caller may give, and which of them a commit is the tip of. Pure.

Belongs here: the rule and its sentences. Does not: asking a remote (`looking`), fetching (`second_mirrors`), who asks
(`proposing`).
"""

import re

from reconciler.git import refs
from reconciler.git.refs import OBJECT_ID, PEELED, Followed, RefKind, shown_name
from reconciler.model.errors import Refused

HEAD = "HEAD"

# A star at the end stands for one part of a name or more, elsewhere for one part. What a forge keeps beside these is
# not for everybody who may read the repository: notes, commits that a force-push removed, its own bookkeeping.
PATTERNS = (
    "refs/heads/*",
    "refs/tags/*",
    "refs/pull/*/head",
    "refs/pull/*/merge",
    "refs/merge-requests/*/head",
    "refs/merge-requests/*/merge",
)

_ALLOWED = tuple(
    re.compile(re.escape(pattern).replace(r"\*", ".+" if pattern.endswith("*") else "[^/]+")) for pattern in PATTERNS
)


class ProposalNotFound(Refused):
    """There is nothing under this name, or nothing that may be proposed: which of the two, nobody is told."""


def is_allowed_proposal(name: str) -> bool:
    """Whether the full name of a ref may be proposed."""
    return any(pattern.fullmatch(name) for pattern in _ALLOWED)


def wanted_refs(text: str, *, follows: Followed, url: str) -> Followed:
    """What a caller names: a ref in full, a commit by its id, or what the repository follows anyway.

    Raises Refused for what is no such name, NotFound for a ref that may not be proposed or that no remote can have.
    """
    if text == follows.full:
        return follows
    if OBJECT_ID.fullmatch(text):
        return Followed(RefKind.COMMIT, text)
    if not text.startswith("refs/") and text != HEAD:
        refs.check_name(text)
        told = (
            f"{shown_name(text)} is not the full name of a ref; write {shown_name(f'refs/heads/{text}')} for a branch"
        )
        raise Refused(f"{told}, {shown_name(f'refs/tags/{text}')} for a tag, or all 40 digits of a commit's id")
    if not is_allowed_proposal(text):
        raise proposal_not_found(text, url=url)
    try:
        return Followed(RefKind.REF, text)
    except Refused as why:  # no name that Git allows, so that no remote has it
        raise ProposalNotFound(why.message) from None


def proposal_not_found(text: str, *, url: str) -> ProposalNotFound:
    """The fault for a name of which nothing may be proposed, whyever that is."""
    names = f"{', '.join(PATTERNS[:-1])} or {PATTERNS[-1]}"
    told = f"{url} has nothing to propose at {shown_name(text)}"
    return ProposalNotFound(f"{told}; push it, or name one of {names}, or the commit that one is at")


def proposal_tip(listing: bytes, commit: str) -> str | None:
    """The ref that may be proposed and is at a commit, by what `git ls-remote` wrote; None when there is none.

    Of several the first in the order of the patterns, and of their names. A long listing is searched, and not taken
    apart.
    """
    lines = re.findall(rb"^%b\t([^\n]+)$" % commit.encode(), listing, re.MULTILINE)
    names = {line.decode("utf-8", "surrogateescape").removesuffix(PEELED) for line in lines}
    return min((name for name in names if _is_proposable(name)), key=_rank, default=None)


def _is_proposable(name: str) -> bool:
    try:
        refs.check_name(name)
    except Refused:
        return False
    return is_allowed_proposal(name)


def _rank(name: str) -> tuple[int, str]:
    return next(index for index, pattern in enumerate(_ALLOWED) if pattern.fullmatch(name)), name
