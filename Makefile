# Every verb of the repository. `make` alone lists them.

# Branch coverage below which `make test` fails, in percent: of core and controllers, of everything.
COVERAGE_PURE := 100
COVERAGE_ALL  := 90

PYTHON ?= python3
BIN    := .venv/bin
UV     := $(shell command -v uv 2>/dev/null)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The project is the one in this folder, whatever environment the caller is in.
unexport VIRTUAL_ENV
# Tests and benchmarks start hundreds of processes, which must not compile everything again.
unexport PYTHONDONTWRITEBYTECODE

ifdef UV
INSTALL := uv pip install --quiet --python $(BIN)/python
else
INSTALL := $(BIN)/python -m pip install --quiet
endif

.DEFAULT_GOAL := help
.PHONY: help setup fmt lint types test test-slow sim mutants storm bench ui docs demo lock clean

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.installed ## Create .venv from the locked requirements and install Servo into it, editable

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11; run make PYTHON=/path/to/python3.11 setup" >&2; exit 1; }
	$(if $(UV),uv venv --quiet --clear --python $(PYTHON) .venv,$(PYTHON) -m venv --clear .venv)

.venv/.locked: requirements/dev.txt | $(BIN)/python
	$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

.venv/.installed: pyproject.toml .venv/.locked
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

fmt: setup ## Format, and apply the fixes that are safe
	$(BIN)/ruff check --fix --exit-zero --quiet
	$(BIN)/ruff format

lint: setup ## Check style, format and import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

# Named, because a pyrightconfig.json in any folder above would win over the settings here.
types: setup ## Check types, strictly
	$(BIN)/basedpyright --project pyproject.toml

# The order of `make test`, always the same. With ARGS only a part runs, so coverage would say nothing.
ORDER := --randomly-seed=1

ifdef ARGS
test: setup
	$(BIN)/pytest $(ORDER) $(ARGS)
else
test: setup ## Run the tests and check coverage, the same way each time; ARGS="-k word tests/unit" runs some
	$(BIN)/pytest -n auto -m 'not slow' $(ORDER) --cov --cov-report=
	$(BIN)/coverage report --fail-under=$(COVERAGE_ALL)
	@echo 'Core and controllers:'
	$(BIN)/coverage report --include='src/servo/core/*,src/servo/controllers/*' \
		--fail-under=$(COVERAGE_PURE)
endif

# A new seed each time, unless one is given.
ifneq ($(filter test-slow,$(MAKECMDGOALS)),)
SEED ?= $(shell od -An -N2 -tu2 /dev/urandom | tr -d ' ')
SEED := $(SEED)
endif
EXPLORE = --hypothesis-profile=explore --hypothesis-seed=$(SEED) --randomly-seed=$(SEED)
BOUNDED := $(if $(shell command -v timeout),timeout --foreground --signal=INT --kill-after=1m 18m)

test-slow: setup ## Explore from a new SEED: more examples, whole processes, kills, simulated worlds
	@echo 'SEED=$(SEED)'
	@$(BOUNDED) $(BIN)/pytest -n auto -m 'slow or hypothesis' $(EXPLORE) || { \
		echo 'Repeat all of it: make test-slow SEED=$(SEED)' >&2; \
		echo 'One test: make test ARGS="$(EXPLORE) path/to/test.py::test_name"' >&2; exit 1; }
	$(BIN)/python -m simulation --world plain --seeds $(SEED):$$(($(SEED) + 40))
	$(BIN)/python -m simulation --world triggers --seeds $(SEED):$$(($(SEED) + 10))
	$(BIN)/python -m simulation --world backfills --seeds $(SEED):$$(($(SEED) + 10))
	$(BIN)/python -m simulation --world commands --seeds $(SEED):$$(($(SEED) + 20))
	$(BIN)/python -m simulation --world disks --seeds $(SEED):$$(($(SEED) + 40))

SEEDS ?= 0:200
sim: setup ## Simulate: SEEDS=0:200, WORLD=name, BUG=name plants a known bug, TRACE=1 prints every step
	$(BIN)/python -m simulation --seeds $(SEEDS) \
		$(if $(WORLD),--world $(WORLD)) $(if $(BUG),--bug $(BUG)) $(if $(TRACE),--trace)

# The tool is installed here and not by `make setup`, which everybody waits for.
.venv/.mutants: requirements/mutants.txt .venv/.installed
	$(INSTALL) --require-hashes -r requirements/mutants.txt
	@touch $@

mutants: .venv/.mutants ## Do tests notice mutants? SAMPLE=120 SEED=1, ONLY=leader/engine.py, RESUME=1 goes on
	$(BIN)/python -m tests.mutants --sample $(or $(SAMPLE),120) --seed $(or $(SEED),1) \
		$(if $(ONLY),--only $(ONLY)) $(if $(RESUME),--resume)

SIGNALS ?= 1000
storm: setup ## Kill processes of two machines on one store: SIGNALS=1000 SEED=1, S3=1 in a bucket
	$(BIN)/python -m tests.storm --signals $(SIGNALS) --seed $(or $(SEED),1) $(if $(S3),--s3)

bench: setup ## Measure; ONLY=name measures one
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

ui: ## Build the web app
	@echo 'There is no web app yet, so there is nothing to build.'

docs: setup ## Check the documentation, run its snippets and build its site into build/site
	$(BIN)/python docs/build.py

demo: setup ## Run a small shop in servo-demo: kill a worker, kill everything, resume, SQL
	$(BIN)/servo demo

# uv comes from PATH or from the environment it may have been installed into.
lock: COMPILE = $(or $(UV),$(wildcard $(BIN)/uv)) pip compile --quiet --universal \
	--python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)
lock: ## Write requirements/*.txt anew from pyproject.toml; UPGRADE=1 takes newer versions
	@test -n '$(or $(UV),$(wildcard $(BIN)/uv))' || \
		{ echo 'make lock needs uv; install it (pip install uv) and run it again' >&2; exit 1; }
	$(COMPILE) pyproject.toml -o requirements/runtime.txt
	$(COMPILE) pyproject.toml requirements/build.in --group dev -c requirements/runtime.txt \
		-o requirements/dev.txt
	$(COMPILE) --group mutants -c requirements/dev.txt -o requirements/mutants.txt
	@! grep -nE '://|file:|^--|$(CURDIR)' requirements/*.txt || \
		{ echo 'the lines above name a place on this machine or network; remove them' >&2; exit 1; }

clean: ## Remove everything that was built, .venv too
	rm -rf .venv dist build htmlcov .coverage .coverage.* .hypothesis .pytest_cache .ruff_cache \
		.import_linter_cache servo-demo
	find $(wildcard src tests benchmarks docs) -name __pycache__ -type d -prune -exec rm -rf {} +
