"""The store's tests. Here, and not in conftest, because other tests import the promises, too, and perhaps first."""

import pytest

# The store's tests. Here, and not in conftest, because other tests import the promises, too, and perhaps first.

pytest.register_assert_rewrite(
    "tests.store.contract_access",
    "tests.store.contract_commits",
    "tests.store.contract_lineages",
    "tests.store.contract_processes",
    "tests.store.contract_prunes",
    "tests.store.contract_reads",
    "tests.store.contract_redactions",
    "tests.store.contract_references",
    "tests.store.contract_statuses",
    "tests.store.contract_suite",
    "tests.store.contract_suspensions",
)
