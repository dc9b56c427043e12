"""A resource that disappears from Git while it is in use stays, is reported in each run, and goes once it is unused."""

from typing import Any

import pytest

from tests import daemons
from tests.daemons import Followed, statuses
from tests.following import Follow
from tests.repositories import Repository

TYPE = "apiVersion: service/v1\nkind: DestinationType\nmetadata: {name: own}\nspec: {}\n"
FLEET = "apiVersion: service/v1\nkind: Fleet\nmetadata: {name: other, description: first}\n"
USER: dict[str, Any] = {
    "apiVersion": "service/v1",
    "kind": "Destination",
    "metadata": {"name": "user"},
    "spec": {"type": "own"},
}
MESSAGE = "Not stored as the head says: 1 in-use; the run names them."


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    """A type in Git that a resource of the API refers to; Git lets go of it."""
    source.write("own.yaml", TYPE)
    source.write("other.yaml", FLEET)
    source.commit()
    followed = follow(source)
    assert followed.head()["counts"] == {"created": 2}
    assert [one["status"] for one in followed.daemon.apply(USER, project=followed.project)] == ["created"]
    source.remove("own.yaml")
    run = followed.commit()
    assert (run["outcome"], run["counts"], run["message"]) == ("partial", {"in-use": 1}, MESSAGE)
    [told] = run["statuses"]
    assert told["reason"].startswith("Destination user refers to it")
    assert (told["path"], told["line"]) == ("own.yaml", 1)
    return followed


def has_type(followed: Followed) -> bool:
    return followed.daemon.resource("DestinationType", "own", project=followed.project) is not None


def test_it_stays_and_every_run_tells_it(followed: Followed) -> None:
    assert has_type(followed)
    assert followed.state()["held"] is None
    followed.write("other.yaml", FLEET.replace("first", "second"))
    run = followed.commit()
    assert (statuses(run), run["message"]) == ({"own": "in-use", "other": "configured"}, MESSAGE)


def test_it_goes_when_the_last_user_goes(followed: Followed) -> None:
    gone = followed.daemon.delete("/v1/resources/Destination/user", project=followed.project)
    assert gone.status == 204
    daemons.until(lambda: not has_type(followed), "the type is deleted by itself")
    [newest, *_] = followed.daemon.runs(followed.name)
    assert (newest["trigger"], newest["outcome"], newest["counts"]) == ("store", "succeeded", {"deleted": 1})
    assert followed.state()["state"] == "ready"


def test_it_goes_with_its_user(followed: Followed) -> None:
    """Git takes over the user, and lets go of both in one commit."""
    followed.write("own.yaml", TYPE)
    followed.write(
        "user.yaml", "apiVersion: service/v1\nkind: Destination\nmetadata: {name: user}\nspec: {type: own}\n"
    )
    for name in ("one", "two"):  # which stay: most of a repository would be held
        followed.write(f"{name}.yaml", FLEET.replace("other", name))
    assert followed.commit()["message"] is None
    followed.source.remove("own.yaml")
    followed.source.remove("user.yaml")
    assert statuses(followed.commit()) == {"own": "deleted", "user": "deleted"}
