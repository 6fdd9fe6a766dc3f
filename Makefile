# Everything happens inside this checkout: .venv for packages, var for state.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SERVICES := $(VENV)/.services-installed
AUDIT  := $(VENV)/audit
DOCS   := $(VENV)/docs
PEERS  := $(VENV)/peers
OUT    ?= var
IMAGE  := $(VENV)/image

SAMPLES ?= samples
WORKERS ?= 8
POOL    ?= threads
DRAIN   ?=
BUDGET  ?=
MINUTES ?= 3
ROUNDS  ?= 5
SEED    ?=
HISTORIES ?= 200

FILES ?= tests
QUICK := tests/unit --ignore=tests/unit/pipeline tests/integration/lifecycle tests/integration/scheduling
# A hash seed of its own would give each process another order of the cases made from a set.
PARALLEL := PYTHONHASHSEED=0 $(BIN)/python -m pytest -n auto

export PYTHONUNBUFFERED := 1
# Everything here starts many short-lived processes, which should not compile the same files again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install lock run quick test test-sqlite test-postgres test-services lint compile check bench bench-peers proof docs audit sbom clean

help: ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## make .venv with pinned dependencies

# Only files with a hash in a lock are installed; the project itself is then built with what the locks brought. Not
# compiled: of most packages only a few modules are ever imported. In this mode `project` and `pipeline`, which are not
# in the distribution, are found from any directory too.
$(STAMP): pyproject.toml locks/build.txt locks/uv.txt locks/install.txt
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "installing dependencies into $(VENV) (once)"
	@locks/install.sh $(VENV) install
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation --editable . --config-settings editable_mode=compat
	@touch $@

# Only for tests: a server like S3's, and its client.
$(SERVICES): $(STAMP) locks/all.txt
	@echo "installing what only tests need into $(VENV) (once)"
	@locks/install.sh $(VENV) all
	@touch $@

lock: install ## write the locks anew after a change of pyproject.toml; newest versions: UPGRADE=1
	@$(BIN)/python locks/make_locks.py $(if $(UPGRADE),--upgrade)

run: install ## everything on this machine: SAMPLES=path WORKERS=8 POOL=threads|prefork DRAIN=1 BUDGET=n
	@$(BIN)/python manage.py up $(SAMPLES) --workers $(WORKERS) --pool $(POOL) $(if $(DRAIN),--drain) $(if $(BUDGET),--budget $(BUDGET)); \
	code=$$?; exit $$code

quick: install ## under a minute: rules, limits, scheduling and the life of leases, on SQLite
	@SLUICE_TEST_DATABASE=sqlite $(PARALLEL) -n logical $(QUICK)

test: $(SERVICES) ## every test on the databases it is for, with servers of our own: FILES=tests/browser
	@$(PARALLEL) $(FILES)

test-sqlite: install ## every test on SQLite: FILES=…
	@SLUICE_TEST_DATABASE=sqlite $(PARALLEL) $(FILES)

test-postgres: install ## every test on PostgreSQL: FILES=…
	@SLUICE_TEST_DATABASE=postgres $(PARALLEL) $(FILES)

test-services: $(SERVICES) ## S3 by moto; Debian's pgbouncer, rabbitmq-server, prometheus: missing ones are skipped, and named
	@SLUICE_TEST_DATABASE=postgres $(BIN)/python -m pytest tests/services -q -m ""

check: lint test ## lint, then the tests

compile: install ## what tests import, once: each of their processes would do it for itself
	@$(BIN)/python -m pytest --collect-only -qq $(FILES) > /dev/null || true  # the tests will say what is wrong
	@$(BIN)/python -c "import pypdf, pypdfium2, numpy"  # children that read documents write no files

lint: install ## ruff, mypy, layers of imports, migrations
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python manage.py makemigrations --check --dry-run

bench: install ## beside plain Celery, by backlog, by limits, after faults: see docs/benchmarks.md
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.dispatch
	@$(BIN)/python -m bench.limits --quick --count 2000
	@$(BIN)/python -m bench.provider
	@$(BIN)/python -m bench.recovery --rounds 3
	@$(BIN)/python -m bench.rates --seconds 10
	@$(BIN)/python -m bench.extract
	@$(BIN)/python -m bench.downloads
	@$(BIN)/python -m bench.ocr
	@$(BIN)/python -m bench.sizing

# The other queues have an environment of their own: nothing of ours needs them.
$(PEERS): locks/build.txt locks/uv.txt locks/peers.txt
	@test -d $(PEERS) || $(PYTHON) -m venv $(PEERS)
	@locks/install.sh $(PEERS) peers
	@touch $@

bench-peers: install $(PEERS) ## beside plain Celery, Procrastinate and pgqueuer, in turn: ROUNDS=5
	@$(BIN)/python -m bench --peers --rounds $(ROUNDS)

proof: install ## acceptance tests, slow proofs, long histories, random faults: MINUTES=3 SEED=n HISTORIES=200
	@SLUICE_TEST_DATABASE=postgres $(BIN)/python -m pytest tests/acceptance -q -m "acceptance or slow_proof"
	@SLUICE_TEST_DATABASE=postgres $(BIN)/python -m pytest tests/unit tests/integration tests/browser -q -m slow_proof
	@SLUICE_TEST_DATABASE=sqlite $(BIN)/python -m pytest tests/acceptance -q -m "acceptance or slow_proof"
	@SLUICE_TEST_DATABASE=postgres SLUICE_MODEL_EXAMPLES=$(HISTORIES) $(BIN)/python -m pytest tests/model -q -m "not services"
	@SLUICE_TEST_DATABASE=sqlite SLUICE_MODEL_EXAMPLES=$(HISTORIES) $(BIN)/python -m pytest tests/model tests/unit/scheduling/test_admission_properties.py -q -m "not services"
	@$(BIN)/python -m proof --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# The tools have an environment of their own, so that they are not among what they describe.
$(AUDIT): locks/build.txt locks/uv.txt locks/audit.txt
	@test -d $(AUDIT) || $(PYTHON) -m venv $(AUDIT)
	@locks/install.sh $(AUDIT) audit
	@touch $@

audit: $(AUDIT) ## known vulnerabilities of the locked versions; exit 1: some, 3: could not ask
	@$(AUDIT)/bin/python locks/audit.py

sbom: $(AUDIT) ## what the image installs, as CycloneDX and with licences: sbom.json, licences.txt in OUT=var
	@rm -rf $(IMAGE) && $(PYTHON) -m venv --without-pip $(IMAGE) && locks/install.sh $(AUDIT) image $(IMAGE)
	@mkdir -p $(OUT)
	@$(AUDIT)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file $(OUT)/sbom.json $(IMAGE)/bin/python
	@$(IMAGE)/bin/python compose/licences.py > $(OUT)/licences.txt

# An environment of its own, too: nothing that runs, tests or checks the queue needs it.
$(DOCS): pyproject.toml locks/build.txt locks/uv.txt locks/docs.txt
	@test -d $(DOCS) || $(PYTHON) -m venv $(DOCS)
	@locks/install.sh $(DOCS) docs
	@touch $@

docs: $(DOCS) ## the documentation as a site, in docs of OUT=var; a warning is an error
	@$(DOCS)/bin/python -m sphinx -b html --quiet --fresh-env --write-all --fail-on-warning --keep-going --nitpicky --jobs auto --doctree-dir $(OUT)/doctrees docs $(OUT)/docs
	@$(DOCS)/bin/python docs/site/foreign_hosts.py $(OUT)/docs

clean: ## forget packages and state
	@rm -rf $(VENV) var
