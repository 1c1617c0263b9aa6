# Every target that needs tools calls `setup` first; on a fresh machine Python 3.11+ with its venv module and make are
# enough (Java 17 as well for the Spark replay). `make help` lists what there is.

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell command -v $(p) 2>/dev/null)))
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.setup-stamp
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
UV     ?= uv
PYTEST := $(BIN)/python -m pytest

# Python keeps the bytecode of what it imports, whatever the shell around make says: tests and benchmarks start hundreds of
# processes, and one that compiles kraftd anew takes twice as long until it runs.
unexport PYTHONDONTWRITEBYTECODE

# Extra words for pytest or the benchmark: `make test ARGS="-k election"`, `make bench ARGS="--peer etcd"`.
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test conformance check check-format check-lint check-types check-imports check-proto slices \
        chaos crashpoints hostile sabotage sim interop brokers conformance-kafka kafka readme proto rewrite format bench lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { count = split($$2, words, " "); line = sprintf("  make %-17s", $$1); \
	  for (at = 1; at <= count; at++) { \
	    if (length(line) + 1 + length(words[at]) > 80) { print line; line = sprintf("%24s", "") } \
	    line = line " " words[at] } \
	  print line }' Makefile

setup: $(STAMP) ## Make .venv from the lock files; does nothing when nothing changed

# The build tools come first and from a lock of their own, so that what is built from source (pyspark) is built with
# pinned tools too: nothing is installed that no hash vouches for.
$(STAMP): requirements/build.lock requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kraftd needs Python 3.11 or newer; name one: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module; on Debian: apt-get install python3-venv"; exit 1; }
	@test -x $(BIN)/python || \
	  { echo "setup 1/4: $(VENV), an environment of $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@echo "setup 2/4: the build tools, from requirements/build.lock"
	@$(PIP) install --require-hashes -r requirements/build.lock
	@echo "setup 3/4: all packages, from requirements/dev.lock; the first time some minutes, as Spark is 400 MB"
	@$(PIP) install --require-hashes --no-build-isolation -r requirements/dev.lock
	@echo "setup 4/4: kraftd itself, from this directory"
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

demo: setup ## Three nodes on this machine: elections, kill -9, resign, export, Spark replay
	@$(BIN)/python scripts/demo.py $(ARGS)

test: setup ## All tests that are quick (under 15 minutes on 2 cores)
	$(PYTEST) -m "not slow" -n auto --dist loadfile $(ARGS)

# Side by side, and one more than there are cores: the daemons of chaos wait much, the seeds compute. What a real Kafka
# judges is `make interop` and `make brokers`.
slices: setup ## A slice of every slow suite, on all cores (15 minutes on 2)
	$(PYTEST) -m slow --ignore tests/interop --ignore tests/brokers \
	  --ignore tests/conformance_kafka -n $$(($$(nproc) + 1)) --dist loadgroup $(ARGS)

MINUTES ?= 1
chaos: setup ## Real daemons, hurt every few seconds, for MINUTES=1; BROKERS=3 for Kafka's too; SEED=n for a run that is alike
	$(BIN)/python -m tests.chaos.run --minutes $(MINUTES) $(if $(BROKERS),--brokers $(BROKERS)) $(if $(SEED),--seed $(SEED))

interop: setup ## Our records and rules against a real Kafka's (Java 17 and Maven)
	$(PYTEST) tests/interop tests/conformance_kafka -m slow -n auto --dist loadfile $(ARGS)

brokers: setup ## Real Kafka brokers on our controllers, or with ARGS="--controllers kafka" on Kafka's own
	$(PYTEST) tests/brokers -n auto --dist loadfile $(ARGS)

OPS ?= 1500
conformance-kafka: setup ## The same operations on our controller and on Kafka's own: SEED=n, SEEDS=n, OPS=m, ARGS="--script FILE" (Java 17 and Maven)
	$(BIN)/python -m tests.conformance_kafka.run $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) --ops $(OPS) $(ARGS)

kafka: setup ## Three controllers and a real Kafka broker on this machine, until interrupted: ARGS="--brokers 3" for more
	@$(BIN)/python scripts/kafka.py $(ARGS)

conformance: setup ## Each behaviour of Kafka's quorum and each rule of ours, with the tests that cover it
	$(BIN)/python -m tests.conformance

crashpoints: setup ## Every state a power cut can leave, and every single fault: ARGS="--state NAME" for one
	$(BIN)/python -m tests.crash.crashpoints $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tests.crash.matrix)

hostile: setup ## Every attack and a million fuzzed frames against real daemons: ARGS="NAME ..." for some attacks
	$(BIN)/python -m tests.hostile.run $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tests.hostile.fuzz)

sabotage: setup ## Old bugs put back one by one: each must be caught; ARGS="NAME ..." for some of them
	$(BIN)/python -m tests.sabotage.run $(ARGS)

SIM = $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(HOURS),--hours $(HOURS))
sim: setup ## Simulated clusters: SEED=n replays one, SEEDS=n runs many, HOURS=h for so long
	$(BIN)/python -m tests.sim.run $(strip $(SIM) $(ARGS))

check: check-format check-lint check-types check-imports check-proto ## Format, lint, types, import law, generated code

check-format: setup
	$(BIN)/ruff format --check .

check-lint: setup
	$(BIN)/ruff check .

check-types: setup
	$(BIN)/mypy
	MYPYPATH=benchmarks:proto $(BIN)/mypy --explicit-package-bases $(wildcard benchmarks/*.py scripts/*.py proto/*.py)

check-imports: setup
	$(BIN)/lint-imports --no-logo

check-proto: setup
	$(BIN)/python proto/generate.py --check

proto: setup ## Generate the message and record classes from proto/
	$(BIN)/python proto/generate.py

rewrite: setup ## Accept the golden traces of the stories and the table of states by events; the diff is the review
	$(PYTEST) tests/stories tests/unit/raft/test_reactions.py --rewrite $(ARGS)

format: setup ## Format and mend what can be mended by a tool
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

readme: setup ## Run the commands of README.md
	$(BIN)/python scripts/readme.py

bench: setup ## Measure this quorum, with ARGS="--peer etcd --peer kafka" against others
	$(BIN)/python benchmarks/quorum.py $(ARGS)

LOCK = $(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url
lock: ## Write requirements/*.lock anew from pyproject.toml (needs uv)
	$(LOCK) --group build --output-file requirements/build.lock
	$(LOCK) pyproject.toml --output-file requirements/runtime.lock
	$(LOCK) pyproject.toml --extra replay --group dev --output-file requirements/dev.lock

clean: ## Remove everything that a target made, .venv included
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks \
	  spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
