# Windlass: every command a contributor needs. `make` alone lists them.
#
# Variables:  PYTHON=python3.12    the interpreter for .venv (default: the first 3.11+ found)
#             VENV=.venv           where the environment lives
#             JOBS=6               test processes (0 runs the tests in one process)
#             ARGS="-k retry -x"   passed on to pytest, to the demo, to the benchmarks or to the resolver

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV ?= .venv
JOBS ?= 6
ARGS ?=
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11 python3.14 python,$(if $(shell $(p) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(p))))

BIN := $(VENV)/bin
STAMP := $(VENV)/.windlass-ready
SERVERS := $(VENV)/.windlass-servers
PINS := requirements/dev.txt
MATRIX := 3.11 3.12 3.13

# A run of the tests starts a thousand processes: what they import is compiled once, even where the environment says to
# leave no compiled files, and then beside no source.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX="$(abspath $(VENV))/.compiled" $(BIN)/python -m pytest

.PHONY: help
help: ## list the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ---- the environment -------------------------------------------------------------------------------------------

.PHONY: venv
venv: $(STAMP) ## create or refresh .venv: the pinned tools, then this checkout (editable)

$(BIN)/python:
	@if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  echo "Windlass needs Python 3.11 or later, and $(if $(PYTHON),'$(PYTHON)' is not that,none was found on the PATH)." >&2; \
	  echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name one: make PYTHON=/path/to/python3.12 ..." >&2; \
	  exit 1; fi
	@echo "==> Creating $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv "$(VENV)" || { \
	  rm -rf "$(VENV)"; \
	  echo >&2; \
	  echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu the module comes in its own package:" >&2; \
	  echo "    apt-get install python3-venv" >&2; \
	  exit 1; }

# uv is one of the pins, so a refresh goes through it; pip is the way in, and the way out if uv cannot reach an index.
# The checkout was once installed as `windlass`: both at a time would own the same command.
$(STAMP): $(PINS) pyproject.toml | $(BIN)/python
	@echo "==> Installing $(PINS) into $(VENV) (a minute the first time)"
	@{ [ -x $(BIN)/uv ] && $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(PINS); } \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(PINS)
	@echo "==> Installing this checkout, editable"
	@$(BIN)/uv pip uninstall --quiet --python $(BIN)/python windlass 2>/dev/null || true
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --offline -e .
	@touch $@

# Tried once by itself: a machine that cannot have them must not wait for apt-get at every run. `make servers` tries again.
$(SERVERS): tests/servers/install.sh | $(BIN)/python
	@tests/servers/install.sh
	@touch $@

.PHONY: servers
servers: ## install redis-server, chromium, nginx and promtool where missing (Debian, Ubuntu; starts no service)
	@tests/servers/install.sh

.PHONY: pins
pins: $(STAMP) ## resolve requirements/dev.in again and write dev.txt (ARGS=--upgrade for newer versions)
	$(BIN)/uv pip compile --quiet $(ARGS) --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url requirements/dev.in -o $(PINS)

# ---- the work --------------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(STAMP) ## see Windlass work: a short tour in the terminal
	$(BIN)/python -m examples.demo $(ARGS)

.PHONY: test
test: $(STAMP) $(SERVERS) ## run the tests: each rule once per kind of engine
	$(PYTEST) tests -m "not soak and not again" -n $(JOBS) $(ARGS)

.PHONY: test-all
test-all: $(STAMP) $(SERVERS) ## the same in full, and the rules once more on Valkey, Cluster and Sentinel
	WINDLASS_THOROUGH=1 $(PYTEST) tests -m "not soak" -n $(JOBS) $(ARGS)

.PHONY: check
check: $(STAMP) ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy windlass $(wildcard tests/typing)
	$(BIN)/python -m pytest -q tests/test_layers.py

.PHONY: format
format: $(STAMP) ## rewrite the sources in the house format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(STAMP) ## run the benchmarks
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: faults
faults: $(STAMP) $(SERVERS) ## kill, pause and cut for a long time
	$(PYTEST) tests -m soak --timeout 3600 $(ARGS)

# Each interpreter gets its own .venv-3.x. A pyenv shim that exists but does not run is tried by pyenv's own list.
.PHONY: matrix
matrix: ## unit and conformance tests on every Python found
	@summary=""; failed=0; \
	for v in $(MATRIX); do \
	  select=""; \
	  if ! python$$v --version >/dev/null 2>&1 && command -v pyenv >/dev/null 2>&1; then \
	    select=$$(pyenv whence python$$v 2>/dev/null | tail -n 1); fi; \
	  if ! env $${select:+PYENV_VERSION=$$select} python$$v --version >/dev/null 2>&1; then \
	    echo "==> python$$v: skipped, no such interpreter on the PATH"; \
	    summary="$$summary $$v:skipped"; continue; fi; \
	  echo "==> python$$v"; \
	  if env $${select:+PYENV_VERSION=$$select} $(MAKE) --no-print-directory VENV=.venv-$$v PYTHON=python$$v matrix-one; \
	  then summary="$$summary $$v:passed"; else summary="$$summary $$v:FAILED"; failed=1; fi; \
	done; \
	echo "==> matrix:$$summary"; exit $$failed

.PHONY: matrix-one
matrix-one: $(STAMP) $(SERVERS)
	$(PYTEST) $(wildcard tests/unit tests/conformance) -m "not soak" -n $(JOBS) $(ARGS)

.PHONY: clean
clean: ## remove environments, caches and build results
	rm -rf .venv .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
