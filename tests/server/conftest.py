"""A repository to follow."""

from pathlib import Path

import pytest

from tests.daemons import destination
from tests.repositories import Repository


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    """Two resources in two files, committed."""
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    source.write("b.yaml", destination("b"))
    source.commit()
    return source
