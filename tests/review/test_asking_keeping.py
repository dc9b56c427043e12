"""Plans are kept as long as there is room for them, and the oldest go first."""

from reconciler.model.plan import PlanEntry, PlanTip
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from reconciler.review.kept_plans import OF_ONE, EncodedPlan, KeptPlan, PlanQuestion, PlanShelf
from tests import entries

WATCHED = entries.watched("telemetry", "/srv/git/telemetry.git")
BASE = PlanTip(ref="refs/heads/main", commit="b" * 40)


def question(head: str = "topic", secrets: AvailableSecrets = NO_SECRETS) -> PlanQuestion:
    return PlanQuestion(WATCHED, base=BASE, head=PlanTip(ref=f"refs/heads/{head}", commit="c" * 40), secrets=secrets)


def kept(name: str, *, size: int = 0, revision: int = 1, asked: PlanQuestion | None = None) -> KeptPlan:
    statuses = (b"x" * size,)
    return KeptPlan(
        name,
        asked or question(name),
        digest="",
        revision=revision,
        created_at="2026-11-21T06:12:00.123Z",
        merge_base="b" * 40,
        behind=0,
        ahead=1,
        found=EncodedPlan(PlanEntry(name="telemetry"), {}, statuses, statuses),
    )


def names(shelf: PlanShelf) -> list[str]:
    return [one.id for one in shelf.newest()]


def test_the_oldest_go_when_there_are_too_many() -> None:
    shelf = PlanShelf(most=2)
    for name in "abc":
        shelf.put(kept(name))
    assert names(shelf) == ["c", "b"]
    assert shelf.get("a") is None
    assert shelf.find(question("a"), revision=1) is None


def test_the_oldest_go_when_they_take_too_much() -> None:
    shelf = PlanShelf(most_bytes=3 * OF_ONE + 3_000)
    for name in "abcd":
        shelf.put(kept(name, size=1_000))
    assert names(shelf) == ["d", "c", "b"]
    shelf.put(kept("e", size=2 * 1_000 + OF_ONE))
    assert names(shelf) == ["e", "d"]


def test_what_is_larger_than_all_the_room_is_not_kept_and_costs_nobody_a_place() -> None:
    shelf = PlanShelf(most_bytes=OF_ONE + 1_000)
    shelf.put(kept("a", size=10))
    shelf.put(kept("b", size=1_001))
    assert names(shelf) == ["a"]


def test_the_same_question_is_answered_by_the_plan_of_the_same_revision() -> None:
    shelf = PlanShelf()
    shelf.put(kept("a", asked=question()))
    shelf.put(kept("b", asked=question(), revision=2))
    found = [shelf.find(question(), revision=revision) for revision in (1, 2, 3)]
    assert [one and one.id for one in found] == ["a", "b", None]
    assert shelf.find(question("other"), revision=1) is None
    assert shelf.find(question(secrets=AvailableSecrets(env=frozenset({"NEW"}))), revision=1) is None


def test_a_newer_answer_outlives_the_older_one_to_the_same_question() -> None:
    shelf = PlanShelf(most=2)
    shelf.put(kept("a", asked=question()))
    shelf.put(kept("b", asked=question()))
    shelf.put(kept("c"))
    found = shelf.find(question(), revision=1)
    assert found is not None
    assert found.id == "b"


def test_both_views_count_where_they_differ() -> None:
    found = EncodedPlan(PlanEntry(name="telemetry"), {}, (b"12345", b"same"), (b"123", b"same"))
    assert found.size >= 5 + 4 + 3
