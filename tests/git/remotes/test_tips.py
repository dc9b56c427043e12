"""Whether what was proposed has moved: known from the last looks, at most one of them every half a minute."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.proposals import MOST, SECONDS, RefCache
from tests.git.remotes.followings import place
from tests.git.remotes.proposals import PULL, followed, fork, propose
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

MAIN = "refs/heads/main"


@pytest.mark.anyio
async def test_tells_where_refs_are_as_of_the_last_half_a_minute(
    origin: Repository, tmp_path: Path, shim: Shim
) -> None:
    now = 100.0
    remotes = Remotes(lambda source: place(tmp_path / "state", source), clock=lambda: now)
    following = await followed(remotes, origin.path)
    copy = fork(origin, tmp_path / "fork")
    head, base = propose(copy, origin), origin.head()
    await following.proposing.propose(PULL)
    looks = shim.count("ls-remote")
    later, moved = propose(copy, origin, text="c"), origin.commit()
    refs = [PULL, MAIN, head, "refs/notes/x", "x"]
    assert await following.proposing.tips(refs) == {PULL: head, MAIN: base, head: head}
    assert shim.count("ls-remote") == looks
    now += SECONDS
    assert await following.proposing.tips([PULL]) == {PULL: later}
    assert await following.proposing.tips([MAIN, "refs/heads/new"]) == {MAIN: moved}  # all are asked for together
    assert shim.count("ls-remote") == looks + 1
    origin.git("update-ref", "-d", PULL)
    now += SECONDS
    assert await following.proposing.tips([PULL, "refs/heads/new"]) == {PULL: None, "refs/heads/new": None}
    assert shim.count("ls-remote") == looks + 2
    now += SECONDS
    origin.commit()
    await following.poll()  # whoever looks tells of what is followed
    assert await following.proposing.tips([MAIN]) == {MAIN: origin.head()}
    assert shim.count("ls-remote") == looks + 3
    origin.path.rename(tmp_path / "away")
    now += SECONDS
    assert await following.proposing.tips([MAIN, PULL]) == {MAIN: origin.at(tmp_path / "away").head(), PULL: None}
    await remotes.close()
    assert await following.proposing.tips(["refs/heads/other"]) == {}


NAMES = st.sampled_from([f"refs/heads/{name}" for name in "abc"])


@given(st.lists(st.tuples(NAMES, st.none() | st.sampled_from("0123"), st.integers(0, 5))))
def test_the_latest_look_counts(seen: list[tuple[str, str | None, int]]) -> None:
    tips = RefCache(lambda: 0.0)
    for ref, commit, at in seen:
        tips.note(ref, commit, at=at)
    told = tips.told({ref for ref, _, _ in seen})
    assert list(told) == sorted(told)
    for name in told:
        of_name = [(at, index, commit) for index, (ref, commit, at) in enumerate(seen) if ref == name]
        assert told[name] == max(of_name, key=lambda one: one[:2])[2]


def test_what_is_remembered_is_bounded_and_what_was_asked_for_stays() -> None:
    tips = RefCache(lambda: 0.0)
    for number in range(MOST + 10):
        tips.told(["refs/heads/0"])
        tips.note(f"refs/heads/{number}", str(number), at=number)
    assert tips.told([f"refs/heads/{number}" for number in (0, 1, MOST)]) == {
        "refs/heads/0": "0",
        f"refs/heads/{MOST}": str(MOST),
    }
    asked = tips.begin(["refs/heads/new"])
    assert (len(asked), "refs/heads/new" in asked, asked == sorted(asked)) == (MOST, True, True)
