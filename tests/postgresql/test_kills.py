"""A daemon, its worker or its PostgreSQL, which writes durably, is killed at any moment of commits and applies."""

from pathlib import Path

import pytest

from tests import stores
from tests.postgresql.servers import Server
from tests.scenarios.one_writer.killing import kill_again_and_again

pytestmark = pytest.mark.providers


@pytest.mark.parametrize(
    ("kills", "files", "text"), [(5, 30, 10), pytest.param(100, 200, 1_500, marks=pytest.mark.slow)]
)
def test_what_was_acknowledged_is_kept_and_nothing_is_there_in_part(
    kills: int, files: int, text: int, tmp_path: Path, server: Server
) -> None:
    stores.keep(tmp_path / "daemon" / "state", server.database("killed"))
    kill_again_and_again(tmp_path, kills=kills, files=files, text=text, server=server)
