"""Who lost something by a change: whatever they signed in with before has ended.

Belongs here: the comparison, and the count that carries it. Does not: sessions (`sessions`), writing it down.

The count (`User.losses`) is written with what was taken, in one transaction, and a session has the one that it began
with. So one step ends both, whatever becomes of the file with the sessions: a process that dies in between leaves
neither half, and a disk that takes no more sessions keeps nobody from being removed.
"""

from collections.abc import Iterator
from dataclasses import replace

from reconciler.model.directory import Amendment, Directory, User, amended
from reconciler.model.principals import OF_ROLE, Permission, Role

NOTHING: frozenset[Permission] = frozenset()


def has_lost_access(one: User, *, before: Directory, after: Directory) -> bool:
    """Whether somebody of `before` is gone, may do less in some project or in the organization, or has another password
    or identity.
    """
    user = after.user(one.id)
    if user is None or (user.password, user.identity) != (one.password, one.identity):
        return True
    if user.organization_admin or one.organization_admin:
        return not user.organization_admin
    roles = after.roles_of(user)
    return any(not _permits(role) <= _permits(roles.get(project)) for project, role in before.roles_of(one).items())


def count_lost(directory: Directory, amendment: Amendment) -> Amendment:
    """The amendment with the losses that it brings counted, for everybody who stays.

    Whatever it says of losses itself does not matter: who made it may have seen an older directory.
    """
    more = {user.id: user for user in _counted(directory, amendment)}
    others = tuple(user for user in amendment.users if user.id not in more)
    return replace(amendment, users=(*others, *more.values())) if more else amendment


def _counted(directory: Directory, amendment: Amendment) -> Iterator[User]:
    """Those of the amendment, and those who lose a role by it: looking at everybody would cost more than the change."""
    touched = {user.id for user in amendment.users} | {member.user for member in amendment.members}
    known = [user for user in map(directory.user, sorted(touched)) if user is not None]
    after = amended(directory, amendment) if known else directory
    for before in known:
        user = after.user(before.id)
        losses = before.losses + has_lost_access(before, before=directory, after=after)
        if user is not None and losses != user.losses:
            yield replace(user, losses=losses)


def _permits(role: Role | None) -> frozenset[Permission]:
    return NOTHING if role is None else OF_ROLE[role]
