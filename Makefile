# `make demo` and `make test` need Python 3.11+ and a package registry, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests
JOBS ?= 2

.PHONY: install demo test test-oldest coverage mutants lint docs wheel bench bench-accuracy clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.core: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[cli]'
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --group test --group lint
	touch $@

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

$(VENV)/.bench: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

install: $(VENV)/.test

demo: $(VENV)/.core
	$(BIN)/tamis demo --out tamis-demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(TESTS)

# the floors of numpy, scipy and scikit-learn in pyproject.toml, and tables of their time
test-oldest: BIN := .venv-oldest/bin
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[cli]' --group test \
	  'numpy==2.0.0' 'scipy==1.13.0' 'scikit-learn==1.6.0' 'pandas==2.2.2' 'polars<2'
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(TESTS)

coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --cov=tamis --cov-report=term-missing:skip-covered $(TESTS)

# hours for all of them; NAMES picks some, as in NAMES='tamis.optim.prox.*'
mutants: BIN := .venv-mutants/bin
mutants:
	$(PYTHON) -m venv .venv-mutants
	$(BIN)/python -m pip install --quiet --editable '.[cli]' --group test --group mutants
	$(BIN)/mutmut run --max-children $(JOBS) $(NAMES)
	$(BIN)/mutmut results

lint: $(VENV)/.test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# in fresh environments; PIP_CONSTRAINT may name a file that pins torch
wheel: $(BIN)/python
	$(BIN)/python tests/wheel/check.py

bench: $(VENV)/.bench
	$(BIN)/python -m experiments.speed.em2nolc
	$(BIN)/python -m experiments.speed.mkl
	$(BIN)/python -m experiments.speed.imkpl
	$(BIN)/python -m experiments.speed.absent_mkl
	$(BIN)/python -m experiments.speed.scale
	$(BIN)/python -m experiments.speed.flagship
	$(BIN)/python -m experiments.speed.size

bench-accuracy: $(VENV)/.bench
	$(BIN)/python -m experiments open --part develop --out docs/results --store experiments/out/open.sqlite
	$(BIN)/python -m experiments open --part papers --out docs/results --store experiments/out/open.sqlite
	$(BIN)/python -m experiments.accuracy.flagship_regression
	$(BIN)/python -m experiments.accuracy.objective
	$(BIN)/python -m experiments.accuracy.mkl
	$(BIN)/python -m experiments.accuracy.imkpl
	$(BIN)/python -m experiments.accuracy.absent_mkl
	$(BIN)/python -m experiments.accuracy.absent_mkl --absence random
	$(BIN)/python -m experiments.accuracy.missing_cells

clean:
	rm -rf $(VENV) .venv-oldest .venv-mutants mutants .pytest_cache .ruff_cache .mypy_cache build dist docs/_build docs/gallery docs/api/generated
