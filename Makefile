# make demo   the main features on bundled data, with figures and a report
# make test   lint, types, import layers and the tests that protect every behaviour (test-matrix: on every installed Python)
# make test-all   make test, then the slow tests: statistics, recovery, faults, properties with many examples
# make test-lowest   the whole suite on exactly the lowest declared versions
# make test-next   the whole suite on the newest versions, pre-releases included
# make test-shuffled   the whole suite in random order, which SEED=number repeats
# make test-kernels   the answers of the kernels of OpenBLAS that this processor runs, with 1 and 2 threads
# make mutants   how many small changes of the mathematical core make a test fail (MINUTES=5 for fewer)
# make fuzz   thousands of damaged files and random fits, some minutes (FUZZ=long: hours)
# make docs   the documentation site into docs/_build/html, with doctests and a check of internal links
# make release-check   build sdist and wheel, check them, and run them in an empty environment
# make coverage   the suite in random order, with the lines and branches that it does not reach
# make audit  open advisories about the lowest and the newest versions of the requirements
# make bench  time and quality compared with other solvers, a few minutes (bench-full: longer)
# make metrics  figures about names, docstrings and layers, printed and written into docs/architecture.md
# make paper  every table and figure of the paper, some minutes (paper-full: its sizes and repetitions, resumable)
# All targets set up a virtual environment inside the checkout the first time.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PACKAGE := $(VENV)/.package
STAMP  := $(VENV)/.installed
SETTINGS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 SCIPY_ARRAY_API=1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test test-all test-slow test-matrix test-lowest test-next test-shuffled test-kernels mutants fuzz docs audit release-check coverage lint types layers metrics schemas unit bench bench-full paper paper-full format clean

# The package and its extras are enough for the demo; tests and tools add their groups.
$(PACKAGE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "gpower needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]"
	touch $(PACKAGE)

$(STAMP): $(PACKAGE)
	$(BIN)/python -m pip install --quiet --group test --group lint --group bench --group experiments
	touch $(STAMP)

demo: $(PACKAGE)
	$(BIN)/gpower demo --output demo-output
	@echo "The command is $(BIN)/gpower; try: $(BIN)/gpower fit --help"

test: lint types layers schemas unit

test-all: test test-slow

# Pythons on the PATH and those of pyenv; each has a separate environment, which is kept between runs.
VERSIONS := 3.11 3.12 3.13 3.14
test-matrix:
	@tested=""; for version in $(VERSIONS); do \
	  for python in python$$version "$$HOME"/.pyenv/versions/$$version.*/bin/python; do \
	    "$$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' $$version 2>/dev/null || continue; \
	    echo "== Python $$version ($$python)"; \
	    $(MAKE) test PYTHON="$$python" VENV=.venv-$$version || exit 1; \
	    tested="$$tested $$version"; break; \
	  done; \
	done; echo "Passed on Python:$$tested (of $(VERSIONS))"; test -n "$$tested"

# uv resolves to the lowest direct versions, and to the newest compatible versions of all other packages.
test-lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet "uv>=0.5"
	VIRTUAL_ENV=$(CURDIR)/.venv-lowest .venv-lowest/bin/uv pip install --quiet --upgrade --resolution lowest-direct \
	  --editable ".[all]" --group test --group experiments
	$(SETTINGS) .venv-lowest/bin/python -m pytest -n 2 -q

# With versions that are not released yet, deprecations become visible before the release.
test-next:
	test -x .venv-next/bin/python || $(PYTHON) -m venv .venv-next
	.venv-next/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-next/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --pre --editable ".[all]" --group test --group experiments
	$(SETTINGS) .venv-next/bin/python -m pytest -n 2 -q

# The OpenBLAS inside NumPy 2.5 crashes with a kernel that is not the processor's own.
test-kernels:
	test -x .venv-kernels/bin/python || $(PYTHON) -m venv .venv-kernels
	.venv-kernels/bin/python -m pip install --quiet --upgrade "numpy>=2.4,<2.5" --editable .
	SCIPY_ARRAY_API=1 .venv-kernels/bin/python tools/compare_kernels.py

# A sample of MUTANTS changes, drawn by MUTANT_SEED, JOBS at a time; it ends after MINUTES.
MUTANTS ?= 400
MINUTES ?= 240
MUTANT_SEED ?= 0
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
mutants: $(STAMP)
	$(BIN)/python -m pip install --quiet --group coverage
	$(SETTINGS) $(BIN)/python tools/mutate.py --count $(MUTANTS) --minutes $(MINUTES) --seed $(MUTANT_SEED) --jobs $(JOBS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports --no-cache

metrics: $(STAMP)
	$(BIN)/python tools/metrics.py

# Check files that other programs read against the schemas that these programs publish.
SCHEMA := $(BIN)/check-jsonschema --builtin-schema
schemas: $(STAMP)
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) custom.github-workflows-require-timeout .github/workflows/*.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature_request.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.readthedocs .readthedocs.yaml
	$(SCHEMA) vendor.citation-file-format --default-filetype yaml CITATION.cff

unit: $(STAMP)
	$(SETTINGS) $(BIN)/python -m pytest -n 2 --dist loadfile -q -m "not slow"

# The slow tests, which `unit` leaves out, and all property tests with more examples.
test-slow: $(STAMP)
	$(SETTINGS) EXAMPLES=all $(BIN)/python -m pytest -n 2 -q -m "slow or hypothesis"

# Modules in random order, and tests within each; the seed is printed, so that an order can be repeated.
SEED ?= $(shell date +%s)
SHUFFLED = --random-order --random-order-seed=$(SEED)
test-shuffled: $(STAMP)
	$(SETTINGS) $(BIN)/python -m pytest -n 2 -q $(SHUFFLED)

coverage: $(STAMP)
	$(BIN)/python -m pip install --quiet --group coverage
	$(SETTINGS) $(BIN)/python -m pytest -n 2 -q $(SHUFFLED) --cov --cov-report=term-missing:skip-covered --cov-report=xml

# Build from an empty folder, so that pages and figures of earlier versions do not remain.
DOCS := .venv-docs/bin
PAGES := docs/_build docs/api docs/gallery docs/command-line.md docs/sg_execution_times.rst
docs: .venv-docs/.installed
	rm -rf $(PAGES)
	$(DOCS)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(DOCS)/python -m sphinx -W --keep-going -q -b doctest -D plot_gallery=0 docs docs/_build/doctest
	$(DOCS)/python docs/check_links.py docs/_build/html

.venv-docs/.installed: pyproject.toml
	test -x $(DOCS)/python || $(PYTHON) -m venv .venv-docs
	$(DOCS)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(DOCS)/python -m pip install --quiet --editable ".[all]" --group docs
	touch $@

# The tools need a separate environment, because they are not requirements of the package.
audit:
	test -x .venv-audit/bin/python || $(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet "uv>=0.5" "pip-audit>=2.7"
	.venv-audit/bin/python tools/audit.py

release-check:
	$(PYTHON) tools/release_check.py

fuzz: $(STAMP)
	@failed=0; for program in tests/fuzz/*.py; do \
	  echo "== $$program"; PYTHONPATH=. OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 FUZZ="$(FUZZ)" $(BIN)/python $$program || failed=1; \
	done; exit $$failed

bench: $(STAMP)
	$(BIN)/python -m benchmarks

bench-full: $(STAMP)
	$(BIN)/python -m benchmarks --full

paper: $(STAMP)
	$(BIN)/python -m experiments.journee2010

paper-full: $(STAMP)
	$(BIN)/python -m experiments.journee2010 --full

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-* build dist demo-output $(PAGES)
