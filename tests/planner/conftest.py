"""Runs are tested on a daemon that follows real repositories."""

from collections.abc import Iterator

import pytest

from tests import worlds
from tests.following import daemon, follow, source
from tests.worlds import Following, World

__all__ = ["daemon", "follow", "source", "world"]


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following()}) as made:
        yield made
