# demo: a model decoded with and without tierkv   test, test-long: pytest   check: linters and types
# test-ascendc: AscendC kernels in a model of the cores   test-npu: torch_npu on a device in host memory
# bench: benchmarks   sanitize: the C++ under ASan, UBSan and TSan   clean: back to a fresh clone.
# Everything runs in .venv, made on first use; torch_npu has one of its own, as torch loads it unasked.
PYTHON ?= python3
BIN := .venv/bin
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
META := pyproject.toml $(PLUGINS:%=%/pyproject.toml) constraints.txt build-requirements.txt
NPU := .venv-npu/bin
NPU_TESTS := $(wildcard ops/ascendc/tests_npu/test_*.py)
COMPILED := $(foreach name,compile decode_compiled ge modes,ops/ascendc/tests_npu/test_$(name).py)
OVERLAY := overlays/transformers-5.18.0
NATIVE := CMakeLists.txt $(wildcard ops/cpu/*) tierkv/constants.py

.PHONY: demo test test-ascendc test-npu test-long check bench sanitize clean

demo: .venv/.native
	$(BIN)/tierkv run examples/glm52.yaml

test: .venv/.native $(OVERLAY)/.done
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-ascendc: .venv/.native
	$(BIN)/python -m pytest -n 2 --dist loadfile ops/ascendc/tests

# Vendors' compilers change torch for the rest of a process, so they get one of their own.
test-npu: .venv-npu/.done
	$(NPU)/python -m pytest $(filter-out $(COMPILED),$(NPU_TESTS))
	$(NPU)/python -m pytest $(COMPILED)

test-long: .venv/.native $(OVERLAY)/.done
	$(BIN)/python -m pytest -m "" tests plugins benchmarks ops/ascendc/tests

check: .venv/.native
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.native
	$(BIN)/python -m pytest benchmarks --benchmark-enable --benchmark-only

sanitize: .venv/.native
	ops/cpu/sanitize $(abspath $(BIN)/python)

clean:
	rm -rf .venv .venv-npu overlays build dist ops/ascendc/build ops/ascendc/tierkv_ascendc/_torch.so .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and always under the constraints: unconstrained, pip takes the CUDA build.
.venv/.deps: $(META)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -r build-requirements.txt torch
	touch $@

# Where a compiler exists a mistake in the C++ must stop the installation, see pyproject.toml.
.venv/.native: .venv/.deps $(NATIVE)
	TIERKV_REQUIRE_NATIVE=$(if $(shell command -v $(CXX)),1,0) $(BIN)/python -m pip install -q \
		--no-build-isolation -c constraints.txt -e '.[dev,plots,transformers]' $(PLUGINS:%=-e %)
	touch $@

# The native operators are not needed there.
.venv-npu/.done: $(META) ops/ascendc/pyproject.toml
	test -x $(NPU)/python || $(PYTHON) -m venv .venv-npu
	$(NPU)/python -m pip install -q -c constraints.txt -r build-requirements.txt torch
	$(NPU)/python -m pip install -q --no-build-isolation -c constraints.txt -C wheel.cmake=false \
		-e '.[testing]' $(PLUGINS:%=-e %) -e ops/ascendc torch-npu protobuf
	touch $@

# The lowest supported release beside the newest: a test puts it first on the path.
overlays/transformers-%/.done: .venv/.deps
	rm -rf $(@D)
	$(BIN)/python -m pip install -q --no-deps --target $(@D) transformers==$*
	touch $@
