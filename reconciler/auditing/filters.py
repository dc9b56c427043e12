"""What events may be asked for by: the kinds, actions and actors that there are. Pure.

Belongs here: what a person means by one, and the sentence for what is none. Does not: finding events (the store).

Whoever mistypes must not take "nothing happened" for an answer. What is of the right form may be gone and have events
all the same: somebody who was removed, a key that was revoked, a repository that is watched no more.
"""

import re

from reconciler.model import names

OTHERS = (  # what events tell of beside resources
    "Authentication",
    "Invitation",
    "Key",
    "Member",
    "Project",
    "Repository",
    "Request",
    "Session",
    "Store",
    "User",
)
KINDS = (*(kind.name for kind in names.KINDS), *OTHERS)
ACTIONS = (
    "approved",
    "configured",
    "created",
    "deleted",
    "discarded",
    "redacted",
    "refused",
    "replayed",
    "restored",
    "resumed",
    "signed-in",
    "signed-out",
    "suspended",
)
ACTORS = ("others", "settings", "sign-in", "system", "unknown")  # who is no single somebody
_ULID = "[0-9A-HJKMNP-TV-Z]{26}"
_ACTOR = re.compile(rf"(?:{'|'.join(ACTORS)})|(?:git|machine|user):.+|key:(?:SERVICE_API_KEY|{_ULID})", re.DOTALL)


class NoSuchFilter(ValueError):
    """Nothing has it; the message is what stands behind the name of the filter."""


def kind_filter(text: str) -> str:
    """The kind as events have it: any case, and of resources all forms that paths take. Raises NotThere."""
    found = names.find_kind(text)
    if found is not None:
        return found.name
    other = next((name for name in OTHERS if name.lower() == text.lower()), None)
    if other is None:
        raise NoSuchFilter(f"is no kind of what events tell of; there are {_listed(KINDS)}.")
    return other


def action_filter(text: str) -> str:
    """The action as events have it. Raises NotThere."""
    if text.lower() not in ACTIONS:
        raise NoSuchFilter(f"is no action; there are {_listed(ACTIONS)}.")
    return text.lower()


def actor_filter(text: str) -> str:
    """Somebody who can have done something. Raises NotThere."""
    if _ACTOR.fullmatch(text) is not None:
        return text
    if text.startswith("key:"):
        raise NoSuchFilter("is no key: they are named by their ids, as `key:01M7Z5EW4Q8Z2S0T9V1X3Y5A7C`.")
    raise NoSuchFilter(
        "is nobody; write `user:` before the name of a person, `git:` before that of a repository, `key:` before the "
        f"id of a key, `machine:` before an account of the service's machine, or one of {_listed(ACTORS)}."
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
