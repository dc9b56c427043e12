"""An endpoint for tests of what is sent."""

from collections.abc import Iterator

import pytest

from tests.servers import sinks
from tests.servers.sinks import Sink


@pytest.fixture
def sink() -> Iterator[Sink]:
    with sinks.listening() as listening:
        yield listening
