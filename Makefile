# `make help` lists the targets. All of them set up what they need first; when nothing has changed
# since the last time, that takes no time and no network.
#
#   PYTHON=python3.12 make setup     with another interpreter (3.11 or later)
#   make serve ARGS='--dtype float32'
#   make test ARGS='-k tree'

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/setup.stamp
PROTOS := $(wildcard protos/outrider/v1/*.proto)
CONSTRAINTS := constraints/cpu.txt
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
ARGS ?=

# Two test processes share two cores; torch in each of them must not take both.
TEST_ENV := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: help setup serve test check lint bench exactness format generated deploy-check deploy-tools clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv and install everything into it (the others do this first)

# Stubs that somebody deleted are made again.
ifeq ($(wildcard outrider/v1/generation_pb2.py),)
.PHONY: $(STAMP)
endif

$(STAMP): pyproject.toml $(CONSTRAINTS) $(PROTOS)
	@test -n "$(PYTHON)" || { echo "Outrider needs Python 3.11 or later; name one: make setup PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "Installing into $(VENV); the first time this takes a few minutes"
	@$(BIN)/python -m pip install -qq --upgrade pip
	@$(BIN)/python -m pip install -qq -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@

serve: setup ## Serve the embedded model on this machine (Ctrl-C stops it)
	@$(BIN)/outrider up $(ARGS)

test: setup ## Run all tests, with the embedded model
	$(BIN)/outrider pull
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/e2e tests $(ARGS)
	$(BIN)/python -m pytest tests/e2e $(ARGS)

check: lint ## All that must be clean before a change is shown: lint and unit tests
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal tests/unit tests/contract tests/transcripts

lint: setup ## Format, style, types, import contracts, protos, dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint protos
	$(BIN)/buf format protos --diff --exit-code
	$(BIN)/deptry .

bench: setup ## Measure speed through the whole service
	$(BIN)/outrider pull
	$(BIN)/outrider bench --serve $(ARGS)

exactness: setup ## Show that tokens equal those of the target alone
	$(BIN)/outrider pull
	$(BIN)/outrider exactness --serve $(ARGS)

format: setup ## Rewrite the sources as `make check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/buf format protos --write

generated: setup ## Write docs/settings.md and the PrometheusRule anew, from what they are made of
	$(BIN)/python -m tests.contract.generated

deploy-check: setup ## Render and check deploy/; says what this machine lacks for it
	@$(BIN)/python -m deploy.check

deploy-tools: ## Install what deploy-check wants from PyPI, into .venv-deploy
	@test -x .venv-deploy/bin/python || "$(PYTHON)" -m venv .venv-deploy
	@.venv-deploy/bin/python -m pip install -qq --upgrade pip
	@.venv-deploy/bin/python -m pip install -qq -r deploy/tools.txt

clean: ## Remove .venv, generated stubs and caches (the pulled model stays)
	rm -rf $(VENV) outrider/v1 build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
