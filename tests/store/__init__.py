"""The store's tests.

Their assertions are registered here, and not in conftest, because other tests import the promises too, perhaps first.
"""

from pathlib import Path

import pytest

pytest.register_assert_rewrite(*(f"tests.store.{one.stem}" for one in Path(__file__).parent.glob("contract_*.py")))
