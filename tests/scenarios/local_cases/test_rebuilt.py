"""A mirror that was made anew has the packs that it had: what was read of the damaged ones counts no more."""

from pathlib import Path

from tests.daemons import Followed
from tests.scenarios.local_cases.expectations import recovers


def packs(followed: Followed) -> list[Path]:
    """Those of the mirror that was made last."""
    made = (followed.daemon.state / "mirrors").glob("[!.]*/config")
    mirror = max(made, key=lambda path: path.stat().st_mtime_ns).parent
    return sorted((mirror / "objects/pack").glob("*.pack"))


def test_a_head_that_was_read_is_read_again_after_its_pack_was_damaged_and_made_anew(followed: Followed) -> None:
    names = [pack.name for pack in packs(followed)]
    for _ in range(2):
        for pack in packs(followed):
            pack.chmod(0o600)
            with pack.open("r+b") as file:
                file.seek(20)
                file.write(bytes(60))
        answer = followed.daemon.post(f"/v1/repositories/{followed.name}/reconcile", {})
        run = followed.daemon.finished(answer.body["run"])
        assert (run["outcome"], run["message"]) == ("succeeded", None)
        assert [pack.name for pack in packs(followed)] == names
    recovers(followed)
