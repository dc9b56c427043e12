"""Names, labels and projects: what they may look like."""

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import schemas
from reconciler.model import names

Rule = Callable[[str], str | None]

CASES: list[tuple[Rule, str, bool]] = [
    (names.wrong_name, "a", True),
    (names.wrong_name, "7", True),
    (names.wrong_name, "Siem-1_x.y", True),
    (names.wrong_name, "a" * 63, True),
    (names.wrong_name, "a" * 64, False),
    (names.wrong_name, "", False),
    (names.wrong_name, "-a", False),
    (names.wrong_name, "a-", False),
    (names.wrong_name, ".a", False),
    (names.wrong_name, "a_", False),
    (names.wrong_name, "a b", False),
    (names.wrong_name, "a/b", False),
    (names.wrong_name, "a:1", False),
    (names.wrong_name, "a\n", False),
    (names.wrong_name, "ä", False),
    (names.wrong_name, "\u0661", False),  # an Arabic digit
    (names.wrong_label_key, "team", True),
    (names.wrong_label_key, "service/prune", True),
    (names.wrong_label_key, "example.com/team_A", True),
    (names.wrong_label_key, f"{'p' * 253}/{'n' * 63}", True),
    (names.wrong_label_key, f"{'p' * 254}/n", False),
    (names.wrong_label_key, f"p/{'n' * 64}", False),
    (names.wrong_label_key, "Example.com/team", False),
    (names.wrong_label_key, "/team", False),
    (names.wrong_label_key, "a/b/c", False),
    (names.wrong_label_key, "a./b", False),
    (names.wrong_label_key, "a/", False),
    (names.wrong_label_key, "", False),
    (names.wrong_label_value, "", True),
    (names.wrong_label_value, "web", True),
    (names.wrong_label_value, "v" * 63, True),
    (names.wrong_label_value, "v" * 64, False),
    (names.wrong_label_value, "a b", False),
    (names.wrong_label_value, "-", False),
    (names.wrong_project, "default", True),
    (names.wrong_project, "team-a-1", True),
    (names.wrong_project, "p" * 63, True),
    (names.wrong_project, "p" * 64, False),
    (names.wrong_project, "Team", False),
    (names.wrong_project, "a--b", False),
    (names.wrong_project, "-a", False),
    (names.wrong_project, "a-", False),
    (names.wrong_project, "a_b", False),
    (names.wrong_project, "", False),
]

RULES: dict[Rule, str] = {
    names.wrong_name: names.NAME_RULE,
    names.wrong_label_key: names.LABEL_KEY_RULE,
    names.wrong_label_value: names.LABEL_VALUE_RULE,
    names.wrong_project: names.PROJECT_RULE,
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

    assert (
        names.wrong_name(text) is None,
        names.wrong_label_key(text) is None,
        names.wrong_label_value(text) is None,
    ) == (
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
