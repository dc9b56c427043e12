"""Deliveries of forges: a push was made, so look at the repository now.

Nobody shows a credential here; a delivery is signed with the secret of its repository. Whoever is not the forge learns
nothing: for a repository that there is not, one without a hook, a wrong signature and none at all, the same work is
done and the same answer given. Only the log tells them apart, and writes when the answer is on its way, so that not
even the time of an answer shows whether it wrote.

Of a delivery counts that it came. Its body is digested and not read: which branch was pushed, git says.

Belongs here: what a delivery leads to. Does not: signatures and what is remembered (`reconciler.hooks`).
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from starlette.responses import Response

from api import bodies, errors, queries
from api.answers import Empty
from api.calls import Call
from reconciler.git import hooks
from reconciler.git.hooks import SignatureCheck, SignatureVerdict

logger = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024  # of a body
LONGEST_NAME = 63  # characters of a name that the log repeats; no repository has a longer one
NO_KEY = bytes(32)  # compared with where there is no secret; what it signs is refused all the same
READ_SECONDS = 5.0  # for the file of a secret, whose disk may hang
# Threads of their own: whoever posts, signed or not, could have all of the others wait for a disk that hangs.
THREADS = ThreadPoolExecutor(4, thread_name_prefix="hook-secret")
DECOY = Path(hooks.__file__)  # read where there is no file of a secret, so that its reading shows in no time

UNSET = "`hook.secretFile` of this repository is not set"
WHY = {
    SignatureVerdict.NONE: "it has no signature; give the webhook the secret in `hook.secretFile`",
    SignatureVerdict.WRONG: "its signature is not made with the secret in `hook.secretFile`; give both sides the "
    "same one",
    SignatureVerdict.RIGHT: "",  # with a key that is none
    SignatureVerdict.LATE: f"it was signed more than {hooks.SECONDS // 60} minutes from now; set the clocks right",
}


async def deliver_hook(call: Call) -> Response:
    """POST /hooks/{repository}"""
    queries.none_known(call.query)
    name, headers = call.parameter("repository"), hooks.single_header(call.scope["headers"])
    file = call.services.repositories.hook_secret_file(name)
    key, fault = await _key(file)
    checking = SignatureCheck(headers, secret=key or NO_KEY)
    await bodies.pass_on(call, checking.update, limit=MAX_BYTES)
    verdict = checking.verdict(now=call.services.clock().timestamp())
    if key is None or verdict is not SignatureVerdict.RIGHT:
        # `call_soon`: after this request's answer is written.
        asyncio.get_running_loop().call_soon(_tell, call, name, fault or WHY[verdict])
        raise errors.Hidden(
            "There is no such hook, or this delivery is not signed with its secret; the service's log says which."
        )
    if not hooks.is_ping(headers):
        _hint(call, name, hooks.delivery_id(headers), checking.mark())
    return Empty(status=202, headers=((b"content-length", b"0"),))


async def _key(file: Path | None) -> tuple[bytes | None, str]:
    """The secret; None, with what is wrong, when there is none."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            found = await asyncio.get_running_loop().run_in_executor(THREADS, hooks.read_secret, file or DECOY)
    except hooks.UnusableSecret as unusable:
        return None, UNSET if file is None else f"{file} {unusable}; write the webhook's secret into it"
    except TimeoutError:
        slow = f"{file} was not read within {READ_SECONDS:g} seconds; look whether its disk hangs"
        return None, UNSET if file is None else slow
    return (None, UNSET) if file is None else (found, "")


def _hint(call: Call, name: str, *marks: bytes) -> None:
    now = asyncio.get_running_loop().time()
    if call.services.hooks.deliveries.is_new(name, *marks, now=now):
        call.services.repositories.hint(name)


def _tell(call: Call, name: str, why: str) -> None:
    """Log a refusal, once a minute of each repository, and of all that are unknown together."""
    is_known = call.services.repositories.project_of(name) is not None
    now = asyncio.get_running_loop().time()
    quiet = call.services.hooks.refusals.due(name if is_known else "", now=now)
    if quiet is None:
        return
    more = f" ({quiet} more were refused since the last line.)" if quiet else ""
    logger.warning(
        "A delivery from %s to /hooks/%s was refused: %s.%s",
        call.address,
        name[:LONGEST_NAME],
        why if is_known else "no repository of this name is watched",
        more,
        extra={"fields": {"repository": name[:LONGEST_NAME], "request": call.request}},
    )
