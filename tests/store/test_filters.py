"""The page of the audit, which lists what events may be asked for by."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "audit.md"


def test_the_page_lists_whatever_the_program_tells_of() -> None:
    section = PAGE.read_text().split("## What is recorded")[1].split("Each event has")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    kinds = {name for first, _ in rows for name in re.findall(r"`(\w+)`", first)}
    actions = {name for _, second in rows for name in re.findall(r"`([a-z-]+)`", second)}
    text = "\n".join(path.read_text() for room in ("reconciler", "api") for path in sorted((ROOT / room).rglob("*.py")))
    told = re.findall(r'Audited\(\s*"([a-z-]+)", "(\w+)"', text)
    assert len(told) >= 10
    assert {action for action, _ in told} | set(re.findall(r'\baction="([a-z-]+)"', text)) <= actions
    assert {kind for _, kind in told} <= kinds
