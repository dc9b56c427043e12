"""How long properties are tried: the same few examples in every `make test`, and more of the same where it may be slow.

EXAMPLES=5000 tries so many, new ones each time, for as long as that takes.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

SMALL = settings(
    max_examples=6,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # the large profile, which keeps what it finds, makes a small example of a failure
    suppress_health_check=list(HealthCheck),
)
LARGE = settings(
    max_examples=int(os.environ.get("EXAMPLES", "60")),
    stateful_step_count=20,
    deadline=None,
    derandomize="EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
profiles = pytest.mark.parametrize(
    "profile", [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)], ids=["small", "large"]
)
