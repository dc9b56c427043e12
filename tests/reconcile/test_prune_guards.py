"""Mistakes that would delete something: a name that was copied, most of a small repository, another name."""

from pathlib import Path

import pytest

from tests.daemons import Followed, destination, statuses, until
from tests.following import Follow, holding
from tests.repositories import Repository

NAMES = ("f0", "f1", "f2", "f3", "f4", "f5")
WAITS = (
    "Not deleted: Destination f0, since a document in the same file is refused ({}); correct that document, or release "
    "this with `reconciler approve`. A file that is not meant for the service is left out with a `.serviceignore` or "
    "the setting `exclude`."
)


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    """Six resources, each in a file of its own."""
    return holding(source, follow, *NAMES)


def held(followed: Followed) -> list[str]:
    return [one["name"] for one in followed.state()["held"]["resources"]]


def wrong(name: str) -> str:
    return destination(name).replace("metadata:", "meta: {}\nmetadata:")


SLIPS = {
    "a name that was copied": (destination("f1"), "f0.yaml:1:1 is invalid", {"deleted": 1, "invalid": 2}),
    "an invalid document of another name": (wrong("new"), "f0.yaml:1:1 is invalid", {"deleted": 1, "invalid": 1}),
}


@pytest.mark.parametrize("what", SLIPS)
def test_a_deletion_waits_while_a_document_in_its_own_file_is_refused(what: str, followed: Followed) -> None:
    slip, place, counts = SLIPS[what]
    source = followed.source
    source.write("f0.yaml", slip)
    source.remove("f5.yaml")
    run = followed.commit()
    assert (run["outcome"], run["counts"], run["message"]) == ("partial", counts, WAITS.format(place))
    assert (statuses(run)["f5"], held(followed)) == ("deleted", ["f0"])
    assert followed.names() == ["f0", "f1", "f2", "f3", "f4"]
    # The next commit is read from what changed, and everything anew when somebody asks for it.
    source.write("f4.yaml", destination("f4", "edited"))
    run = followed.commit()
    assert (run["counts"]["configured"], run["message"], held(followed)) == (1, WAITS.format(place), ["f0"])
    followed.daemon.reconcile(followed.name)
    assert (followed.state()["state"], followed.names()) == ("prune-held", ["f0", "f1", "f2", "f3", "f4"])
    source.write("f0.yaml", destination("f0", "mended"))
    run = followed.commit()
    assert (run["outcome"], run["message"], followed.state()["state"]) == ("succeeded", None, "ready")
    assert followed.versions() == {"f0": 2, "f1": 1, "f2": 1, "f3": 1, "f4": 2}


def test_what_waits_for_its_own_file_goes_when_the_file_goes(followed: Followed) -> None:
    followed.source.write("f0.yaml", destination("f1"))
    followed.commit()
    followed.source.remove("f0.yaml")
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("succeeded", {"deleted": 1, "unchanged": 1})
    assert followed.names() == ["f1", "f2", "f3", "f4", "f5"]


def test_what_waits_for_its_own_file_goes_when_somebody_approves_it(followed: Followed) -> None:
    followed.source.write("f0.yaml", destination("f1"))
    followed.commit()
    assert followed.state()["held"]["approvable"] is True
    run = followed.approve()
    assert (run["counts"], followed.state()["state"]) == ({"deleted": 1, "invalid": 2}, "ready")
    assert followed.names() == ["f1", "f2", "f3", "f4", "f5"]


def test_what_waits_for_its_own_file_does_not_pass_to_another_repository_and_the_rest_does(
    followed: Followed, follow: Follow, tmp_path: Path
) -> None:
    other = Repository.init(tmp_path / "other")
    for name in ("f0", "f5"):
        other.write(f"{name}.yaml", destination(name, "of the other"))
    other.commit()
    second = follow(other, project=followed.project)
    second.head()
    followed.source.write("f0.yaml", destination("f1"))
    followed.source.remove("f5.yaml")
    run = followed.commit()
    assert run["message"] == (
        f"{WAITS.format('f0.yaml:1:1 is invalid')} Destination f5 passed to the repository {second.name}."
    )
    passed = {**dict.fromkeys(NAMES, 1), "f5": 2}
    until(lambda: followed.versions() == passed, "the other repository has stored its own")
    followed.source.remove("f0.yaml")
    assert f"Destination f0 passed to the repository {second.name}." in followed.commit()["message"]
    until(lambda: followed.versions() == passed | {"f0": 2}, "the other repository has stored its own")


def webhook(name: str, *, hostname: str = "a.example", token: str = "canary-one") -> str:  # noqa: S107  # no secret
    headers = f"{{name: headers, value: {{Authorization: {token}}}}}"
    parameters = f"  parameters: [{{name: hostname, value: {hostname}}}, {headers}]\n"
    return destination(name, name).replace("otlp", "webhook") + parameters


@pytest.fixture
def small(source: Repository, follow: Follow) -> Followed:
    """Four resources, the files of three in one folder."""
    for name in "abc":
        source.write(f"team/{name}.yaml", webhook(name))
    source.write("d.yaml", destination("d"))
    source.commit()
    followed = follow(source)
    assert followed.head()["counts"] == {"created": 4}
    return followed


OVER = (
    "Nothing is deleted: 3 of 4 resources would go, more than half (Destination a, Destination b, Destination c); "
    "restore them, or release this with `reconciler approve`."
)


def test_most_of_a_small_repository_is_held_until_somebody_approves_it(small: Followed) -> None:
    small.source.remove("team")
    run = small.commit()
    assert (run["outcome"], run["message"]) == ("partial", OVER)
    assert (held(small), small.names()) == (["a", "b", "c"], ["a", "b", "c", "d"])
    assert small.approve()["counts"] == {"deleted": 3}
    assert (small.names(), small.state()["state"]) == (["d"], "ready")


def test_half_of_a_small_repository_goes(small: Followed) -> None:
    small.source.remove("team/a.yaml")
    small.source.remove("team/b.yaml")
    assert small.commit()["counts"] == {"deleted": 2}


def test_most_of_a_small_repository_goes_where_the_budget_is_off(small: Followed) -> None:
    small.change(prune={"maxPercent": 100})
    small.source.remove("team")
    assert small.commit()["counts"]["deleted"] == 3  # the settings may be read with it, and then all of it is


@pytest.mark.parametrize("token", ["canary-one", "canary-two"])
def test_names_that_change_take_nothing_away_whatever_secrets_they_hold(small: Followed, token: str) -> None:
    small.source.remove("team")
    for name in "xyz":
        small.source.write(f"team/{name}.yaml", webhook(name, token=token))
    assert small.commit()["counts"] == {"created": 3, "deleted": 3}


def test_names_that_change_with_what_they_stand_for_take_it_away(small: Followed) -> None:
    small.source.remove("team")
    for name in "xyz":
        small.source.write(f"team/{name}.yaml", webhook(name, hostname="b.example"))
    run = small.commit()
    assert (run["counts"], run["message"]) == ({"created": 3}, OVER)


def test_one_new_name_stands_for_one_old_one(small: Followed) -> None:
    small.change(prune={"minCount": 10})
    small.source.remove("team")
    small.source.remove("d.yaml")
    small.source.write("x.yaml", webhook("x"))
    run = small.commit()
    assert (run["counts"], run["message"]) == (
        {"created": 1},
        OVER.replace("a, Destination b, Destination c", "d, Destination b, Destination c"),
    )
    assert held(small) == ["a", "b", "c", "d"]
