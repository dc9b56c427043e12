"""The rules that every store keeps, checked in the store of a daemon that does not run.

Belongs here: what SQL and the command line tell. Does not: what clients were told.
"""

import os
import subprocess

from tests import stores
from tests.daemons import COMMAND, Daemon
from tests.repositories import Repository

INTEGRITY: dict[str, list[tuple[str]]] = {"pragma integrity_check": [("ok",)], "pragma foreign_key_check": []}
# Each of these finds nothing.
FAULTS = {
    "versions with a gap": """
        select project, kind, name from version group by project, kind, name
        having min(version) <> 1 or max(version) <> count(*)
    """,
    "resources that are not at their last version": """
        select r.project, r.kind, r.name from resource r
        where r.version <> (select max(version) from version v
                            where v.project = r.project and v.kind = r.kind and v.name = r.name)
    """,
    "versions without exactly one event": """
        select v.project, v.kind, v.name, v.version from version v
        where 1 <> (select count(*) from audit a
                    where a.project = v.project and a.kind = v.kind and a.name = v.name
                      and a.version_after = v.version and a.action in ('created', 'configured'))
    """,
    "statuses of a run that was never recorded": "select run from run_status where run not in (select id from run)",
}


def check(daemon: Daemon, source: Repository, *, repository: str) -> None:
    """The history has no gap, the audit tells each version, and the index is that of the last applied head."""
    with stores.sql(daemon.state) as store:
        for what, statement in FAULTS.items():
            assert store.execute(statement) == [], what
        applied = [head for (head,) in store.execute("select commit_id from repository where name = ?", repository)]
        index = dict(store.execute("select path, blob from source_file where repository = ?", repository))
    assert index == (tree(source, applied[0]) if any(applied) else {})


def check_whole(daemon: Daemon) -> None:
    """The database is sound, and so is the chain of the audit."""
    if stores.database(daemon.state) is None:
        with stores.sql(daemon.state) as store:
            for statement, sound in INTEGRITY.items():
                assert store.execute(statement) == sound
    verified = subprocess.run(
        [COMMAND, "audit", "verify", "--config", daemon.config],
        env={**os.environ, "SERVICE_API_KEY": daemon.key},
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def tree(source: Repository, commit: str) -> dict[str, str]:
    """The blob of each file of a commit."""
    entries = (line.split("\t", 1) for line in source.git("ls-tree", "-r", commit).splitlines())
    return {path: entry.split()[2] for entry, path in entries}
