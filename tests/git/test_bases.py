"""How two histories lie to each other."""

from pathlib import Path

import pygit2
import pytest

from reconciler.git import merging
from tests.repositories import Repository


def test_are_not_related_without_a_common_commit(tmp_path: Path) -> None:
    repository = Repository.init(tmp_path)
    first = repository.commit()
    repository.restart()
    second = repository.commit()
    assert merging.history_relation(pygit2.Repository(str(tmp_path)), first, second) is None


def test_are_counted_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MAX_COUNTED", 3)
    monkeypatch.setattr(merging, "MAX_WALKED", 5)
    repository = Repository.init(tmp_path)
    first = repository.commit()
    tree = repository.git("rev-parse", "HEAD^{tree}")
    tip = first
    for number in range(8):
        tip = repository.git("commit-tree", "-m", str(number), f"-p{tip}", tree)
    opened = pygit2.Repository(str(tmp_path))
    assert merging.history_relation(opened, first, tip) == ((first,), 0, 3)
    assert merging.history_relation(opened, tip, first) == ((first,), 3, 0)
