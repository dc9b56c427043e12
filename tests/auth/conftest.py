"""A clock for tests of what people sign in with."""

from datetime import UTC, datetime

import pytest


class Watch:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 21, 6, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def watch() -> Watch:
    return Watch()
