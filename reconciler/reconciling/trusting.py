"""Whether a head may be applied by its signature, and what is remembered of that.

Belongs here: when to ask again. Does not: asking (`remotes/verifying`), who asks the same (`remotes/sharing`), the
file of signers (`remotes/signers`). What is good is remembered, and not beyond the process: its first look asks again.
"""

from functools import partial
from pathlib import Path

from reconciler.git.refs import RefHead
from reconciler.git.remotes import verification
from reconciler.git.remotes.following import Following
from reconciler.git.remotes.verification import AllowedSigners
from reconciler.settings.bounded_io import BoundedIO


class SignatureTrust:
    """Of one repository. Without a file of signers, every head is trusted."""

    def __init__(self, signers_file: Path | None, following: Following) -> None:
        self._file = signers_file
        self._following = following
        self._asking = BoundedIO("the file of signers")
        self._good: tuple[str, str, str] | None = None  # commit and tag, and the digest of the file that said so

    async def has(self, head: RefHead) -> bool:
        """Whether the head was found good by the file of signers as it is now. Raises GitFault unsigned, Transient."""
        if self._file is None:
            return True
        allowed = await self._read(self._file)
        return self._good == (head.commit, head.tag, allowed.digest)

    async def check(self, head: RefHead) -> None:
        """Return when a head that the mirror holds is signed by one of the signers; asked once.

        Raises GitFault unsigned and mirror-corrupt, and Transient.
        """
        if self._file is None:
            return
        allowed = await self._read(self._file)
        verdict = (head.commit, head.tag, allowed.digest)
        if self._good != verdict:
            await self._following.verify(head, allowed)
            self._good = verdict

    async def _read(self, path: Path) -> AllowedSigners:
        return await self._asking.answer(partial(verification.read_signers, path))
