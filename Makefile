# hone: two commands for a newcomer are `make demo` and `make test`; `make help` lists the rest.
PREFIX ?= /usr/local
BUILD  ?= build
PRESET ?= release
JOBS   ?= $(shell nproc)
WORKERS ?= 2
PYTHON  = .venv/bin/python

# The header precompiled with libtorch has 470 MB, and ccache would hash it for every file: a second each. With its inode cache it does so once.
export CCACHE_INODECACHE ?= 1

# Quiet unless it fails.
configure = { mkdir -p $(BUILD) && cmake --preset $(1) -B $(BUILD) > $(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; exit 1; }; }

.DEFAULT_GOAL := help
.PHONY: help setup setup-tests build demo unit-test test test-fast test-peers test-reliability soak test-gpu test-torch-2.7.1 test-aarch64 bench bench-gpu fuzz format check-format tidy install wheel wheel-portable docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what a build needs (Debian packages, .venv with libtorch)
	@tools/setup.sh

setup-tests:
	@tools/setup.sh --tests

build: setup ## build build/bin/hone and its front-end links
	@[ -e $(BUILD)/build.ninja ] || $(call configure,$(PRESET))
	@ninja -C $(BUILD) -j $(JOBS) hone_main

demo: build ## fine-tune the included model and compare its answers before and after
	@cookbook/demo.sh

unit-test: setup
	@[ -e $(BUILD)/build.ninja ] || $(call configure,$(PRESET))
	@ninja -C $(BUILD) -j $(JOBS)
	@OMP_WAIT_POLICY=passive ctest --test-dir $(BUILD) -j $(WORKERS) --timeout 600 --output-on-failure --repeat until-pass:2

# A worker that has run its share takes over half of what another still has to do.
pytest = $(PYTHON) -m pytest -q -n $(WORKERS) --dist worksteal
# Tests start servers and ranks next to each other. A few that fail there run again alone, and are named; what fails alone is a failure.
once_more = { [ "$$(grep -c '::' .pytest_cache/v/cache/lastfailed)" -le 5 ] && echo "again, alone:" && $(PYTHON) -m pytest -q --last-failed --last-failed-no-failures none tests; }

test: setup-tests check-format unit-test ## check the format, build, run unit tests, then pytest with transformers, peft and trl as oracles
	$(pytest) tests || $(once_more)

test-fast: setup-tests unit-test ## unit tests and the quick part of pytest, in under 5 minutes
	$(pytest) $$(grep -v '^#' tests/fast.txt)

test-peers: setup-tests unit-test ## parity with ms-swift and LLaMA-Factory, and tinker-cookbook's recipes, in separate environments
	@tools/setup.sh --peers
	HONE_PEERS_PYTHON=$(CURDIR)/.cache/peers/swift/bin/python:$(CURDIR)/.cache/peers/llamafactory/bin/python:$(CURDIR)/.cache/peers/cookbook/bin/python $(pytest) -m peer tests

test-torch-2.7.1: setup-tests build ## a program built with torch and torch_npu 2.7.1 next to this build: its tests, and emulated cards; STEPS="tests package" runs these alone
	@tests/npu/other_release.sh 2.7.1 $(STEPS)

test-aarch64: setup-tests ## build for aarch64 with Debian's cross compiler; unit tests and a part of pytest under emulation
	@tools/cross_aarch64.sh

test-reliability: setup-tests unit-test ## the thirty fault-injection tests, a line with a figure each
	$(PYTHON) -m pytest -q -m reliability tests

SOAK_MINUTES ?= 30
soak: setup-tests build ## requests, clients that disconnect, adapters and a training run at the same time, for SOAK_MINUTES (30)
	$(PYTHON) tests/serve/soak.py --minutes $(SOAK_MINUTES)

bench: setup-tests ## compare hone with other tools on this machine; prints ratios
	@$(call configure,bench)
	@ninja -C $(BUILD) -j $(JOBS)
	@$(PYTHON) bench/run.py

test-gpu: setup-tests ## where there is an NVIDIA GPU: kernels compared with their definitions, training passes with the CPU's, and ordinary tests on the GPU
	@[ -e $(BUILD)/build.ninja ] || $(call configure,release)
	@ninja -C $(BUILD) -j $(JOBS) hone_main ops_test
	@$(BUILD)/ops_test --gtest_filter='GpuTraining.*:GpuEngine.*'
	@$(PYTHON) -m pytest -q tests/gpu $$(grep -v '^#' tests/gpu.txt)

bench-gpu: build ## where there is an NVIDIA GPU: training steps compared with transformers and peft; writes bench/results
	@$(PYTHON) bench/gpu.py

fuzz: setup ## unit tests and fuzz targets under address and undefined-behaviour sanitizers
	@tests/fuzz/run.sh

format: setup ## format C++ sources
	@git ls-files '*.cpp' '*.h' | xargs clang-format -i

check-format: setup ## list the C++ sources that `make format` would change
	@git ls-files '*.cpp' '*.h' | xargs clang-format --dry-run -Werror

COMPONENTS ?=
tidy: build ## clang-tidy by the list in .clang-tidy, half an hour of a core; COMPONENTS="optim tuner" checks these alone
	@tools/setup.sh --tidy
	@$(PYTHON) tools/tidy.py $(BUILD) $(COMPONENTS)

docs: build ## write the generated pages of docs/
	@$(BUILD)/bin/hone options --format markdown > docs/options.md
	@$(BUILD)/bin/hone options --format requests > docs/request-fields.md
	@$(BUILD)/bin/hone options --format compatibility > docs/compatibility.md

install: build ## install hone, its front-end links and libhone under PREFIX; with BUNDLE=1 libtorch too, so that PREFIX can be moved
	@cmake --install $(BUILD) --prefix $(PREFIX)
	@$(if $(BUNDLE),cmake --install $(BUILD) --prefix $(PREFIX) --component libtorch)

wheel: build ## make dist/hone-*.whl, the Python package, for the torch of .venv
	@tools/setup.sh --wheel
	@cmake --install $(BUILD) --prefix $(BUILD)/prefix > /dev/null
	@PYTHONPATH=.venv/wheel $(PYTHON) -m pip wheel -q --no-deps --no-build-isolation -w dist -C cmake.define.HONE_PREFIX=$(abspath $(BUILD)/prefix) .
	@ls dist/hone-*.whl

# torch, Arrow and OpenMP are those of the environment that the wheel is installed into.
wheel-portable: wheel ## the same wheel with the libraries of this system in it, for machines that lack them
	@tools/setup.sh --auditwheel
	@PATH=$(CURDIR)/.cache/auditwheel/bin:$$PATH auditwheel repair --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libarrow*' --exclude 'libparquet*' --exclude 'libgomp*' -w dist $$(ls dist/hone-*-linux_*.whl | grep -v manylinux)
	@ls dist/hone-*manylinux*.whl

clean: ## remove the build folders
	@rm -rf $(BUILD) build-wheel dist
