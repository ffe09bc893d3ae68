# One command per job, the same here and in continuous integration. Every target makes what it needs: a virtual
# environment in .venv, with the package installed in editable mode. Nothing is written outside this folder.

PYTHON        ?= python3
VENV          ?= .venv
# What is observed in the demo and in the tests. Where the index offers only accelerator builds of PyTorch, name
# another one: make test TORCH_OPTIONS="--index-url=https://..."
TORCH         ?= torch==2.13.0
TORCH_OPTIONS ?=
PYTEST_OPTIONS ?= -n 2 --dist=worksteal
BENCH_OPTIONS ?=
DEMO_OPTIONS  ?= --call-stack=python
DEMO_SCRIPT   ?= examples/train_gpt.py

STAMPS := $(VENV)/stamps
BIN    := $(abspath $(VENV))/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
NATIVE_SOURCES := $(shell find native -type f 2>/dev/null) $(wildcard CMakeLists.txt cmake/*.cmake)

# An editable install leaves what was built in site-packages. The type checker reads the source tree, and needs the
# extension's generated stub there.
LINK_STUB = ln -sf "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/msmemscope/_native.pyi" \
    src/msmemscope/_native.pyi

.DEFAULT_GOAL := help
.PHONY: help venv build demo test test-native lint format bench docs sanitize clean
.DELETE_ON_ERROR:

help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMPS)/venv ## make the virtual environment

build: $(STAMPS)/package ## build the native core and install the package into the virtual environment

demo: $(STAMPS)/package $(STAMPS)/torch ## train a small language model under the tool and print the summary
	PATH="$(BIN):$$PATH" msmemscope $(DEMO_OPTIONS) python $(DEMO_SCRIPT)

test: $(STAMPS)/package $(STAMPS)/torch test-native ## run all tests
	PATH="$(BIN):$$PATH" python -m pytest $(PYTEST_OPTIONS)

lint: $(STAMPS)/package ## check style, types and layers
	PATH="$(BIN):$$PATH" ruff check .
	PATH="$(BIN):$$PATH" ruff format --check .
	PATH="$(BIN):$$PATH" mypy
	PATH="$(BIN):$$PATH" lint-imports

format: $(STAMPS)/package ## let ruff rewrite what it can
	PATH="$(BIN):$$PATH" ruff check --fix .
	PATH="$(BIN):$$PATH" ruff format .

bench: $(STAMPS)/package $(STAMPS)/torch $(STAMPS)/bench ## measure the tool against its peers
	PATH="$(BIN):$$PATH" python benchmarks/run.py $(BENCH_OPTIONS)

docs: $(STAMPS)/package ## generate the reference pages and pictures again
	PATH="$(BIN):$$PATH" python docs/generate.py

# The native core alone, without Python, in a build of its own.
test-native: $(STAMPS)/build-tools
	@PATH="$(BIN):$$PATH" .ci/native-tests plain

sanitize: $(STAMPS)/build-tools ## run the native tests under ASan and UBSan, and under TSan where it runs
	@PATH="$(BIN):$$PATH" .ci/native-tests address
	@PATH="$(BIN):$$PATH" .ci/native-tests thread

clean: ## remove the virtual environment and what was built
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	rm -f src/msmemscope/_native.pyi

# --- the virtual environment, step by step; a stamp says that a step is done

$(STAMPS)/venv:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "make: no $(PYTHON) on PATH" >&2; \
	    echo "hint: name a Python 3.10 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "make: $(PYTHON) is $$($(PYTHON) -V 2>&1), but Python 3.10 or newer is needed" >&2; \
	    echo "hint: name another one: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "make: $(PYTHON) cannot make virtual environments (no venv or ensurepip module)" >&2; \
	    echo "hint: on Debian and Ubuntu: apt-get install python3-venv; or name another Python: make PYTHON=..." >&2; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/build-tools: pyproject.toml | $(STAMPS)/venv
	@command -v $${CXX:-c++} >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || { \
	    echo "make: no C++ compiler found ($${CXX:-c++}, g++, clang++)" >&2; \
	    echo "hint: on Debian and Ubuntu: apt-get install g++; or name one: make CXX=/path/to/g++ ..." >&2; exit 1; }
	@$(BIN)/python -c 'import pathlib, sys, sysconfig; sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())' || { \
	    echo "make: Python.h of $$($(BIN)/python -V 2>&1) is missing; the binding cannot be compiled" >&2; \
	    echo "hint: on Debian and Ubuntu: apt-get install python3-dev; or name another Python: make PYTHON=..." >&2; \
	    exit 1; }
	$(PIP) install --quiet --group build
	@touch $@

$(STAMPS)/package: $(NATIVE_SOURCES) pyproject.toml | $(STAMPS)/build-tools
	PATH="$(BIN):$$PATH" $(PIP) install --quiet --no-build-isolation --editable '.[test,lint]'
	@$(LINK_STUB)
	@touch $@

$(STAMPS)/torch: | $(STAMPS)/venv
	$(PIP) install --quiet $(TORCH_OPTIONS) '$(TORCH)' numpy
	@touch $@

$(STAMPS)/bench: pyproject.toml | $(STAMPS)/package
	PATH="$(BIN):$$PATH" $(PIP) install --quiet --no-build-isolation --editable '.[test,lint,bench]'
	@$(LINK_STUB)
	@touch $@
