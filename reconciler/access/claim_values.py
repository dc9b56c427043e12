"""Reading one claim: its JSON type, its entries, and how many there may be.

Belongs here: what is missing, what is a text or a list of texts, and refusing the rest (direct claims 7). Does not:
what a claim means (`claim_reading`).

A claim that is null counts as missing (OpenID Connect Core 1.0, 5.3.2), and so does a text that is empty or blank.
"""

from collections.abc import Mapping

from reconciler.model.text import visible

MOST_ENTRIES = 10_000  # of one claim; as many as there may be projects

_ELSEWHERE = "_claim_names"


class UnfitClaim(Exception):
    """A claim that cannot be parsed: one sentence, with its name and nothing of its value."""


def claim_text(claims: Mapping[str, object], name: str) -> str:
    """The text of a claim as it stands; empty when it is missing. Raises Unfit."""
    value = _value(claims, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnfitClaim(f"The claim {visible(name)} must be a text")
    return value if value.strip() else ""


def claim_texts(claims: Mapping[str, object], name: str) -> tuple[str, ...]:
    """The entries of a claim that is a list of texts, or one text with commas; none when it is missing. In their order,
    trimmed, without those that are blank. Raises Unfit.
    """
    value = _value(claims, name)
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(one for one in split_claim(value, name) if one)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UnfitClaim(f"The claim {visible(name)} must be a text or a list of texts")
    _is_bounded(len(value), name)
    # Not at commas: a directory's names have them (`cn=admins,dc=example`), and a list needs none.
    return tuple(one for each in value if (one := each.strip()))


def split_claim(value: str, name: str) -> tuple[str, ...]:
    """What stands between the commas of a text, trimmed, blank or not. Raises Unfit for more than there may be."""
    _is_bounded(value.count(",") + 1, name)
    return tuple(one.strip() for one in value.split(","))


def _value(claims: Mapping[str, object], name: str) -> object:
    value = claims.get(name)
    # A distributed claim is not in the token (OpenID Connect Core 1.0, 5.6.2). Some providers move groups there when
    # somebody has many: to take that for none would take away what they have.
    elsewhere = claims.get(_ELSEWHERE)
    if value is None and isinstance(elsewhere, dict) and name in elsewhere:
        raise UnfitClaim(f"The claim {visible(name)} must be in the token, and the provider only refers to it")
    return value


def _is_bounded(count: int, name: str) -> None:
    if count > MOST_ENTRIES:
        raise UnfitClaim(f"The claim {visible(name)} must not have more than {MOST_ENTRIES:,} entries")
