"""Names, labels and projects: what they may look like."""

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import schemas
from reconciler.resources import names

Rule = Callable[[str], str | None]

CASES: list[tuple[Rule, str, bool]] = [
    (names.name, "a", True),
    (names.name, "7", True),
    (names.name, "Siem-1_x.y", True),
    (names.name, "a" * 63, True),
    (names.name, "a" * 64, False),
    (names.name, "", False),
    (names.name, "-a", False),
    (names.name, "a-", False),
    (names.name, ".a", False),
    (names.name, "a_", False),
    (names.name, "a b", False),
    (names.name, "a/b", False),
    (names.name, "a:1", False),
    (names.name, "a\n", False),
    (names.name, "ä", False),
    (names.name, "\u0661", False),  # an Arabic digit
    (names.label_key, "team", True),
    (names.label_key, "service/prune", True),
    (names.label_key, "example.com/team_A", True),
    (names.label_key, f"{'p' * 253}/{'n' * 63}", True),
    (names.label_key, f"{'p' * 254}/n", False),
    (names.label_key, f"p/{'n' * 64}", False),
    (names.label_key, "Example.com/team", False),
    (names.label_key, "/team", False),
    (names.label_key, "a/b/c", False),
    (names.label_key, "a./b", False),
    (names.label_key, "a/", False),
    (names.label_key, "", False),
    (names.label_value, "", True),
    (names.label_value, "web", True),
    (names.label_value, "v" * 63, True),
    (names.label_value, "v" * 64, False),
    (names.label_value, "a b", False),
    (names.label_value, "-", False),
    (names.project, "default", True),
    (names.project, "team-a-1", True),
    (names.project, "p" * 63, True),
    (names.project, "p" * 64, False),
    (names.project, "Team", False),
    (names.project, "a--b", False),
    (names.project, "-a", False),
    (names.project, "a-", False),
    (names.project, "a_b", False),
    (names.project, "", False),
]

RULES: dict[Rule, str] = {
    names.name: names.NAME_RULE,
    names.label_key: names.LABEL_KEY_RULE,
    names.label_value: names.LABEL_VALUE_RULE,
    names.project: names.PROJECT_RULE,
}


@pytest.mark.parametrize(("rule", "text", "fits"), CASES)
def test_a_name_fits_or_the_rule_is_told(rule: Rule, text: str, fits: bool) -> None:
    assert rule(text) == (None if fits else RULES[rule])


@given(st.text(alphabet="aA0-_./\n é", max_size=66))
@example("a\n")
def test_the_schemas_and_these_rules_agree(text: str) -> None:
    definitions = schemas.load("envelope")["$defs"]
    name = definitions["metadata"]["properties"]["name"]
    key = definitions["labels"]["propertyNames"]
    value = definitions["labels"]["additionalProperties"]

    def fits(*patterns: str) -> bool:
        return all(re.fullmatch(pattern.removeprefix("^").removesuffix("$"), text) for pattern in patterns)

    assert (names.name(text) is None, names.label_key(text) is None, names.label_value(text) is None) == (
        fits(name["pattern"]),
        fits(key["pattern"], key["allOf"][0]["pattern"]),
        fits(value["pattern"]),
    )
    assert [part["errorMessage"] for part in (name, key, key["allOf"][0], value)] == [
        names.NAME_RULE,
        names.LABEL_KEY_RULE,
        names.LABEL_KEY_RULE,
        names.LABEL_VALUE_RULE,
    ]
