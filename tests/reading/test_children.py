"""How long jobs may take."""

from typing import get_args

from reconciler.reading.children import SECONDS
from reconciler.reading.messages import Job, RedactJob, RequestJob


def test_every_job_has_a_limit_and_nobody_who_asks_over_http_waits_without_one() -> None:
    assert set(SECONDS) == set(get_args(Job))
    assert [SECONDS[job].wait for job in (RequestJob, RedactJob)] == [60.0, 60.0]
