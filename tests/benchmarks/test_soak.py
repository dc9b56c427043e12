"""The soak, in miniature."""

import pytest

from benchmarks import figures, soak

SECONDS = 20.0


@pytest.mark.slow
def test_a_soak_of_twenty_seconds_stores_and_delivers_everything() -> None:
    seen = soak.soak(minutes=SECONDS / 60)
    assert seen.commits == round(soak.COMMITS * SECONDS / 60 / soak.MINUTES + 0.5)
    assert seen.records == round(soak.RECORDS * SECONDS / 60 / soak.MINUTES, -2)
    assert 10 < seen.runs <= seen.commits + 100
    assert seen.versions >= seen.commits // 10  # each repository's files go round, and none is left behind
    assert max(one.wal_mb for one in seen.samples) <= soak.WAL_LIMIT_MB
    # Whether memory grows is no question for twenty seconds; descriptors must not.
    grown = [what for what in figures.over(soak.figures_of(seen)) if "open files" in what]
    assert grown == []
