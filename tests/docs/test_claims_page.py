"""docs/claims.md: each example grants what stands beside it, names are ours."""

import json
import re
from collections.abc import Mapping

import pytest
import yaml

from reconciler.auth import claims
from reconciler.auth.claims import ClaimRule, GrantedRoles, UnreadableClaims
from reconciler.settings.models import CustomClaims
from reconciler.settings.scalars import topic_key
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/claims.md")
PROJECTS = ("payments", "search", "shop")
DIRECT = pages.table(pages.section(PAGE, "Direct claims"))
GROUPS = pages.table(pages.section(PAGE, "Groups and roles"))


def told(found: GrantedRoles | UnreadableClaims) -> str:
    """A decision as the tables of the page put it."""
    if isinstance(found, UnreadableClaims):
        return "no change"
    if found.organization_admin:
        return "organization admin"
    return ", ".join(f"{project}: {role}" for project, role in found.roles.items()) or "nothing"


def granted(text: str, names: CustomClaims | None = None) -> GrantedRoles | UnreadableClaims:
    given: Mapping[str, object] = json.loads(text.strip("`"))
    return claims.granted_roles(given, names or CustomClaims(), projects=PROJECTS)


@pytest.mark.parametrize("row", [*DIRECT, *GROUPS], ids=lambda row: row["claims"])
def test_an_example_grants_what_stands_beside_it(row: dict[str, str]) -> None:
    assert told(granted(row["claims"])) == row["grant"]


def test_every_rule_stands_on_the_page() -> None:
    numbered = {f"direct claims {row['rule']}" for row in DIRECT} | {
        f"groups and roles {row['rule']}" for row in GROUPS
    }
    assert numbered == set(ClaimRule) - {ClaimRule.GROUP_IDS}


def test_the_first_example_grants_what_the_page_says() -> None:
    [example] = pages.blocks(PAGE, "json")
    found = re.search(r"they grant (`[^.]+)\.", " ".join(PAGE.split()))
    assert found is not None
    assert told(granted(example)) == ", ".join(
        f"{project}: {role}" for role, project in re.findall(r"`(\w+)` in (\w+)", found[1])
    )


def test_every_claim_is_explained() -> None:
    names = CustomClaims()
    rows = [row["claim"].strip("`") for row in pages.table(pages.section(PAGE, "The claims"))]
    assert sorted(rows) == sorted(
        (names.organization_admin, names.projects, names.default_role, names.groups, names.group_ids, names.roles)
    )


def test_the_names_and_their_defaults_are_those_of_the_settings() -> None:
    defaults = {topic_key(name): str(value) for name, value in CustomClaims().model_dump().items()}
    rows = pages.table(pages.section(PAGE, "Renaming"))
    assert {row["key"].strip("`"): row["default"].strip("`") for row in rows} == defaults


def test_the_renamed_claims_grant_what_the_page_says() -> None:
    [settings] = pages.blocks(PAGE, "yaml")
    custom = CustomClaims(**yaml.safe_load(settings)["auth"]["oidc"]["customClaims"])
    section = " ".join(pages.section(PAGE, "Renaming").split())
    found = re.search(r"the claims (`[^`]+`) grant `(\w+)` in (\w+)\.", section)
    assert found is not None
    assert told(granted(found[1], custom)) == f"{found[3]}: {found[2]}"


def test_the_limit_is_the_program_s() -> None:
    assert f"| How many entries may a claim have? | {claims.MOST_ENTRIES:,}; more cannot be read |" in PAGE
