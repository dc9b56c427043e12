"""Runs are tested on a daemon that follows real repositories, and what may go wrong on parts of one."""

import asyncio
from collections.abc import Iterator

import pytest

from tests import worlds
from tests.following import daemon, follow, source
from tests.worker.disturbed import Expected, expected_of
from tests.worlds import Following, World

__all__ = ["daemon", "follow", "large", "small", "source", "world"]

SMALL = 4  # files
LARGE = 600  # three parts of resources, two of the index


@pytest.fixture(scope="package")
def small(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return asyncio.run(expected_of(tmp_path_factory.mktemp("small"), SMALL))


@pytest.fixture(scope="package")
def large(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return asyncio.run(expected_of(tmp_path_factory.mktemp("large"), LARGE))


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following(), "b": Following()}) as made:
        yield made
