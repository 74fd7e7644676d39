# Everything runs in .venv, which each target makes and fills by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types unit bench validity clean

demo: $(VENV)/demo
	$(BIN)/python examples/demo.py

test: lint types unit

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test
	$(BIN)/mypy

unit: $(VENV)/test
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks

validity: $(VENV)/test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.validity
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.validity_thresholds

$(VENV)/demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[demo]'
	touch $@

$(VENV)/test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[test]'
	touch $@

$(VENV)/bench: $(VENV)/test
	$(PIP) --editable '.[bench]'
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
