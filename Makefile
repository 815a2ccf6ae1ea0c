# Each target sets up what it needs in a virtual environment beside this file. A second
# call installs nothing. Another Python: make test PYTHON=python3.12

PYTHON ?= python3
PYTEST_FLAGS ?= -n 2
MODELS ?= reviews

# The CPU build is a third of the download. It exists for Linux on x86-64; elsewhere the
# plain package holds no GPU code anyway.
TENSORFLOW := $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),tensorflow-cpu,tensorflow)
# On Linux a plain "torch" brings CUDA, gigabytes of it. With PIP_EXTRA_INDEX_URL set to
# PyTorch's CPU index, make test-torch TORCH=torch==2.13.0+cpu takes the small build.
TORCH ?= torch==2.13.0

RUN := .venv/bin/python
INSTALL = $(PYTHON) -m venv $(@D) && \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(PACKAGES)
# TensorFlow's notes on the processor it runs on.
export TF_CPP_MIN_LOG_LEVEL ?= 2
CONTRACT := tests/test_contract.py tests/test_memory.py tests/test_turing_machine.py
# Every pair of score and normalizer is tested on the newest TensorFlow.
PAIRS ?= --some-pairs

BENCH_FLAGS ?=

.PHONY: help venv venvs demo bench test test-backends test-jax test-torch test-oldest coverage \
	lint format notebooks docs gallery models clean

help:
	@echo "make demo           train on real text, save, reload, see where it looks"
	@echo "make bench          time and memory beside others (BENCH_FLAGS=--quick for less)"
	@echo "make test           tests and doctests on TensorFlow"
	@echo "make test-backends  the contract tests and doctests on JAX and on PyTorch"
	@echo "make test-oldest    the contract tests on the oldest Keras and TensorFlow"
	@echo "make coverage       tests, with the lines that no test runs"
	@echo "make lint           style and types; make format mends the style"
	@echo "make notebooks      run the notebooks, keeping their outputs"
	@echo "make docs           the documentation as a site; a warning is an error"
	@echo "make gallery        the picture at the top of README, out of saved_models/"
	@echo "make models         train what saved_models/ holds (long)"
	@echo "make clean          remove the environments and caches"

# What the demo needs is half of what the tests need, so that it starts sooner.
.venv/demo: PACKAGES = "$(TENSORFLOW)>=2.18" -e ".[demo]"
.venv/demo: setup.cfg pyproject.toml
	test -e .venv/installed || $(INSTALL)
	touch $@

venv: .venv/installed

venvs: .venv/installed .venv-jax/installed .venv-torch/installed .venv-oldest/installed

.venv/installed: PACKAGES = "$(TENSORFLOW)>=2.18" -e ".[demo,g2p,translate,countries,notebooks,docs,test,dev]"
.venv-jax/installed: PACKAGES = -e ".[jax,demo,test]"
.venv-torch/installed: PACKAGES = "$(TORCH)" -e ".[torch,demo,test]"
# The lower bounds of setup.cfg. This TensorFlow needs Python 3.12 or older.
.venv-oldest/installed: PACKAGES = "keras==3.10.*" "$(TENSORFLOW)==2.18.*" -e ".[test]"

.venv/installed .venv-jax/installed .venv-torch/installed .venv-oldest/installed: \
		setup.cfg pyproject.toml
	$(INSTALL)
	touch $@

demo: .venv/demo
	$(RUN) -m keras_attention demo

bench: venv
	$(RUN) benchmarks/run.py $(BENCH_FLAGS)

test: venv
	$(RUN) -m pytest $(PYTEST_FLAGS)

test-backends: test-jax test-torch

# JAX compiles each operation for each shape: once for both processes and the next run.
test-jax: export JAX_COMPILATION_CACHE_DIR = $(CURDIR)/.venv-jax/compiled
test-jax: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0
test-jax: CONTRACT += tests/test_together.py

# Without TensorFlow, so its own files cannot be imported.
test-jax test-torch: test-%: .venv-%/installed
	KERAS_BACKEND=$* .venv-$*/bin/python -m pytest $(PYTEST_FLAGS) $(PAIRS) $(CONTRACT) \
		keras_attention --ignore-glob="keras_attention/tensorflow_*"

test-oldest: CONTRACT += tests/test_shipped.py
test-oldest: .venv-oldest/installed
	.venv-oldest/bin/python -m pytest $(PYTEST_FLAGS) $(PAIRS) $(CONTRACT)

coverage: venv
	$(RUN) -m pytest $(PYTEST_FLAGS) --cov

lint: venv
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

format: venv
	$(RUN) -m ruff check --fix
	$(RUN) -m ruff format

notebooks: venv
	.venv/bin/jupyter-execute --inplace notebooks/*.ipynb

docs: export NO_MKDOCS_2_WARNING = 1
docs: venv
	.venv/bin/mkdocs build --site-dir build/site

gallery: venv
	$(RUN) docs/gallery.py

models: venv
	for name in $(MODELS); do $(RUN) -m keras_attention train $$name || exit 1; done

clean:
	rm -rf .venv .venv-* .coverage .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
