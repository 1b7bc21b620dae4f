# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DOCS   := $(VENV)/.docs-ready

.PHONY: demo test test-all lint docs fuzz setup bench package clean

# One thread: at this size a second one gains a quarter, and loses far more on a machine that is shared.
demo: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python examples/demo.py --output demo

test: lint
	$(BIN)/python -m pytest -n 2

# With the longer sweeps, too.
test-all: lint
	$(BIN)/python -m pytest -n 2 -m ""

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in build/docs/index.html; notebooks are run, and a warning is an error. No network once set up.
docs: $(DOCS)
	$(BIN)/python -m sphinx -W --keep-going docs build/docs

# Damaged files and odd command lines, as long as one likes: make fuzz FORMAT="csv yaml" MINUTES=10 SEED=1
fuzz: $(READY)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz $(if $(FORMAT),--format $(FORMAT)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE))

bench: $(READY)
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/scale.py

# Wheel and sdist in dist/, and the README's commands from the wheel in an empty environment.
package: $(READY)
	$(BIN)/python tests/package_check.py

setup: $(READY)

# Triton comes with a torch for GPUs; elsewhere it is there to test the kernels by its interpreter.
# torch first and by itself: asked for by a range, pip would fetch the newest build with gigabytes of CUDA packages.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "smpgnn needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=python3.11 (or newer).")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' requirements.lock)"
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps -e .
	$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/python -m pip install --quiet triton==3.9.0 || echo "No Triton for this machine: its kernels are not tested."
	touch $@

# Sphinx and Jupyter are installed for the site only: the tests do not need them.
$(DOCS): $(READY) docs/requirements.txt
	$(BIN)/python -m pip install --quiet -r docs/requirements.txt
	touch $@

clean:
	rm -rf build/docs docs/reference/api docs/reference/commands docs/reference/settings.rst demo dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis fuzz-failures
