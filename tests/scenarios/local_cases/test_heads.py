"""A head that goes astray: HEAD names nothing, branches are made again, renamed, moved sideways or into a folder."""

import pytest

from tests.daemons import Followed, destination, statuses, until
from tests.following import Follow
from tests.repositories import Repository
from tests.scenarios.local_cases.expectations import OFTEN, recovers, stays


def branch_of(followed: Followed, name: str) -> str:
    found = followed.destination(name)
    assert found is not None
    return str(found["status"]["source"]["branch"])


def follow_head(followed: Followed) -> None:
    """From now on it is the branch that HEAD names."""
    followed.change(interval=OFTEN, branch="")
    assert followed.daemon.reconcile(followed.name)["outcome"] == "succeeded"


def test_a_head_that_names_no_branch_deletes_nothing_until_it_does(followed: Followed) -> None:
    source = followed.source
    follow_head(followed)
    source.git("symbolic-ref", "HEAD", "refs/heads/nowhere")
    told = f"the HEAD of {source.path} names a branch that does not exist; name another with `branch`"
    stays(followed, "branch-missing", told)
    source.git("symbolic-ref", "HEAD", "refs/heads/main")
    recovers(followed)


@pytest.mark.slow
def test_a_detached_head_is_followed_from_commit_to_commit(followed: Followed) -> None:
    follow_head(followed)
    followed.source.git("checkout", "--quiet", "--detach")
    followed.write("b.yaml", destination("b", "detached"))
    assert followed.commit()["counts"] == {"configured": 1}
    assert branch_of(followed, "b") == "HEAD"


def test_a_branch_that_is_not_there_yet_is_read_when_it_is(filled: Repository, follow: Follow) -> None:
    followed = follow(filled, interval=OFTEN, branch="later")
    shown = followed.daemon.state_of(followed.name, "branch-missing")
    assert shown["message"] == f"{filled.path} has no branch later; name another with `branch`"
    assert (shown["commit"], shown["head"], followed.names()) == (None, None, [])
    filled.branch("later")
    assert followed.head()["counts"] == {"created": 2}
    assert followed.state()["state"] == "ready"


@pytest.mark.slow
def test_a_branch_that_is_made_again_elsewhere_in_its_history_is_a_rewind(followed: Followed) -> None:
    source = followed.source
    first = source.head()
    followed.write("c.yaml", destination("c"))
    followed.commit()
    source.branch("kept")
    source.delete_branch("main")
    followed.daemon.state_of(followed.name, "branch-missing")
    assert followed.versions() == {"a": 1, "b": 1, "c": 1}
    source.git("update-ref", "refs/heads/main", first)
    until(lambda: followed.state()["commit"] == first, "the first commit is applied again")
    run = followed.daemon.run(followed.daemon.runs(followed.name)[0]["id"])
    assert (run["rewound"], run["outcome"], statuses(run)) == (True, "succeeded", {"c": "deleted"})


def test_a_default_branch_that_is_renamed_is_followed_where_none_is_configured(followed: Followed) -> None:
    source = followed.source
    follow_head(followed)
    source.git("branch", "--move", "main", "trunk")
    followed.write("b.yaml", destination("b", "on the trunk"))
    run = followed.commit()
    assert (run["counts"], run["rewound"], run["outcome"]) == ({"configured": 1}, False, "succeeded")
    assert branch_of(followed, "b") == "trunk"


@pytest.mark.slow
def test_a_configured_branch_that_is_renamed_is_missing_until_it_is_configured_anew(followed: Followed) -> None:
    followed.source.git("branch", "--move", "main", "trunk")
    stays(followed, "branch-missing", f"{followed.source.path} has no branch main; name another with `branch`")
    followed.change(interval=OFTEN, branch="trunk")
    recovers(followed)


def test_a_force_push_sideways_applies_the_other_commit(followed: Followed) -> None:
    source = followed.source
    first = source.head()
    followed.write("b.yaml", destination("b", "one way"))
    followed.commit()
    # In one move: a reset before it would be seen by itself.
    source.git("checkout", "--quiet", first, "--", "b.yaml")
    followed.write("c.yaml", destination("c", "the other way"))
    source.git("add", "c.yaml")
    source.git("commit", "--quiet", "--amend", "--message=the other way")
    run = followed.head()
    assert (run["rewound"], run["outcome"]) == (True, "succeeded")
    assert statuses(run) == {"b": "configured", "c": "created"}
    assert followed.versions() == {"a": 1, "b": 3, "c": 1}


def test_a_branch_becomes_a_folder_of_branches_and_a_branch_again(followed: Followed) -> None:
    source = followed.source
    source.git("branch", "--move", "main", "team")
    followed.change(interval=OFTEN, branch="team")
    followed.daemon.state_of(followed.name, "ready")
    source.git("checkout", "--quiet", "--detach")
    for old, new in (("team", "team/web"), ("team/web", "team")):
        source.git("update-ref", "-d", f"refs/heads/{old}")
        source.git("update-ref", f"refs/heads/{new}", source.head())
        stays(followed, "branch-missing", f"{source.path} has no branch {old}; name another with `branch`")
        followed.change(interval=OFTEN, branch=new)
        followed.daemon.state_of(followed.name, "ready")
    source.git("checkout", "--quiet", "team")
    recovers(followed)


@pytest.mark.slow
def test_a_head_that_goes_into_a_folder_of_its_branch_is_followed(followed: Followed) -> None:
    source = followed.source
    follow_head(followed)
    for old, new in (("main", "main/next"), ("main/next", "main")):
        source.git("branch", "--move", old, "aside")
        source.git("branch", "--move", "aside", new)
        followed.write("b.yaml", destination("b", new))
        assert followed.commit()["counts"] == {"configured": 1}
        assert branch_of(followed, "b") == new
    recovers(followed)
