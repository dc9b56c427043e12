# The project's commands. `make` alone shows the product at work on the example repository.
# PYTHON=python3.12 chooses the interpreter; without it scripts/setup takes the first one that is new enough.

.DEFAULT_GOAL := run
.PHONY: install run test test-providers test-postgresql test-slow test-as-ordinary-user screenshots check bench bench-full soak clean

# The stamps lie inside .venv, so that removing it sets everything up again. PYTHON reaches scripts/setup as a variable.
export PYTHON
PINNED := constraints.txt pyproject.toml scripts/setup

install: .venv/installed

.venv/installed: $(PINNED)
	@scripts/setup
	@touch $@

.venv/installed-for-development: $(PINNED) | .venv/installed
	@scripts/setup development
	@touch .venv/installed $@

run: install
	@.venv/bin/reconciler demo

# Four processes for two cores, since some wait for daemons; a file stays whole, since its tests share one. Files come
# in the order of tests/conftest.py, and not those of many tests first, which are short.
test: .venv/installed-for-development
	scripts/test --numprocesses=4 --dist=loadfile --no-loadscope-reorder --ignore=tests/providers --ignore=tests/postgresql

# What a machine cannot have is not made: its script says so, and tries again the next time.
PROVIDERS := tests/providers/node_modules/.package-lock.json .venv/generators/installed .venv/glewlwyd/unpacked .venv/dex/dex \
	.venv/oracle/oracle .venv/otelcol/otelcol .venv/postgresql/unpacked .venv/helm/helm

tests/providers/node_modules/.package-lock.json: tests/providers/package-lock.json
	@scripts/setup-providers certified

.venv/generators/installed: tests/providers/generators.txt | .venv/installed
	@scripts/setup-providers clients

.venv/glewlwyd/unpacked: scripts/setup-providers | .venv/installed
	@scripts/setup-providers second

.venv/postgresql/unpacked: scripts/setup-providers | .venv/installed
	@scripts/setup-providers postgresql

.venv/dex/dex: tests/providers/dex_build/go.sum | .venv/installed
	@scripts/setup-providers dex

.venv/oracle/oracle: tests/providers/template_oracle/go.sum tests/providers/template_oracle/main.go | .venv/installed
	@scripts/setup-providers oracle

.venv/otelcol/otelcol: tests/providers/otelcol_build/go.sum tests/providers/otelcol_build/main.go | .venv/installed
	@scripts/setup-providers collector

.venv/helm/helm: tests/providers/deploy_build/go.sum tests/providers/deploy_build/main.go | .venv/installed
	@scripts/setup-providers helm

# Real identity providers, a real browser, a real Collector and a real PostgreSQL.
test-providers: .venv/installed-for-development $(PROVIDERS)
	scripts/test -m "providers and not slow" --numprocesses=3 --dist=loadfile tests/providers tests/postgresql
	TEST_STORE=postgresql scripts/test --numprocesses=3 --dist=loadfile tests/api/test_matrix.py tests/api/test_roles.py \
		tests/scenarios/attacks

# The suites that keep their stores on either engine.
test-postgresql: .venv/installed-for-development .venv/postgresql/unpacked
	TEST_STORE=postgresql scripts/test --numprocesses=3 --dist=loadfile --no-loadscope-reorder tests/api tests/planner \
		tests/reconcile tests/worker tests/scenarios/attacks tests/scenarios/interface tests/scenarios/one_writer \
		tests/scenarios/properties

test-slow: .venv/installed-for-development $(PROVIDERS) test-postgresql
	scripts/test -m "slow or providers" --numprocesses=3 --dist=loadfile --no-loadscope-reorder

# What concerns Git, where root and others differ: who owns a repository, and who may read it.
test-as-ordinary-user: .venv/installed-for-development
	scripts/test-as-ordinary-user --numprocesses=2 --dist=loadfile \
		tests/git tests/scenarios/local_cases tests/scenarios/remote_cases tests/servers tests/server/test_following.py \
		tests/reconcile/test_heads.py tests/reconcile/test_signed_heads.py tests/worker/test_sandbox.py

# FOLDER keeps every page of the console in light and dark, wide and narrow; docs/images gets the pictures of the docs.
# Records flow for six minutes first, or for MINUTES, so that the charts show some.
FOLDER ?= screenshots
screenshots: .venv/installed-for-development
	.venv/bin/python -m tests.providers.screenshots $(FOLDER) --docs docs/images $(if $(MINUTES),--minutes $(MINUTES))

check: .venv/installed-for-development
	scripts/check

bench: .venv/installed-for-development
	.venv/bin/python -m benchmarks

# BEFORE=PATH names an earlier checkout with its .venv, for the rows that compare with it.
bench-full: .venv/installed-for-development
	.venv/bin/python -m benchmarks --full $(if $(BEFORE),--before $(BEFORE))

soak: .venv/installed-for-development
	.venv/bin/python -m benchmarks.soak

clean:
	rm -rf .venv tests/providers/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
