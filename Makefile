PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests start many processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
# Two workers share two cores: one BLAS thread each.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: venv demo test test-data conformance oldest mutation portability coverage browser lint typecheck bench experiments docs clean

venv: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[all,dev]"
	touch $@

demo: venv
	$(BIN)/anypca demo --out demo

PYTEST := -m pytest -n 2 --dist worksteal --durations=10

test: venv lint typecheck
	$(BIN)/python $(PYTEST)

# The tests of larger data sets, from the folder that ANYPCA_DATA names.
test-data: venv
	$(BIN)/python $(PYTEST) -m "data and not conformance" tests

# scikit-learn's checks of every estimator with every family, and what else `test` has for one example of many.
conformance: venv
	$(BIN)/python $(PYTEST) -m conformance tests

# The tests with the oldest versions that pyproject.toml declares. Old versions use names that newer ones deprecate.
$(VENV)-oldest/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)-oldest/bin/python -m uv pip install --quiet --resolution lowest-direct --editable ".[all]"
	$(VENV)-oldest/bin/python -m uv pip install --quiet --editable ".[all,dev]"
	touch $@

oldest: $(VENV)-oldest/.installed
	$(VENV)-oldest/bin/python $(PYTEST) -W default::DeprecationWarning -W default::PendingDeprecationWarning

# Mutation tests of one module: make mutation MODULE=src/anypca/families/gamma.py TESTS=tests/mathematics
mutation: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "cosmic-ray>=8.3"
	$(BIN)/python -m tools.mutation $(MODULE) $(TESTS)

# The numerical tests under every OpenBLAS kernel that the processor has, and without numpy's loops for newer ones.
portability: venv
	$(BIN)/python -m tools.portability

# The same tests with their coverage, which takes half as long again.
coverage: venv
	$(BIN)/python $(PYTEST) --cov --cov-report=term

# For the tests of the report, which skip without it; needs root and Debian or one of its kin.
browser:
	{ command -v chromium && command -v chromedriver; } || { apt-get update && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
	  chromium chromium-driver fonts-liberation; }

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tools.docstrings

typecheck: venv
	$(BIN)/mypy

bench: venv
	$(BIN)/python -m benchmarks.floor
	$(BIN)/python -m benchmarks.gsppca
	$(BIN)/python -m benchmarks.piecewise
	$(BIN)/python -m benchmarks.sepca
	$(BIN)/python -m benchmarks.peers.glmpca

# Its own stamp: the tools for the documents are not needed to test.
$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -b html -W --keep-going $(SPHINXOPTS) docs docs/_build/html

experiments: venv
	$(BIN)/python -m experiments

clean:
	rm -rf $(VENV) $(VENV)-oldest demo build dist docs/_build docs/_generated docs/api/families.rst docs/api/generated docs/auto_examples docs/sg_execution_times.rst .coverage* .mypy_cache .pytest_cache .ruff_cache
