"""What an ID token says of a person besides their roles: what to call them, and an e-mail address that is theirs.

Belongs here: reading the standard claims (OpenID Connect Core 1.0, 5.1). Does not: who they are (`identities`), what
they may (`claims`). All of it is what somebody else says: it is shown, and none of it tells one person from another.
"""

import hashlib
import re
from collections.abc import Collection, Mapping

from reconciler.access import changing, inviting
from reconciler.model import directory
from reconciler.model.directory import ProvedIdentity, ProviderIdentity

_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # of which no line of text is made
_HASHED = 12  # hexadecimal digits of a name that nobody gave


def verified_email(claims: Mapping[str, object]) -> str:
    """The address that the provider vouches for, in lower case; empty for none, and for one that we do not take.

    Only JSON `true` vouches: what else means it is the provider's own, and an address admits people.
    """
    email = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str):
        return ""
    return inviting.invited_address(email) or ""


def has_unverified_email(claims: Mapping[str, object]) -> bool:
    """Whether there is an address, and the provider does not vouch for it."""
    return bool(claims.get("email")) and claims.get("email_verified") is not True


def display_name(claims: Mapping[str, object], *, before: str = "") -> str:
    """What people call them, one line; as it was before where the token does not say."""
    name = claims.get("name")
    text = _UNSHOWN.sub("", name).strip() if isinstance(name, str) else ""
    return text[: changing.LONGEST_TEXT].strip() or before


def user_name(proved: ProvedIdentity, *, taken: Collection[str]) -> str:
    """How a new person is called from now on: by a verified address, else by `preferred_username`, else by a name made
    of the identity; with a number behind it when somebody is called so already.
    """
    first = _wanted(proved)
    others = {one.lower() for one in taken}  # two that differ in case alone would be taken for each other
    number, found = 1, first
    while found.lower() in others:
        number += 1
        ending = f"-{number}"
        found = first[: changing.LONGEST_NAME - len(ending)] + ending
    return found


def _wanted(proved: ProvedIdentity) -> str:
    preferred = proved.claims.get("preferred_username")
    # What looks like an address would be taken for one that the provider vouches for, by whoever gives roles by name.
    unlike = preferred.partition("@")[0] if isinstance(preferred, str) else None
    for text in (verified_email(proved.claims), unlike):
        if isinstance(text, str) and changing.is_name(text) and not _has_credential(text):
            return text
    return "person-" + _hashed(proved.identity)


def _has_credential(text: str) -> bool:
    """Whether a key or a code of ours stands in it: no URL may hold it, so that nobody could remove whoever had it."""
    return directory.holds_key(text) or inviting.holds_code(text)


def _hashed(identity: ProviderIdentity) -> str:
    text = f"{identity.issuer}\0{identity.subject}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:_HASHED]
