"""What a sign-in changes of a person: from what is decided to one amendment, its audit event and sentences for the log.

Belongs here: comparing what somebody has with what they are to have. Does not: deciding that (`admitting`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.access import changing
from reconciler.model.directory import Amendment, Audited, Directory, Invitation, Member, User
from reconciler.model.principals import Role

MOST_TOLD = 20  # rules, projects and the like in one event or sentence: whoever signs in chooses how many there are
LONGEST_TOLD = 200  # characters of one of them


@dataclass(frozen=True, slots=True)
class ProvisionedStanding:
    """What somebody is to have: all their roles, sentences on by which rules, and the invitations taken for it."""

    organization_admin: bool
    roles: Mapping[str, Role]
    rules: tuple[str, ...] = ()
    taken: tuple[Invitation, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether it opens nothing."""
        return not self.organization_admin and not self.roles


def provisioned_standing(directory: Directory, person: User | None) -> ProvisionedStanding:
    """What somebody has; nothing, for a new person."""
    if person is None:
        return ProvisionedStanding(organization_admin=False, roles={})
    return ProvisionedStanding(organization_admin=person.organization_admin, roles=directory.roles_of(person))


def roles_with_room(
    directory: Directory, *, before: ProvisionedStanding, after: ProvisionedStanding
) -> ProvisionedStanding:
    """What there is room for: of new memberships those that come first by name, while what is taken is taken."""
    room = changing.MOST_MEMBERSHIPS - sum(map(len, directory.members.values()))
    added = sorted(after.roles.keys() - before.roles.keys())
    left_out = set(added[max(0, room) :])
    return replace(
        after,
        roles={name: role for name, role in after.roles.items() if name not in left_out},
        taken=tuple(invitation for invitation in after.taken if invitation.project not in left_out),
    )


def sign_in_amendment(directory: Directory, person: User, *, after: ProvisionedStanding) -> Amendment | None:
    """The change that makes it so; None where nothing changes. `person` is as they are to be."""
    known = directory.user(person.id)
    before = provisioned_standing(directory, known)
    person = replace(person, organization_admin=after.organization_admin)
    roles = _changed(before.roles, after.roles)
    if person == known and not roles and not after.taken:
        return None
    return Amendment(
        Audited(
            "created" if known is None else "configured",
            "User",
            person.name,
            detail=_detail(known, person, roles=roles, after=after),
        ),
        users=() if person == known else (person,),
        members=tuple(Member(project, person.id, role) for project, role in roles.items()),
        ended_invitations=after.taken,
    )


def provisioning_sentence(directory: Directory, person: User, *, after: ProvisionedStanding) -> str:
    """What a sign-in changed of somebody's standing, and by which rule, for the log; empty where nothing did."""
    known = directory.user(person.id)
    before = provisioned_standing(directory, known)
    changes = [_said(project, role) for project, role in _changed(before.roles, after.roles).items()]
    if after.organization_admin != before.organization_admin:
        changes.insert(0, "organization admin" if after.organization_admin else "no organization admin any more")
    if not changes:
        return ""
    comes = "comes in for the first time" if known is None else "signs in"
    return " ".join((f"{person.name} {comes} and is now {listed_roles(changes)}.", *after.rules[:MOST_TOLD]))


def listed_roles(texts: Sequence[str]) -> str:
    """A few texts in one sentence, and how many more there are."""
    shown = [text if len(text) <= LONGEST_TOLD else text[:LONGEST_TOLD] + "…" for text in texts[:MOST_TOLD]]
    more = f" and {len(texts) - MOST_TOLD} more" if len(texts) > MOST_TOLD else ""
    return ", ".join(shown) + more


def _detail(
    known: User | None, person: User, *, roles: Mapping[str, Role | None], after: ProvisionedStanding
) -> dict[str, object]:
    """No address, name or claim stands in it: the audit is kept, and people are forgotten."""
    detail: dict[str, object] = {"by": list(after.rules[:MOST_TOLD])}
    if known is None or known.organization_admin != person.organization_admin:
        detail["organizationAdmin"] = person.organization_admin
    if roles:
        detail["roles"] = {project: None if role is None else role.value for project, role in roles.items()}
    if after.taken:
        detail["invitations"] = [invitation.id for invitation in after.taken]
    if known is not None and known.display_name != person.display_name:
        detail["displayName"] = "changed"
    if known is not None and known.email != person.email:
        detail["email"] = "changed"
    return detail


def _changed(before: Mapping[str, Role], after: Mapping[str, Role]) -> dict[str, Role | None]:
    """The projects where it changes, sorted, with the role there; None where there is none any more."""
    projects = sorted(before.keys() | after.keys())
    return {project: after.get(project) for project in projects if before.get(project) is not after.get(project)}


def _said(project: str, role: Role | None) -> str:
    return f"no member of {project} any more" if role is None else f"{role.value} of {project}"
