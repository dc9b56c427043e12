# The project's commands. `make` alone shows the product at work on the example repository.
# PYTHON=python3.12 chooses the interpreter; without it scripts/setup takes the first one that is new enough.

.DEFAULT_GOAL := run
.PHONY: install run test test-slow check bench bench-full clean

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

# Two processes, so that two cores are used; a file stays whole, since its tests share a daemon.
test: .venv/installed-for-development
	scripts/test --numprocesses=2 --dist=loadfile

# pytest ends with 5 when it finds no test: a project without slow tests is no failure.
test-slow: .venv/installed-for-development
	scripts/test -m slow || [ $$? -eq 5 ]

check: .venv/installed-for-development
	scripts/check

bench: .venv/installed-for-development
	.venv/bin/python -m benchmarks

bench-full: .venv/installed-for-development
	.venv/bin/python -m benchmarks --full

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
