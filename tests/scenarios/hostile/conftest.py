"""The worker's pipes belong to the loop that started it."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
