"""What a run does is tested on a daemon that follows real repositories, and what may go wrong on parts of one."""

import asyncio
from collections.abc import Iterator

import pytest

from reconciler.worker import change_stream
from tests import worlds
from tests.following import daemon, follow, source
from tests.worker.disturbed import Expected, expected_of
from tests.worlds import Following, World

__all__ = ["daemon", "follow", "large", "many", "small", "source", "streamed", "world"]

SMALL = 4  # files
LARGE = 600  # three parts of resources, two of the index
MANY = 3_000  # with a text in each: large by the product's own measure
TEXT = 2_000  # characters


@pytest.fixture(scope="package")
def small(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return asyncio.run(expected_of(tmp_path_factory.mktemp("small"), SMALL))


@pytest.fixture(scope="package")
def large(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return asyncio.run(expected_of(tmp_path_factory.mktemp("large"), LARGE))


@pytest.fixture(scope="package")
def many(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return asyncio.run(expected_of(tmp_path_factory.mktemp("many"), MANY, "x" * TEXT))


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts make a change large, so that one of a few hundred files is."""
    monkeypatch.setattr(change_stream, "LARGE_PARTS", 1)
    monkeypatch.setattr(change_stream, "STRETCH_BYTES", 1)


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following(), "b": Following()}) as made:
        yield made
