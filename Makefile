# Boathouse. `make` lists the targets; `make run` and `make test` need nothing but Python >= 3.11.

PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
# Asked here too: provision.py is no Python that 3.6 could read as far as its own sentence.
OLD := Boathouse needs Python 3.11 or newer; this is %d.%d.
PROVISION = $(PYTHON) -c 'import sys; v = sys.version_info[:2]; v < (3, 11) and sys.exit("$(OLD)" % v)' \
	&& $(PYTHON) provision.py

.DEFAULT_GOAL := help
.PHONY: help run setup setup-all test test-all jars static test-one coverage test-clients test-cluster test-long check fmt demo bench bench-compare bench-pipeline dbt-tests rck s3-tests slt connector-tests trino fsck clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: ## start the server (ARGS="--port 5300 ...")
	@$(PROVISION) server
	@$(BIN)/python mini.py $(ARGS)

setup: ## prepare the server's half of .venv
	@$(PROVISION) server

setup-all: ## prepare everything: server, Spark with its jars, other clients of jobs, test tools and clients
	@$(PROVISION) server spark connect kafka test
	@$(BIN)/python -m pipeline.prepare
	@$(BIN)/python -m tests.kit.kafka_broker
	@$(BIN)/python -m tests.kit.environments

# What Python compiles is kept, whatever the environment says: the tests start hundreds of processes.
test test-all test-one test-clients test-cluster test-long coverage: export PYTHONDONTWRITEBYTECODE :=

# Tests marked `further` show more of what others show, and of those with Spark and of campaigns a
# few are marked `smoke`: ALL=1 runs the others too.
LESS = $(if $(ALL),,and not further and (smoke or not (spark or campaign)))

test: ## run the checks and the tests that each change needs; ALL=1: the whole test-suite
	@$(PROVISION) server test spark
	@$(MAKE) --no-print-directory jars & jars=$$!; \
		$(MAKE) --no-print-directory static || { code=$$?; wait $$jars; exit $$code; }; \
		if ! kill -0 $$jars 2>/dev/null; then wait $$jars || exit; jars=; fi; \
		$(BIN)/python -m pytest tests -n 3 --dist loadfile --no-loadscope-reorder \
			-m "not clients and not long and not alone $(LESS)" $(ARGS); \
		code=$$?; wait $$jars && exit $$code
	@$(BIN)/python -m pytest $$(grep -rlF mark.alone --include='test_*.py' tests) \
		-n 2 --dist loadfile --no-loadscope-reorder \
		-m "alone and not clients and not long $(LESS)" $(ARGS)

# Beside the static checks and the first tests. Kafka's jars arrive while Java writes its archive.
jars:
	@$(BIN)/python -m pipeline.prepare & spark=$$!; \
		$(BIN)/python -m tests.kit.kafka_broker; code=$$?; wait $$spark && exit $$code

test-one: ## run some tests in one process (T="tests/storage -k discard")
	@$(PROVISION) server test
	@$(BIN)/python -m pytest $(T) $(ARGS)

coverage: ## measure what started programs execute; fails if it fell
	@$(PROVISION) server test
	@rm -rf .coverage && mkdir .coverage
	@BOATHOUSE_COVERAGE=$(CURDIR)/pyproject.toml $(BIN)/python -m pytest tests/contract \
		tests/test_mini.py tests/crash/test_kill_server.py \
		-m "not spark and not clients and not long" $(ARGS)
	@$(BIN)/coverage combine -q && $(BIN)/coverage report

test-all: ## run the checks and the whole test-suite, as continuous integration does
	@$(MAKE) --no-print-directory test ALL=1

test-clients: ## the whole client matrix, with what `make test` has of it
	@$(PROVISION) server test spark
	@$(BIN)/python -m pipeline.prepare
	@$(BIN)/python -m pytest tests/contract -m "not long" $(ARGS)
	@$(BIN)/python -m pytest tests --ignore=tests/contract -m clients $(ARGS)

test-cluster: ## pipeline jobs and queries on a Spark cluster, and at a Spark Connect server, which the tests start
	@$(PROVISION) server test spark connect
	@$(BIN)/python -m pipeline.prepare
	@$(BIN)/python -m pytest tests/cluster -m cluster $(ARGS)

test-long: ## the long campaigns
	@$(PROVISION) server test spark connect
	@BOATHOUSE_ALL_EXAMPLES=1 $(BIN)/python -m pytest tests -m "long or generated" $(ARGS)

check: ## the checks: ruff, mypy, import-linter, tidy and docs tests
	@$(PROVISION) server test
	@$(MAKE) --no-print-directory static BESIDE="&& $(BIN)/python -m pytest tests/test_tidy.py tests/test_docs.py"
	@$(BIN)/python -m tests.longest

# The checks that are no tests; `make test` runs the others as its first tests.
static:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m tests.typecheck & types=$$!; \
		$(BIN)/lint-imports --no-cache $(BESIDE); \
		code=$$?; wait $$types && exit $$code

fmt: ## format the code
	@$(PROVISION) server test
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format -q .

demo: ## a real data set through Spark, read back by five clients
	@$(PROVISION) server test spark bench
	@$(BIN)/python -m tests.demo $(ARGS)

bench: ## measure against nginx, raw LMDB and raw DataFusion
	@$(PROVISION) server test bench
	@$(BIN)/python -m tests.bench $(ARGS)

bench-compare: ## measure two commits interleaved (A=commit B=commit)
	@$(PROVISION) server test bench
	@$(BIN)/python -m tests.bench --compare "$(A)" "$(B)" $(ARGS)

bench-pipeline: ## measure the pipeline beside Spark alone (ARGS="--csv-mb 200 --files 300")
	@$(PROVISION) server test spark bench
	@$(BIN)/python -m pipeline.prepare
	@$(BIN)/python -m tests.bench.pipelines $(ARGS)

s3-tests: ## score a checkout of ceph/s3-tests (S3TESTS=folder)
	@$(PROVISION) server test
	@$(BIN)/python -m tests.s3tests $(S3TESTS) $(ARGS)

slt: ## score a checkout of Embucket/rustice's Snowflake corpus (SLT=folder)
	@$(PROVISION) server test
	@$(BIN)/python -m tests.slt $(SLT) $(ARGS)

dbt-tests: ## the test classes that dbt publishes for adapters (ARGS="basic -v")
	@$(PROVISION) server test
	@$(BIN)/python -m tests.dbtsuite $(ARGS)

connector-tests: ## score a checkout of Snowflake's Python connector (CONNECTOR=folder)
	@$(PROVISION) server test
	@$(BIN)/python -m tests.connectortests $(CONNECTOR) $(ARGS)

trino: ## the Trino contract test, where a Java >= 22 is found
	@$(PROVISION) server test
	@$(BIN)/python -m pytest tests/contract/test_trino.py -m clients $(ARGS)

fsck: ## check every body, name and count of a data folder (DATA=folder ARGS="--repair")
	@$(PROVISION) server
	@$(BIN)/python mini.py fsck $(if $(DATA),--data "$(DATA)") $(ARGS)

rck: ## Iceberg's REST Compatibility Kit, fetched by Maven, against a fresh server
	@$(PROVISION) server test
	@$(BIN)/python -m tests.rck $(ARGS)

clean: ## remove caches, never data
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis bench-results
