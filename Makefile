# The usual commands. On Debian and Ubuntu each installs what it needs first.

PYTHON ?= python3
export PYTHON

BIN := .venv/bin
STAMP := .venv/.installed
CLUSTER_STAMP := .venv/.cluster-installed
DOCS_STAMP := .venv/.docs-installed
SOURCES := .ci/venv setup.py pyproject.toml $(wildcard requirements/*.txt) $(shell find patches -type f -not -path '*/.*' -not -path '*/__pycache__/*')
SUITE := not attack and not chaos and not poison and not outage and not fuzz and not hostile and not soak
UNMARKED := $(SUITE) and not zk and not redis and not postgresql and not mariadb and not browser and not slow
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Workers; most tests wait for a service, so there may be more than cores. conftest puts the files that
# take long first, which stays so without reordering.
WORKERS ?= 4

.PHONY: help attack bench demo deploy-test up test test-python lint check audit lock chaos poison outages fuzz hostile soak docs pictures clean

help:
	@echo "make demo   crawl Python's documentation with three schedulers, kill one, lose no page"
	@echo "            (SITE=folder or START_URL=http://... for another site)"
	@echo "make up     run a cluster on this machine until Ctrl-C, its data in ./data"
	@echo "make test   all tests, with real servers of their own"
	@echo "make test-python  the tests that need no service, in another Python (PYTHON=python3.13)"
	@echo "make check  format, lint, types, imports and the tests that need no service"
	@echo "make audit  known vulnerabilities in locked packages, and whether the lock files are consistent"
	@echo "make lock   rewrite the lock files (LOCK=--upgrade for the newest of everything)"
	@echo "make chaos  faults on a real cluster, as root (SECONDS=60 SEED=1)"
	@echo "make attack   strangers, viewers and other sites against running clusters, as root"
	@echo "make deploy-test  a composed cluster on a Docker engine: scaled, broken, upgraded (ONLY='scale kill')"
	@echo "make poison   bad input in every znode, key, queue, row and call of a running cluster"
	@echo "make outages  each database, Redis and ZooKeeper unavailable for a while, alone and in pairs"
	@echo "make hostile  a hostile site and strangers' load beside a healthy crawl (ONLY='gzip drip')"
	@echo "make fuzz     mutated input to five interfaces of a running cluster (SECONDS=60 SEED=1"
	@echo "              WHAT=xmlrpc,http,webdav,queues,records)"
	@echo "make soak     the searches that take minutes, random examples (SEED=...), and test-python"
	@echo "              on a Debian 13; as root"
	@echo "make bench    what a scheduler achieves and costs, beside pyspider's and Scrapy's: ten minutes"
	@echo "              (FULL=1: 2.5 hours; ONLY=full_cycle; build/bench.json, build/performance.md)"
	@echo "make docs   build the documentation as a site, in build/site"
	@echo "make pictures  take the documentation's screenshots of the operations page"
	@echo "make clean  remove the virtual environment and what the tools leave behind"

demo: prepare-demo $(CLUSTER_STAMP)
	$(BIN)/pyspider-zk demo $(if $(SITE),--site '$(SITE)') $(if $(START_URL),--start-url '$(START_URL)')

up: prepare-up $(CLUSTER_STAMP)
	$(BIN)/pyspider-zk up

test: prepare-test prepare-databases prepare-browser prepare-deploy prepare-chaos $(STAMP)
	$(BIN)/python -m pytest -m '$(SUITE)' $(PARALLEL)

# In an environment of its own, beside .venv.
test-python: OTHER = .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
test-python: prepare-test
	.ci/venv test $(OTHER)
	$(OTHER)/bin/python -m pytest -m '$(UNMARKED)' $(PARALLEL)

lint: prepare-test $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint
	$(BIN)/python -m pytest -m '$(UNMARKED)' $(PARALLEL)

audit: prepare-test $(STAMP)
	$(BIN)/python -m pytest -q tests/test_supply_chain.py
	$(BIN)/python -m pip check
	$(BIN)/python .ci/audit.py

# Not after .venv: with lock files that are out of step there would be none.
lock:
	.ci/lock $(LOCK)

# Needs Linux and root: every scheduler and every ZooKeeper gets a network namespace of its own.
chaos: prepare-chaos $(STAMP)
	$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1)

# Needs Linux and root, as chaos does: every machine gets a network namespace of its own.
attack: prepare-chaos prepare-browser $(STAMP)
	$(BIN)/python -m tests.attack

# On an engine that runs, or as root on one of its own, which leaves nothing behind.
deploy-test: prepare-engine $(STAMP)
	$(BIN)/python -m tests.deploy $(if $(ONLY),--only $(ONLY))

poison: prepare-test $(STAMP)
	$(BIN)/python -m pytest -m poison

outages: prepare-test $(STAMP)
	$(BIN)/python -m pytest -m outage

hostile: prepare-test $(STAMP)
	$(BIN)/python -m tests.hostile $(if $(ONLY),--only $(ONLY))

fuzz: prepare-test $(STAMP)
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) \
	    $(if $(SEED),--seed $(SEED)) $(if $(WHAT),--what $(WHAT))

# Other examples in every run; SEED=... draws those of an earlier one.
soak: SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
soak: prepare-test $(STAMP)
	@echo "SEED=$(SEED)"
	SEED=$(SEED) $(BIN)/python -m pytest -m 'soak or hypothesis' \
	    --randomly-seed=$(SEED) --hypothesis-seed=$(SEED) $(PARALLEL)
	.ci/test-python trixie

bench: prepare-test $(STAMP)
	$(BIN)/python -m tests.bench $(if $(FULL),--full) $(if $(ONLY),--only $(ONLY)) \
	    $(if $(OUTPUT),--output $(OUTPUT))

# Look at them afterwards.
pictures: prepare-test prepare-browser $(STAMP)
	$(BIN)/python -m pytest -q tests/browser/take_pictures.py

# A warning, such as of a link that leads nowhere, is an error.
docs: prepare-test $(STAMP) $(DOCS_STAMP)
	$(BIN)/python docs/internals/draw.py
	$(BIN)/python docs/internals/draw_imports.py
	$(BIN)/python docs/internals/draw_metrics.py
	rm -rf build/site
	$(BIN)/sphinx-build --conf-dir docs --fresh-env --quiet --fail-on-warning . build/site
	@echo "the site begins at build/site/index.html"

$(DOCS_STAMP): requirements/docs.txt $(STAMP)
	$(BIN)/python -m pip install --quiet --require-hashes --no-build-isolation --requirement $<
	@touch $@

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis test-output

.PHONY: prepare-demo prepare-up prepare-test prepare-databases prepare-browser prepare-deploy prepare-chaos prepare-engine
prepare-demo prepare-up prepare-test prepare-databases prepare-browser prepare-deploy prepare-chaos prepare-engine: prepare-%:
	@.ci/prepare $*

# What a cluster needs, without the tools that tests need.
$(CLUSTER_STAMP): $(SOURCES) | prepare-up
	.ci/venv deploy
	@touch $@

$(STAMP): $(SOURCES) | prepare-test
	.ci/venv test
	@touch $(CLUSTER_STAMP) $@
