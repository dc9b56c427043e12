"""A service that is started upon the store of an earlier version says of delivery what that version did not."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests import daemons
from tests.projects import configuration, destination, resource


def test_what_an_earlier_version_did_not_say_of_delivery_is_there_soon_after_the_start(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        source = resource("Source", "in", type="otlp")
        made = configuration("all", "siem")
        made["spec"]["sources"] = [{"name": "in"}]
        daemon.apply(source, destination("siem", "webhook", hostname="siem.example.com"), made)
        before = daemon.resource("Configuration", "all")
        daemon.stop()
        with closing(sqlite3.connect(next(tmp_path.rglob("store.db")))) as store, store:
            store.execute(
                "update resource set status = cast(json_remove(cast(status as text), '$.delivery') as blob)"
                " where kind = 'Configuration'"
            )
        daemon.start()

        def restated() -> dict[str, Any] | None:
            found = daemon.resource("Configuration", "all")
            return found if found is not None and "delivery" in found["status"] else None

        assert daemons.until(restated, "delivery in the status") == before
        assert before is not None
        assert before["status"]["delivery"] == {"delivers": True}
