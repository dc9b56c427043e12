"""What claims and groups are called, for those who rename them (`auth.oidc.customClaims`).

Belongs here: the names, their defaults, and taking them out of the settings. Does not: what the claims mean (`claims`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the settings' library takes long, and a name needs none of it
    from reconciler.settings.models import CustomClaims


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """What claims and groups are called. A claim is a key of the ID token itself, not a path into it, and its name is
    compared exactly; a group's name in any case.
    """

    groups: str = "groups"
    group_ids: str = "group_ids"
    roles: str = "roles"
    organization_admin: str = "service_org_admin"
    projects: str = "service_projects"
    default_role: str = "service_default_role"
    org_admin_group: str = "service-org-admin"
    projects_group_prefix: str = "service-projects-"
    admin_group: str = "service-admin"
    user_group: str = "service-user"
    viewer_group: str = "service-viewer"


def claim_names(custom: "CustomClaims") -> ClaimNames:
    """The names that the settings give; one that is left out has its default there."""
    return ClaimNames(
        groups=custom.groups,
        group_ids=custom.group_ids,
        roles=custom.roles,
        organization_admin=custom.organization_admin,
        projects=custom.projects,
        default_role=custom.default_role,
        org_admin_group=custom.org_admin_group_name,
        projects_group_prefix=custom.projects_group_prefix,
        admin_group=custom.admin_group_name,
        user_group=custom.user_group_name,
        viewer_group=custom.viewer_group_name,
    )
