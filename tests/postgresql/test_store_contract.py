"""PostgreSQL, on a real server, keeps the store's promises."""

from collections.abc import Iterator

import pytest

from tests.postgresql.engine import PostgresqlEngine
from tests.postgresql.servers import Server
from tests.store.conftest import operations, store  # noqa: F401 - fixtures
from tests.store.contract_suite import StoreContract
from tests.store.engines import Engine

pytestmark = pytest.mark.providers

TEMPLATE, NAME = "contract_template", "contract"


@pytest.fixture(scope="module")
def template(shared_server: Server) -> str:
    """A database with a new store, since making one takes longer than most tests."""
    made = PostgresqlEngine(shared_server.database(TEMPLATE))
    made.prepare()
    return TEMPLATE


class TestPostgresql(StoreContract):
    @pytest.fixture
    def engine(self, server: Server, template: str) -> Iterator[Engine]:
        yield PostgresqlEngine(server.database(NAME, template=template))
        server.drop(NAME)
