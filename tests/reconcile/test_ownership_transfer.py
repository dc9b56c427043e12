"""When a repository drops a resource, another whose last good tree holds it becomes the owner, in one transaction."""

from pathlib import Path
from typing import Any

import pytest

from tests.daemons import Followed, destination, statuses, until
from tests.following import Follow
from tests.repositories import Repository


@pytest.fixture
def other(tmp_path: Path) -> Repository:
    """A second repository, with nothing in it yet."""
    return Repository.init(tmp_path / "other")


def pair(
    source: Repository, other: Repository, follow: Follow, text: str = destination("shared"), **settings: Any
) -> tuple[Followed, Followed]:
    """Two repositories that hold `shared`; the first owns it, with this text."""
    source.write("a.yaml", destination("a"))
    source.write("shared.yaml", text)
    source.commit()
    first = follow(source)
    first.head()
    if not (other.path / "shared.yaml").exists():
        other.write("shared.yaml", destination("shared"))
    other.commit()
    second = follow(other, project=first.project, **settings)
    second.head()
    return first, second


def shared(followed: Followed) -> dict[str, Any]:
    found = followed.destination("shared")
    assert found is not None
    return found


def test_with_its_id_and_version_when_both_hold_the_same(source: Repository, other: Repository, follow: Follow) -> None:
    first, second = pair(source, other, follow)
    before = shared(first)
    source.remove("shared.yaml")
    run = first.commit()
    after = shared(first)
    assert run["counts"] == {"unchanged": 1}
    assert (after["metadata"], after["spec"]) == (before["metadata"], before["spec"])
    source_of = after["status"]["source"]
    assert (source_of["repository"], source_of["path"], source_of["line"]) == (second.name, "shared.yaml", 1)
    assert second.head()["outcome"] == "succeeded"


def test_as_the_next_version_when_the_other_holds_it_differently(
    source: Repository, other: Repository, follow: Follow
) -> None:
    other.write("shared.yaml", destination("shared", "of the other"))
    first, second = pair(source, other, follow)
    before = shared(first)
    assert "description" not in before["metadata"]
    source.remove("shared.yaml")
    assert first.commit()["counts"] == {"unchanged": 1}
    until(lambda: second.state()["message"] is None, "the other repository has run again")
    after = shared(first)["metadata"]
    assert (after["id"], after["version"], after["description"]) == (before["metadata"]["id"], 2, "of the other")
    assert shared(first)["status"]["source"]["commit"] == other.head()


@pytest.mark.parametrize("branch", ["main", None])
def test_with_the_branch_that_the_other_is_at(
    source: Repository, other: Repository, follow: Follow, branch: str | None
) -> None:
    first, _ = pair(source, other, follow, branch=branch)
    source.remove("shared.yaml")
    first.commit()
    assert shared(first)["status"]["source"]["branch"] == "main"


def test_unless_the_other_may_not_hold_it(source: Repository, other: Repository, follow: Follow) -> None:
    first, _ = pair(source, other, follow, allow={"names": ["nothing*"]})
    source.remove("shared.yaml")
    assert first.commit()["counts"] == {"deleted": 1}
    assert first.names() == ["a"]


def test_unless_the_other_holds_it_twice(source: Repository, other: Repository, follow: Follow) -> None:
    other.write("again.yaml", destination("shared"))
    first, _ = pair(source, other, follow)
    source.remove("shared.yaml")
    assert first.commit()["counts"] == {"deleted": 1}


def test_as_it_is_if_what_the_other_holds_is_invalid(source: Repository, other: Repository, follow: Follow) -> None:
    other.write("shared.yaml", destination("shared").replace("type: otlp", "type: missing"))
    first, second = pair(source, other, follow)
    before = shared(first)
    source.remove("shared.yaml")
    assert first.commit()["counts"] == {"unchanged": 1}
    assert second.head()["counts"] == {"invalid": 1}
    after = shared(first)
    assert (after["metadata"], after["spec"]) == (before["metadata"], before["spec"])
    assert after["status"]["source"]["repository"] == second.name


def test_and_not_while_a_file_of_its_owner_is_unreadable(source: Repository, other: Repository, follow: Follow) -> None:
    first, _ = pair(source, other, follow)
    source.write("a.yaml", "a: [")
    source.remove("shared.yaml")
    first.commit()
    assert first.state()["state"] == "prune-held"
    assert shared(first)["status"]["source"]["repository"] == first.name


def test_and_keeps_what_its_stored_version_refers_to(source: Repository, other: Repository, follow: Follow) -> None:
    own = "apiVersion: service/v1\nkind: DestinationType\nmetadata: {name: own}\nspec: {parameters: []}\n"
    source.write("type.yaml", own)
    first, _ = pair(source, other, follow, destination("shared").replace("type: otlp", "type: own"))
    source.remove("shared.yaml")
    source.remove("type.yaml")
    run = first.commit()
    assert statuses(run) == {"own": "in-use"}
    [in_use] = [one for one in run["statuses"] if one["status"] == "in-use"]
    assert in_use["reason"] == "Destination shared refers to it; change that first"
