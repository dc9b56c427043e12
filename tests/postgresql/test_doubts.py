"""A change whose outcome was unknown is heard of as another replica's, and everything is read again."""

import pytest

from reconciler.model.directory import Amendment
from reconciler.store import engines
from reconciler.store.notices import AmendmentBody, NoticeKind, decode
from reconciler.store.postgresql.notices import PostgresqlNotices
from tests.auth import directories
from tests.postgresql.servers import Database
from tests.store.contract_access import amend, whole

pytestmark = [pytest.mark.providers, pytest.mark.anyio]


async def test_after_a_doubt_all_is_read_and_own_changes_from_before_count_as_another_s(
    database: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("state")
    opened = await engines.open_store(database.url, folder, worker_url=database.worker_url)
    assert opened.replication is not None
    notices = opened.replication.notices
    assert isinstance(notices, PostgresqlNotices)
    told: list[Amendment] = []
    opened.store.subscribe(Amendment, told.append)
    try:
        await amend(opened.store, whole(directories.directory()))
        [known] = told
        notices.doubt()
        answers = notices.follow()
        heard = await anext(answers)
        assert heard.missed
        [notice] = [one for one in heard.notices if one.kind == NoticeKind.AMENDMENT]
        assert notice.writer != notices.writer
        assert decode(notice.body, AmendmentBody).amendment.number == known.number
        await opened.store.tell([])
        assert not (await anext(answers)).missed
        await answers.aclose()
    finally:
        await opened.operations.close()
        await opened.store.close()
