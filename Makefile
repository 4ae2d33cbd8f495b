# Everything a developer does here. A machine with Python 3.11 to 3.14 and make is enough.

.DEFAULT_GOAL := help
.PHONY: help setup demo up near room test tests test-whole rewritten check lint looks docs docs-versions package bench chaos sql client lock lowest sbom audit links

BIN := .venv/bin
STAMP := .venv/.installed
# The first of these that is 3.11 to 3.14; `make PYTHON=/path/to/python setup` takes that one.
PYTHON := python3 python3.14 python3.13 python3.12 python3.11
PYTEST := $(BIN)/python -m pytest -q
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Five processes even on two cores: tests of whole stacks mostly wait. A file is never split between processes.
PROCESSES := 5
# Python keeps what it compiled, whatever the environment says: each test starts processes, and `setup` compiles nothing.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show these lines
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s  %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Install everything into .venv (instant when nothing changed)

$(STAMP): requirements.lock pyproject.toml
	@for python in $(PYTHON); do \
	  if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; then \
	    found=$$python; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo 'make setup: Python 3.11 to 3.14 is needed (looked for: $(PYTHON)).' >&2; \
	  echo 'Install one, or name it: make PYTHON=/path/to/python3.12 setup' >&2; \
	  exit 1; \
	fi; \
	if ! $(BIN)/python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; then \
	  echo "make setup: a new .venv with $$found"; \
	  $$found -m venv --clear .venv || { echo 'make setup: Python lacks venv (on Debian: apt install python3-venv)' >&2; exit 1; }; \
	fi
	@# uv takes a fifth of pip's time. It does not read pip's configuration; where it reaches no index, pip installs.
	@awk '/^uv==/, !/\\$$/' requirements.lock > .venv/uv.lock
	@{ $(PIP_INSTALL) --no-compile --require-hashes -r .venv/uv.lock && \
	  env $${PIP_INDEX_URL:+UV_DEFAULT_INDEX="$$PIP_INDEX_URL"} UV_SYSTEM_CERTS=true \
	    $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock; } || \
	{ echo 'make setup: uv could not install; pip does it'; \
	  $(PIP_INSTALL) --no-compile --require-hashes -r requirements.lock; }
	@# setuptools warns of folders by the names of packages: ours are those packages.
	PYTHONWARNINGS=ignore $(PIP_INSTALL) --no-build-isolation --no-deps -e .
	@touch $(STAMP)

# make takes --keep as short for its own --keep-going, so `make demo --keep` arrives here as the letter k.
KEEP = $(if $(findstring k,$(filter-out --%,$(firstword -$(MAKEFLAGS)))), --keep)
demo: setup ## Start everything, run a real pipeline, show its report, stop everything (make demo --keep: leave it running)
	$(BIN)/pipeweave demo$(KEEP)

up: setup ## Start everything on this machine and stay (Ctrl-C stops it)
	$(BIN)/pipeweave up

# What starts whole stacks, injects faults, opens a browser, plays the orchestrator for foreign workers, or tries
# thousands of requests.
WHOLE := tests/flows/stacks tests/flows/faults tests/ui tests/unit/conformance tests/api/test_contract.py
# Random pipelines, of which `make test` tries some hundreds: 50 seconds of one processor.
MANY := tests/unit/testing/test_random_branches.py
TESTED := $(PYTEST) -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# After tests that failed (1), and after nothing else: up to three of them are tried once more, alone, and named.
ONCE_MORE := || { [ $$? = 1 ] && $(BIN)/python tests/support/once_more.py; }

# pytest rewrites the asserts of each file and keeps the result: once, and not in each process at the same time.
# Of a few files that have changed since, that costs less than to collect all tests once more.
rewritten: setup links ## Let pytest rewrite the files of tests, if many have changed (make tests does it)
	@mkdir -p .pytest_cache; log=.pytest_cache/collected; \
	if [ ! -s $$log ] || [ "$$(find tests -name '*.py' -newer $$log | wc -l)" -gt 20 ]; then \
	  $(PYTEST) --collect-only -q >$$log.new 2>&1 || { tail -n 40 $$log.new; exit 1; }; mv $$log.new $$log; \
	fi

near: setup links ## Checks and tests that are near what you have changed, within about a minute
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/mypy
	@$(BIN)/python tests/support/near.py

room: setup links ## Checks and tests that are near one room: make room ROOM=engine
	@test -n "$(ROOM)" || { echo "make room ROOM=engine: docs/architecture.md has the rooms" >&2; exit 2; }
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/mypy
	@$(BIN)/python tests/support/near.py --room $(ROOM)

test: setup links ## All checks, and all tests but those of test-whole
	@$(MAKE) --no-print-directory --jobs 2 lint tests

tests: setup links rewritten ## The tests of make test without the checks
	@rm -f .pytest_cache/v/cache/lastfailed
	$(TESTED) $(WHOLE:%=--ignore %) $(ONCE_MORE)

test-whole: setup links rewritten ## The tests of whole stacks, faults, the browser, the contracts of workers and API, and 20,000 random pipelines
	@rm -f .pytest_cache/v/cache/lastfailed
	export RANDOM_RUNS=20000; $(TESTED) $(WHOLE) $(MANY) $(ONCE_MORE)

check: lint ## Format, lint, types, architecture and docs
	$(PYTEST) tests/unit/architecture tests/unit/docs

lint: setup links ## Format, lint and types alone: what of the checks is no test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

looks: setup ## Make the pictures of the dashboard anew, and one sheet with all of them to look at
	rm -f docs/pictures/*.png tests/ui/looks/*.txt tests/ui/looks/*.boxes
	PIPEWEAVE_TEST_LOOKS=renew $(PYTEST) tests/ui/looks
	@git status --short docs/pictures tests/ui/looks

docs: setup ## Build the pages of docs/ into api/help, which the API serves at /help (a wheel or image made afterwards has them)
	$(BIN)/python -m help_pages

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
docs-versions: setup ## Commit the pages of this version to the branch gh-pages, beside those of others (PUSH=1: push it, too)
	PYTHONPATH=. $(BIN)/mike deploy --config-file mkdocs-versions.yml --title $(VERSION) --update-aliases $(if $(PUSH),--push) \
	  $(basename $(VERSION)) latest
	PYTHONPATH=. $(BIN)/mike set-default --config-file mkdocs-versions.yml $(if $(PUSH),--push) latest

package: docs ## Write the wheel and the source distribution into dist/, with the pages of help
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
	@grep -q '^Repository = ' pyproject.toml || \
	  echo 'make package: pyproject.toml has no [project.urls], so the page of the package has no links' >&2

bench: setup ## Measure against plain Celery on the same machine (HISTORY=1000000: with that many finished runs, too; WATCHED=100: without and with open pages; AGAINST=REF: in turns with another commit)
	$(BIN)/python -m benchmarks $(if $(AGAINST),--against $(AGAINST)) $(if $(HISTORY),--history $(HISTORY)) $(if $(WATCHED),--watched $(WATCHED))

chaos: setup ## Inject faults into a real stack, then prove that nothing was lost or done twice (SECONDS=300 SEED=1)
	$(BIN)/python -m chaos --seconds $(or $(SECONDS),300) --seed $(or $(SEED),1)

sql: setup ## Write docs/sql/ anew: what every SQL statement locks and reads, and the statements as they are sent (docs/sql/pages)
	$(BIN)/python -m sql_pages

client: setup ## Write the client for asyncio and the types of the SDK for Node anew, after a change of the client or the API
	$(BIN)/python tests/support/async_methods.py
	$(BIN)/python tests/support/node_types.py

lock: setup ## Resolve the dependencies anew and write both lock files
	$(BIN)/uv lock --python $(BIN)/python
	$(BIN)/uv export --quiet --frozen --all-extras --all-groups --no-emit-project --no-header --no-annotate \
	  --format requirements-txt -o requirements.lock
	$(BIN)/uv export --quiet --frozen --extra server --extra flower --extra s3 --no-dev --no-emit-project --no-header \
	  --no-annotate --format requirements-txt -o requirements-image.lock

sbom: setup ## Write dist/pipeweave.cdx.json, the bill of materials of the container image (CycloneDX)
	$(BIN)/python tests/support/sbom.py dist/pipeweave.cdx.json

# What cannot be looked up fails, too: a silent pass would say that all is well.
LOCKS := requirements-image.lock requirements.lock
audit: setup sbom ## Compare the lock files with the published vulnerabilities (asks osv.dev; LOCKS=requirements-image.lock: what is shipped)
	$(BIN)/pip-audit --strict --vulnerability-service osv $(if $(OSV),--osv-url $(OSV)) --disable-pip --no-deps \
	  --progress-spinner off $(LOCKS:%=-r %)

LOWEST := .venv/lowest
lowest: setup ## Run chosen tests with the lowest versions that pyproject.toml allows
	rm -rf $(LOWEST) && $(BIN)/python -m venv $(LOWEST)
	VIRTUAL_ENV=$(LOWEST) $(BIN)/uv pip install --quiet --resolution lowest-direct --editable '.[all]'
	VIRTUAL_ENV=$(LOWEST) $(BIN)/uv pip install --quiet pytest pytest-timeout pytest-xdist psutil hypothesis \
	  time-machine setuptools 'moto[server]'
	$(LOWEST)/bin/python -m pytest -q -n 2 tests/unit tests/api tests/database/store tests/database/state \
	  tests/database/messaging tests/flows/runs/test_workflows.py tests/flows/runs/test_retries.py \
	  --deselect tests/api/test_contract.py --ignore tests/unit/docs

links: ## Renew typings/, through which mypy sees the mapped folders
	@mkdir -p typings/pipeweave
	@for entry in pipeweave/*.py pipeweave/py.typed pipeweave/*/ orchestrator workers api migrations; do \
	  name=$$(basename "$$entry"); link="typings/pipeweave/$$name"; \
	  [ "$$name" = __pycache__ ] || [ -L "$$link" ] || ln -s "../../$${entry%/}" "$$link"; \
	done
	@for link in typings/pipeweave/*; do [ -e "$$link" ] || rm "$$link"; done
