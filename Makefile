# Everything a new machine needs is set up by the target that needs it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.ready-run
SPARK_READY := $(VENV)/.ready-spark
DEV_READY := $(VENV)/.ready-dev
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	--custom-compile-command 'make lock' pyproject.toml
COMPILED := setup.py $(wildcard src/ottla/records/native/*.pyx src/ottla/records/native/*.pxd)

.DEFAULT_GOAL := help
.PHONY: help run setup setup-spark demo test test-spark check format reference bench sim soak soak-cluster attack attack-secured soak-spark txn-diff wheel lock clean

help:  ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_READY)  ## start a broker on localhost:9092, data under ./data
	@exec $(BIN)/ottla start --data data

setup: $(RUN_READY)  ## install the command to .venv/bin/ottla, nothing else

setup-spark: $(SPARK_READY)  ## install what pipelines need too: PySpark, and Java where there is none

demo: $(SPARK_READY)  ## card payments through three brokers and Spark, live, and verified: ARGS="--chaos --seconds 90"
	@$(BIN)/ottla demo $(ARGS)

test: $(DEV_READY)  ## run every test but those of test-spark
	$(BIN)/pytest -n 3 --dist worksteal -m 'not own_jvm' $(ARGS)

test-spark: $(DEV_READY)  ## run the tests that start Spark in processes of their own: kills, managed pipelines, the demo
	$(BIN)/pytest -m own_jvm $(ARGS)

check: $(DEV_READY)  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV_READY)  ## rewrite the code as `make check` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: $(DEV_READY)  ## write the generated pages of docs/ anew: commands, Python API, settings, Kafka APIs
	$(BIN)/python scripts/mirror_admin.py
	$(BIN)/python scripts/document_cli.py
	$(BIN)/python scripts/document_api.py
	$(BIN)/python scripts/document_client_settings.py
	$(BIN)/python scripts/document_config.py
	$(BIN)/python scripts/document_apis.py

bench: $(DEV_READY)  ## measure, beside Apache Kafka where its jars can be had
	$(BIN)/python -m bench $(ARGS)

sim: $(DEV_READY)  ## clusters in storms, 1,000 seeds: SEED=... replays one, RUNS=... how many, SCENARIO=single-node
	$(BIN)/python -m ottla.sim $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)) \
		$(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(NODES),--nodes $(NODES)) $(if $(LIVES),--lives $(LIVES)) \
		$(if $(QUORUM),--quorum $(QUORUM)) $(if $(COMPACTION),--compaction $(COMPACTION))

soak: $(DEV_READY)  ## exactly once under kill -9 of everyone: ROUNDS=... kills, SEED=... makes the same choices
	$(BIN)/python tests/faults/exactly_once.py --kills $(or $(ROUNDS),50) $(if $(SEED),--seed $(SEED))
	$(BIN)/python tests/faults/exactly_once.py --kills $(or $(ROUNDS),50) $(if $(SEED),--seed $(SEED)) --protocol consumer

soak-cluster: $(DEV_READY)  ## a cluster of three under kills, freezes and cuts: ROUNDS=..., SEED=... makes the same choices
	$(BIN)/python tests/cluster/cluster_faults.py --rounds $(or $(ROUNDS),30) $(if $(SEED),--seed $(SEED))

txn-diff: $(DEV_READY)  ## transaction loops on three nodes of Kafka and of Ottla: TRANSACTIONS=... of each scenario, SEED=...
	$(BIN)/python tests/interop/transaction_loops.py --transactions $(or $(TRANSACTIONS),10000) $(if $(SEED),--seed $(SEED)) $(ARGS)

attack: $(DEV_READY)  ## hostile clients beside a normal one, whose p99 is measured: MINUTES=... on one node and on three
	$(BIN)/python tests/faults/attacks.py --minutes $(or $(MINUTES),10) --nodes 1 $(ARGS)
	$(BIN)/python tests/faults/attacks.py --minutes $(or $(MINUTES),10) --nodes 3 $(ARGS)

attack-secured: $(DEV_READY)  ## the same with 1,000 refused attempts a second on a secured broker: sign-ins, handshakes, requests
	$(BIN)/python tests/faults/attacks_secured.py --minutes $(or $(MINUTES),2) --nodes 1 $(ARGS)
	$(BIN)/python tests/faults/attacks_secured.py --minutes $(or $(MINUTES),2) --nodes 3 $(ARGS)

soak-spark: $(DEV_READY)  ## the Spark sink exactly once, crashed at each step: ROUNDS=... crashes, SEED=...
	$(BIN)/python tests/spark/sink_crashes.py --crashes $(or $(ROUNDS),40) $(if $(SEED),--seed $(SEED))

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer; name one with PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(RUN_READY): $(VENV)/bin/python requirements/run.lock pyproject.toml $(COMPILED)
	$(INSTALL) --require-hashes -r requirements/run.lock
	$(INSTALL) --no-deps --editable .
	@touch $@

# PySpark is a download of some 400 MB. Java comes with it, by pip, only where there is none.
$(SPARK_READY): $(RUN_READY) requirements/spark.lock requirements/java.lock
	$(INSTALL) --require-hashes -r requirements/spark.lock
	@$(BIN)/python -c 'from ottla.spark.java import find_java; find_java()' 2>/dev/null \
		|| $(INSTALL) --require-hashes -r requirements/java.lock
	@touch $@

$(DEV_READY): $(RUN_READY) requirements/dev.lock
	$(INSTALL) --require-hashes -r requirements/dev.lock
	@touch $@

wheel: $(VENV)/bin/python  ## build sdist and wheel to dist/, and try each in an empty environment
	$(BIN)/python scripts/build_wheel.py $(ARGS)

lock: $(VENV)/bin/python  ## refresh requirements/*.lock from pyproject.toml
	$(INSTALL) uv
	$(COMPILE) -o requirements/run.lock
	$(COMPILE) -c requirements/run.lock --extra spark -o requirements/spark.lock
	$(COMPILE) -c requirements/run.lock --extra java -o requirements/java.lock
	$(COMPILE) -c requirements/spark.lock --extra spark --group dev -o requirements/dev.lock

clean:  ## remove everything that make has made
	rm -rf $(VENV) build dist src/ottla/records/native/*.so *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
