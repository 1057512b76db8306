# make demo   the main job on bundled data, with pictures and a report
# make test   lint, types, import layers and the tests that protect every behaviour (test-matrix: on every Python found)
# make test-all   make test, then the slow tests: statistics, recovery, faults, properties with many examples
# make test-lowest   the whole suite on exactly the lowest versions that are declared
# make test-next   the whole suite on the newest versions of everything, pre-releases included
# make test-shuffled   the whole suite in another order, which SEED=number repeats
# make test-kernels   the answers of the kernels of OpenBLAS that this processor runs, with 1 and 2 threads
# make mutants   how many small changes of the mathematical core make a test fail (MINUTES=5 for fewer)
# make fuzz   damaged files, pipes and random problems by the thousand, some minutes (FUZZ=long: hours)
# make docs   the documentation site into docs/_build/html, doctests and inner links checked
# make release-check   sdist and wheel, built, looked at, installed into an empty environment and tried
# make coverage   the suite, shuffled, with the lines and branches that it does not reach
# make audit  open advisories about the requirements, at their lowest and newest versions (says so without a database)
# make bench  speed and quality beside other programs, a few minutes (bench-full: longer)
# make metrics  the shape of the package (names, docstrings, layers), printed and kept in docs/architecture.md
# make paper  every table and figure of the paper, some minutes (paper-full: its sizes and repetitions, resumable)
# All set up a virtual environment inside the checkout the first time.

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

# Pythons on the PATH that run, and those of pyenv; an environment of its own for each, kept between runs.
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

# uv resolves to the lowest direct versions; the others are the newest that these go with.
test-lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet "uv>=0.5"
	VIRTUAL_ENV=$(CURDIR)/.venv-lowest .venv-lowest/bin/uv pip install --quiet --upgrade --resolution lowest-direct \
	  --editable ".[all]" --group test --group experiments
	$(SETTINGS) .venv-lowest/bin/python -m pytest -n 2 -q

# Versions that are not released yet: a warning that becomes an error there is met here first.
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

# Files that other people's programs read, against the schemas that these programs publish.
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

# What `unit` leaves out, and its property tests once more with all their examples.
test-slow: $(STAMP)
	$(SETTINGS) EXAMPLES=all $(BIN)/python -m pytest -n 2 -q -m "slow or hypothesis"

# Modules in another order, and tests within each; the seed is said, so that an order can be had again.
SEED ?= $(shell date +%s)
SHUFFLED = --random-order --random-order-seed=$(SEED)
test-shuffled: $(STAMP)
	$(SETTINGS) $(BIN)/python -m pytest -n 2 -q $(SHUFFLED)

coverage: $(STAMP)
	$(BIN)/python -m pip install --quiet --group coverage
	$(SETTINGS) $(BIN)/python -m pytest -n 2 -q $(SHUFFLED) --cov --cov-report=term-missing:skip-covered --cov-report=xml

# From nothing: a page that is no more must not stay, nor a picture that older code drew.
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

# An environment of its own: the tools are no requirement of the package.
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
