"""People at the door, for tests: what a provider says of them, and invitations that wait for them."""

from dataclasses import replace
from typing import Any

from reconciler.auth import changes
from reconciler.auth.admission import Admission, Arrival
from reconciler.model.directory import Directory, Invitation, ProvedIdentity, ProviderIdentity, User, amended
from reconciler.model.principals import Role
from reconciler.settings.models import OIDC
from tests.auth import directories

ISSUER = "https://id.example"
VERIFIED: dict[str, Any] = {"email": "noa@example.com", "email_verified": True}
VIEWER: dict[str, Any] = {"service_projects": "payments"}  # claims that grant the role viewer of payments
ADMIN: dict[str, Any] = {"service_org_admin": "true"}
UNREADABLE: dict[str, Any] = {"service_projects": 7}


def policy(*, first_claim: str = "", first_value: str = "", disable_invitations: bool = False) -> OIDC:
    """The settings about letting people in."""
    first = {"claim": first_claim, "value": first_value}
    return OIDC.model_validate({"firstAdmin": first, "disableInvitations": disable_invitations})


POLICY = policy()
CLAIMS_DECIDE = policy(disable_invitations=True)


def proved(subject: str = "noa", **claims: object) -> ProvedIdentity:
    """The content of a checked ID token."""
    return ProvedIdentity(
        ProviderIdentity(ISSUER, subject), {"iss": ISSUER, "sub": subject, **claims}, id_token="canary-id-token"
    )


def arrival(subject: str = "noa", *, code: str = "", now: str = directories.AT, **claims: object) -> Arrival:
    """Somebody at the door; a new person's id follows from the subject."""
    return Arrival(proved(subject, **claims), code=code, id=f"id-{subject}", now=now)


def known(name: str, *, organization_admin: bool = False) -> User:
    """Somebody who came in before; their subject is the name."""
    user = directories.user(name, organization_admin=organization_admin)
    return replace(user, identity=ProviderIdentity(ISSUER, name))


def directory(*invitations: Invitation) -> Directory:
    """As `directories.directory`, of people whom the provider knows by their names."""
    plain = directories.directory()
    users = {name: known(name, organization_admin=user.organization_admin) for name, user in plain.users.items()}
    return replace(plain, users=users, invitations={one.id: one for one in invitations})


def code(number: int) -> str:
    """A code, another one for each number."""
    return changes.make_code(number.to_bytes(changes.CODE_RANDOM_BYTES, "little"))


def invitation(
    identifier: str = "I1",
    *,
    code: str = "",
    email: str = "",
    project: str = "payments",
    role: Role = Role.USER,
    created_by: str = "user:ada",
    expires_at: str = directories.LATER,
) -> Invitation:
    """One that waits; `ada` made it, who is an admin of payments."""
    return Invitation(
        id=identifier,
        project=project,
        role=role,
        created_at=directories.AT,
        created_by=created_by,
        expires_at=expires_at,
        digest=changes.code_digest(code) if code else None,
        email=email,
    )


def after(directory: Directory, admission: Admission) -> Directory:
    """The directory once it is written."""
    return directory if admission.amendment is None else amended(directory, admission.amendment)
