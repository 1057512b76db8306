# make demo   the main job on bundled data, with a picture
# make test   lint, types, import floors and the whole test suite (test-matrix: on every supported Python found)
# make fuzz   damaged files and random problems by the thousand, some minutes (FUZZ=long: hours)
# make bench  speed and quality beside other programs, a few minutes (bench-full: longer)
# make paper  every table and figure of the paper, some minutes (paper-full: its sizes and repetitions, resumable)
# All set up a virtual environment inside the checkout the first time.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test test-matrix lint types floors unit fuzz bench bench-full paper paper-full format clean

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "gpower needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group test --group lint --group bench --group experiments
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/gpower demo --output demo-output

test: lint types floors unit

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

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

floors: $(STAMP)
	$(BIN)/lint-imports --no-cache

unit: $(STAMP)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n 2 -q

fuzz: $(STAMP)
	@failed=0; for program in tests/fuzz/*.py; do \
	  echo "== $$program"; OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 FUZZ="$(FUZZ)" $(BIN)/python $$program || failed=1; \
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
	rm -rf $(VENV) .venv-3.* build dist demo-output
