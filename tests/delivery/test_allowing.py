"""Which variables a project may refer to, by the patterns of the settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery import secrets
from reconciler.settings.models import Secrets

DEFAULT = Secrets().env
NAMES = frozenset(
    {
        "DESTINATION_WEB__TOKEN",
        "DESTINATION_WEB__",
        "DESTINATION_WEB_SHOP__TOKEN",
        "DESTINATION_web__TOKEN",
        "DESTINATION_WEB_TOKEN",
        "XDESTINATION_WEB__TOKEN",
        "SERVICE_API_KEY",
        "service_api_key",
        "Service_WEB__x",
        "SERVICES",
        "PATH",
        "A B",
        "",
        "Ä",
    }
)


@pytest.mark.parametrize(
    ("patterns", "project", "found"),
    [
        (DEFAULT, "web", {"DESTINATION_WEB__TOKEN", "DESTINATION_WEB__"}),
        (DEFAULT, "web-shop", {"DESTINATION_WEB_SHOP__TOKEN"}),
        (DEFAULT, "default", set()),
        ([], "web", set()),
        (["PATH"], "web", {"PATH"}),
        (["path"], "web", set()),
        (["*_<PROJECT>__TOKEN", "P*H"], "web", {"DESTINATION_WEB__TOKEN", "XDESTINATION_WEB__TOKEN", "PATH"}),
        # The service's own match nothing, and neither does what cannot be written in a reference.
        (["*"], "web", set(NAMES) - {"SERVICE_API_KEY", "service_api_key", "Service_WEB__x", "A B", "", "Ä"}),
        (["SERVICE_*", "S*", "s*", "*_API_KEY"], "web", {"SERVICES"}),
        (["S*"], "web", {"SERVICES"}),
    ],
)
def test_a_project_may_see_what_matches(patterns: list[str], project: str, found: set[str]) -> None:
    assert secrets.allowed_variables(NAMES, patterns=patterns, project=project) == found


PROJECT = st.from_regex(r"[a-z0-9]{1,3}(-[a-z0-9]{1,3}){0,2}", fullmatch=True)


@given(PROJECT, PROJECT, st.from_regex(r"[A-Z0-9_]{1,8}", fullmatch=True))
def test_the_default_pattern_of_one_project_never_covers_what_another_calls_its_own(
    one: str, other: str, name: str
) -> None:
    variable = f"DESTINATION_{one.upper().replace('-', '_')}__{name.lstrip('_')}"
    seen = secrets.allowed_variables([variable], patterns=DEFAULT, project=other)
    assert seen == ({variable} if one == other else set())


@given(st.text(max_size=12), st.lists(st.text("ABSERVIC_*", max_size=12), max_size=3))
def test_whatever_the_pattern_the_services_own_are_never_seen(rest: str, patterns: list[str]) -> None:
    names = [f"SERVICE_{rest}", f"service_{rest}", f"Service_{rest}"]
    assert secrets.allowed_variables(names, patterns=["*", *patterns], project="default") == set()
