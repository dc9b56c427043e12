"""Fixtures that every test may use, and the search for secrets in what tests print."""

import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.canaries import MARKER

# Of each property so many examples, where a test says nothing else; a slow machine is no reason to fail one.
settings.register_profile("suite", max_examples=20, deadline=None)
settings.load_profile("suite")

# Objects that came, less those that went, until cycles are looked for among them: at Python's own 700, whoever makes
# many is looked through over and over.
COLLECT_AFTER = 10_000

# The folders whose tests take longest: their files come first, so that at the end no process is left alone with one.
FIRST = (
    "server",
    "delivery",
    "properties",
    "canary",
    "attacks",
    "hostile",
    "reconcile",
    "local_cases",
    "worker",
    "api",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take long first; within a file, and among the others, nothing moves."""
    turns = {folder: turn for turn, folder in enumerate(FIRST)}
    items.sort(key=lambda item: turns.get(item.path.parent.name, len(turns)))


def pytest_configure() -> None:
    """Nothing of what is collected goes again, so nobody looks for that meanwhile."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Freeze the collected tests, which are many and stay to the end: no collection of garbage visits them again."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 10, 10)


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the daemon does."""
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],  # noqa: ARG001 - pytest gives it by name
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test, passed or not, when what it printed or logged holds a secret of tests."""
    report = yield
    # The sections of a phase stay in the reports of those that follow.
    told = [title for title, text in report.sections if title.endswith(f" {report.when}") and MARKER in text]
    if told:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: a secret (`{MARKER}...`) is in: {', '.join(told)}"
        report.sections = [(title, text.replace(MARKER, "(hidden)-")) for title, text in report.sections]
    return report
