"""The owner of a resource may change it: repositories, the API, and the kinds and names that each may hold."""

from unittest.mock import ANY

import pytest

from tests import daemons
from tests.daemons import Followed, asked, destination, statuses
from tests.following import Follow, holding
from tests.repositories import Repository


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    return holding(source, follow, "a")


def test_the_api_changes_nothing_that_git_owns(followed: Followed) -> None:
    daemon, project = followed.daemon, followed.project
    [same] = daemon.apply(asked("a"), project=project)
    assert same["status"] == "unchanged"
    [changed] = daemon.apply(asked("a", "changed"), project=project)
    assert changed["status"] == "forbidden"
    gone = daemon.delete("/v1/resources/Destination/a", project=project)
    why = f"Destination a: forbidden: managed by the repository {followed.name}; change it there"
    assert (gone.status, gone.body) == (403, {"errors": [why], "codes": ANY})
    deleted = daemon.post("/v1/delete", [asked("a")], project=project)
    assert (deleted.status, [update["status"] for update in deleted.body["updates"]]) == (202, ["forbidden"])
    atomic = daemon.post("/v1/apply?atomic=true", {"resources": [asked("a", "x"), asked("b")]}, project=project)
    assert (atomic.status, atomic.body) == (409, {"errors": [why], "codes": ANY})
    assert followed.versions() == {"a": 1}


def test_what_the_api_created_is_adopted_by_git(followed: Followed) -> None:
    daemon, project, source = followed.daemon, followed.project, followed.source
    updates = daemon.apply(asked("same"), asked("differs"), project=project)
    assert [update["status"] for update in updates] == ["created", "created"]
    source.write("same.yaml", destination("same"))
    source.write("differs.yaml", destination("differs", "from git"))
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("succeeded", {"unchanged": 1, "configured": 1})
    assert followed.versions() == {"a": 1, "differs": 2, "same": 1}
    stored = followed.destination("same")
    assert stored is not None
    origin = stored["status"]["source"]
    assert (origin["type"], origin["repository"], origin["path"]) == ("git", followed.name, "same.yaml")
    [update] = daemon.apply(asked("same", "changed"), project=project)
    assert update["status"] == "forbidden"


def test_git_deletes_nothing_that_the_api_created(followed: Followed) -> None:
    followed.daemon.apply(asked("mine"), project=followed.project)
    followed.source.remove("a.yaml")
    followed.source.write("b.yaml", destination("b"))
    assert followed.commit()["counts"] == {"created": 1, "deleted": 1}
    assert followed.names() == ["b", "mine"]


def test_of_two_repositories_that_claim_a_resource_the_first_keeps_it(
    followed: Followed, follow: Follow, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Repository.init(tmp_path_factory.mktemp("other"))
    other.write("claim.yaml", destination("a", "claimed"))
    other.write("own.yaml", destination("own"))
    other.commit()
    second = follow(other, project=followed.project)
    second.project = followed.project
    run = second.head()
    assert (run["outcome"], run["counts"]) == ("partial", {"created": 1, "forbidden": 1})
    assert statuses(run) == {"a": "forbidden", "own": "created"}
    assert followed.versions() == {"a": 1, "own": 1}
    # What the second claimed and never had is not deleted with its claim.
    other.remove("claim.yaml")
    assert second.commit()["counts"] == {}
    assert followed.versions() == {"a": 1, "own": 1}


def test_what_a_repository_may_not_hold_is_forbidden(source: Repository, follow: Follow) -> None:
    source.write("web-1.yaml", destination("web-1"))
    source.write("db-1.yaml", destination("db-1"))
    source.write("type.yaml", destination("web-2").replace("Destination", "Source"))
    source.commit()
    followed = follow(source, allow={"kinds": ["Destination"], "names": ["web-*"]})
    run = followed.head()
    assert (run["outcome"], statuses(run)) == (
        "partial",
        {"db-1": "forbidden", "web-1": "created", "web-2": "forbidden"},
    )
    assert (followed.names(), followed.daemon.resources("Source", project=followed.project)) == (["web-1"], [])


def test_an_atomic_repository_applies_a_commit_whole_or_not_at_all(source: Repository, follow: Follow) -> None:
    source.write("a.yaml", destination("a"))
    first = source.commit()
    followed = follow(source, atomic=True)
    followed.head()
    source.write("a.yaml", destination("a", "edited"))
    source.write("b.yaml", destination("b"))
    source.write("c.yaml", destination("c").replace("type", "typ"))
    run = followed.commit()
    assert (run["outcome"], statuses(run)) == ("refused", {"a": "configured", "b": "created", "c": "invalid"})
    assert followed.versions() == {"a": 1}
    state = followed.state()
    assert (state["commit"], state["head"]) == (first, source.head())
    source.write("c.yaml", destination("c"))
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("succeeded", {"configured": 1, "created": 2})
    assert followed.versions() == {"a": 2, "b": 1, "c": 1}


def test_a_repository_that_is_followed_no_more_leaves_its_resources_to_the_api(followed: Followed) -> None:
    daemon, project = followed.daemon, followed.project
    rest = [one for name, one in daemon.repositories.items() if name != followed.name]
    daemon.configure(rest)
    assert daemon.reload().startswith("Reloaded")
    assert daemon.get(f"/v1/repositories/{followed.name}").status == 404
    assert followed.versions() == {"a": 1}
    [update] = daemon.apply(asked("a", "mine now"), project=project)
    assert update["status"] == "configured"
    followed.change()
    daemons.until(lambda: followed.versions() == {"a": 3}, "the repository has it back")


def test_a_deleted_resource_of_the_api_that_git_wants_is_adopted_anew(followed: Followed) -> None:
    daemon, project = followed.daemon, followed.project
    daemon.apply(asked("mine"), project=project)
    assert daemon.delete("/v1/resources/Destination/mine", project=project).status == 204
    followed.source.write("mine.yaml", destination("mine"))
    assert followed.commit()["counts"] == {"created": 1}
    assert followed.versions() == {"a": 1, "mine": 2}
