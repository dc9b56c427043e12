"""docs/security.md: every protection names attacks that are tried, and nothing of the policy leads nowhere."""

import re

from tests.docs import pages
from tests.scenarios.attacks import sign_in
from tests.scenarios.attacks.rows import ATTACKS
from tests.scenarios.attacks.table import Holds

PAGE = pages.read(pages.ROOT / "docs/security.md")
POLICY = pages.read(pages.ROOT / "SECURITY.md")
ROWS = pages.table(pages.section(PAGE, "Attacks, and what stops them"))
_CODE = re.compile(r"``\s?(.+?)\s?``|`([^`]+)`")


def named(cell: str) -> list[str]:
    """The attacks of a cell."""
    return [first or second for first, second in _CODE.findall(cell)]


def plain(name: str) -> str:
    """An attack's name as a page may write it: without quotes of code inside, which Markdown cannot nest."""
    return name.replace("`", "")


def test_every_protection_names_attacks_that_are_in_the_table() -> None:
    known = {plain(name) for name in [*(a.name for a in ATTACKS), *(a.name for a in sign_in.ATTACKS)]}
    assert len(ROWS) >= 15
    for row in ROWS:
        attacks = named(row["tried, among others"])
        assert attacks, row["protection"]
        assert [attack for attack in attacks if plain(attack) not in known] == []


def test_every_protection_has_a_page() -> None:
    assert [row["protection"] for row in ROWS if len(pages.links(row["page"])) != 1] == []


def test_the_page_has_an_attack_of_every_kind_of_attacker() -> None:
    by_name = {plain(attack.name): attack for attack in ATTACKS}
    cells = [plain(name) for row in ROWS for name in named(row["tried, among others"])]
    tried = [by_name[name].holds for name in cells if name in by_name]
    assert set(tried) == set(Holds)


def test_the_policy_names_no_address_and_is_found() -> None:
    assert "@" not in POLICY
    assert "SECURITY.md" in "".join(pages.links(pages.read(pages.ROOT / "README.md")))
    assert "../SECURITY.md" in pages.links(PAGE)
