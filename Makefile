# Boathouse. `make` lists the targets; `make run` and `make test` need nothing but Python >= 3.11.

PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run setup setup-all test test-clients test-long check fmt demo bench trino clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: ## start the server (ARGS="--port 5300 ...")
	@$(PYTHON) provision.py server
	@$(BIN)/python mini.py $(ARGS)

setup: ## prepare the server's half of .venv
	@$(PYTHON) provision.py server

setup-all: ## prepare everything: server, Spark with its jars, test tools and clients
	@$(PYTHON) provision.py server spark test
	@$(BIN)/python -m pipeline.jars
	@$(BIN)/python -m tests.kit.environments

test: ## run the whole test-suite (the first time, prepare everything)
	@$(PYTHON) provision.py server test spark
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest tests -m "not spark and not clients and not long" \
		--ignore=tests/test_tidy.py --ignore=tests/test_docs.py $(ARGS)
	@$(BIN)/python -m pipeline.jars
	@$(BIN)/python -m pytest tests -m "spark and not clients and not long" $(ARGS)

test-clients: ## the wide client matrix
	@$(PYTHON) provision.py server test spark
	@$(BIN)/python -m pytest tests -m clients $(ARGS)

test-long: ## the long campaigns
	@$(PYTHON) provision.py server test spark
	@$(BIN)/python -m pytest tests -m long $(ARGS)

check: ## house rules: ruff, mypy, import-linter, tidy and docs tests
	@$(PYTHON) provision.py server test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m pytest tests/test_tidy.py tests/test_docs.py

fmt: ## format the code
	@$(PYTHON) provision.py server test
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format -q .

demo: ## a real data set through Spark, read back by five clients
	@$(PYTHON) provision.py server test spark
	@$(BIN)/python -m tests.demo $(ARGS)

bench: ## measure against nginx, raw LMDB and raw DataFusion
	@$(PYTHON) provision.py server test
	@$(BIN)/python -m tests.bench $(ARGS)

trino: ## the Trino contract test, where a Java >= 22 is found
	@$(PYTHON) provision.py server test
	@$(BIN)/python -m pytest tests/contract/test_trino.py -m clients $(ARGS)

clean: ## remove caches, never data
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis bench-results
