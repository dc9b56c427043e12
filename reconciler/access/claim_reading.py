"""Claims of an ID token as they were read: what is set, before it is decided what that grants.

Belongs here: each claim by its name, and what is skipped in it. Does not: the types of JSON (`claim_values`), what the
claims grant together (`claims`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.access import claim_entries, claim_values
from reconciler.access.claim_entries import ProjectEntry
from reconciler.access.claim_names import ClaimNames
from reconciler.access.claim_rules import ClaimRule
from reconciler.access.claim_values import UnfitClaim
from reconciler.model.principals import Role
from reconciler.model.text import counted, visible


@dataclass(frozen=True, slots=True)
class ReadClaims:
    """What claims say. `default_role` is None when it is not set; `entries` are of `service_projects`; `groups` are
    those that count, `group_ids` where there are no others; `notes` are sentences about what was skipped.
    """

    default_role: Role | None
    entries: tuple[ProjectEntry, ...]
    groups: tuple[str, ...]
    roles: tuple[str, ...]
    notes: tuple[str, ...]


def claims_grant_organization_admin(claims: Mapping[str, object], names: ClaimNames) -> bool:
    """Whether a claim makes one (direct claims 2). Anything but the two words is no answer, and is not taken for one.
    Raises Unfit.
    """
    text = claim_values.claim_text(claims, names.organization_admin)
    if text not in ("", "true", "false"):
        claim = visible(names.organization_admin)
        raise UnfitClaim(f'The claim {claim} must be the text "true" or "false"')
    return text == "true"


def read_claims(claims: Mapping[str, object], names: ClaimNames) -> ReadClaims:
    """Everything but that claim. Raises Unfit for any that cannot be parsed, whether or not it would count."""
    default_role, of_role = _default_role(claims, names)
    entries, of_entries = _entries(claims, names)
    groups, of_groups = _groups(claims, names)
    return ReadClaims(
        default_role=default_role,
        entries=entries,
        groups=groups,
        roles=claim_values.claim_texts(claims, names.roles),
        notes=(*of_role, *of_entries, *of_groups),
    )


def _default_role(claims: Mapping[str, object], names: ClaimNames) -> tuple[Role | None, list[str]]:
    """Direct claims 5: a role that does not exist is `viewer`, and set."""
    text = claim_values.claim_text(claims, names.default_role).strip()
    if not text:
        return None, []
    note = f"{visible(names.default_role)} names no role that exists, which counts as viewer ({ClaimRule.DIRECT_5})."
    return claim_entries.entry_role(text), [] if claim_entries.is_role(text) else [note]


def _entries(claims: Mapping[str, object], names: ClaimNames) -> tuple[tuple[ProjectEntry, ...], list[str]]:
    """Direct claims 3, 5 and 7: what is malformed is skipped, unless there is nothing else."""
    text = claim_values.claim_text(claims, names.projects)
    if not text:
        return (), []
    found = [
        claim_entries.project_entry(one, rule=ClaimRule.DIRECT_3)
        for one in claim_values.split_claim(text, names.projects)
    ]
    good = tuple(one for one in found if one is not None)
    if not good:
        raise UnfitClaim(f"The claim {visible(names.projects)} must have an entry that is not malformed")
    skipped = counted(found.count(None), "malformed entry", "malformed entries")
    note = f"Skipped: {skipped} of {visible(names.projects)} ({ClaimRule.DIRECT_5})."
    return good, [note] if len(good) < len(found) else []


def _groups(claims: Mapping[str, object], names: ClaimNames) -> tuple[tuple[str, ...], list[str]]:
    """The groups, or else the group ids."""
    groups = claim_values.claim_texts(claims, names.groups)
    if groups:
        return groups, []
    ids = claim_values.claim_texts(claims, names.group_ids)
    note = f"{visible(names.groups)} has no entry, so {visible(names.group_ids)} counts ({ClaimRule.GROUP_IDS})."
    return ids, [note] if ids else []
