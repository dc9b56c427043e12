"""Following a remote: shared by repositories, changed by a reload, shown to whoever asks."""

from pathlib import Path

import pytest

from tests import daemons
from tests.daemons import Daemon, destination, watched
from tests.repositories import Repository


def mirrors(daemon: Daemon) -> list[Path]:
    return sorted((daemon.state / "mirrors").iterdir())


def sources(daemon: Daemon) -> dict[str, tuple[str, str, str]]:
    """Of each destination the repository, the branch and the commit that it comes from."""
    found = {one["metadata"]["name"]: one["status"]["source"] for one in daemon.resources("Destination")}
    return {name: (source["repository"], source["branch"], source["commit"]) for name, source in found.items()}


def test_repositories_of_one_remote_share_its_mirror(tmp_path: Path, source: Repository) -> None:
    first = source.head()
    source.git("tag", "--annotate", "--message=One", "v1")
    source.write("a.yaml", destination("a", "edited"))
    second = source.commit()
    tagged = watched("tagged", source.path, project="tagged")
    repositories = [
        watched("main", source.path),
        {key: value for key, value in tagged.items() if key != "branch"} | {"tag": "v1"},
    ]
    with daemons.running(tmp_path / "daemon", repositories=repositories) as daemon:
        assert daemon.run_of("main", second)["outcome"] == "succeeded"
        assert daemon.run_of("tagged", first)["outcome"] == "succeeded"
        assert len(mirrors(daemon)) == 1
        assert [one["follows"] for one in daemon.get("/v1/repositories").body["repositories"]] == [
            {"kind": "branch", "name": "main"},
            {"kind": "tag", "name": "v1"},
        ]
        tagged_a = daemon.resource("Destination", "a", project="tagged")
        assert tagged_a is not None
        assert tagged_a["status"]["source"]["branch"] == "refs/tags/v1"
        [mirror] = mirrors(daemon)
        (mirror / "HEAD").unlink()
        source.write("c.yaml", destination("c"))
        third = source.commit()
        source.git("tag", "--force", "v1")
        daemon.reconcile("tagged")
        assert daemon.run_of("main", third)["counts"] == {"created": 1}
        daemon.run_of("tagged", third)
        found = {one["metadata"]["name"]: one for one in daemon.resources("Destination", project="tagged")}
        assert {name: one["metadata"]["version"] for name, one in found.items()} == {"a": 2, "b": 1, "c": 1}
        assert daemon.repository("tagged")["state"] == "ready"


@pytest.mark.slow
def test_a_reload_restarts_what_follows_something_else_and_nothing_more(tmp_path: Path, source: Repository) -> None:
    first = source.head()
    other = Repository.init(tmp_path / "other")
    other.write("other.yaml", destination("other"))
    untouched = watched("untouched", other.path, project="other")
    before = other.commit()
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path), untouched]) as daemon:
        daemon.run_of("one", first)
        runs = [daemon.run_of("untouched", before)]
        source.write("c.yaml", destination("c"))
        second = source.commit()
        daemon.run_of("one", second)
        plain = {key: value for key, value in watched("one", source.path).items() if key != "branch"}
        daemon.configure([{**plain, "commit": first}, untouched])
        daemon.reload()
        daemons.until(lambda: daemon.repository("one")["commit"] == first, "the commit is applied")
        assert daemon.repository("one")["follows"] == {"kind": "commit", "name": first}
        assert {name: branch for name, (_, branch, _) in sources(daemon).items()} == {"a": "main", "b": "main"}
        daemon.configure([{**plain, "ref": "refs/heads/main"}, untouched])
        daemon.reload()
        daemons.until(lambda: daemon.repository("one")["commit"] == second, "the head is applied")
        assert sources(daemon)["c"] == ("one", "main", second)
        assert [run["id"] for run in daemon.runs("untouched")] == [run["id"] for run in runs]
        assert len(mirrors(daemon)) == 2
