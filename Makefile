# Everything a person needs: `make run` and `make test` work on a fresh Debian 12 machine.
# ARGS adds to the command of `make run`:  make run ARGS="--epochs 5 --limit 0"
# CMAKE_ARGS adds to the command that configures the build.
BUILD := build/release
JOBS ?= $(shell nproc)
TEST_JOBS ?= 2
ARGS ?=
CMAKE_ARGS ?=
BENCH ?=
WEIGHTS ?= build/mnist.safetensors

.PHONY: all run test test-full validate bench bench-search bench-peers bench-micro format clean setup configure

all: configure
	@cmake --build $(BUILD) -j $(JOBS)

setup:
	@tools/setup.sh

configure: setup
	@cmake --preset release --log-level=WARNING $(CMAKE_ARGS) >/dev/null

# Finds the fastest kernels for a training step of a convolutional network, trains it on real handwritten digits,
# then shows one and what the network takes it for. What was found and how fast it is goes to build/mnist.json.
run: configure
	@cmake --build $(BUILD) -j $(JOBS) --target luminal
	@$(BUILD)/luminal train mnist --weights $(WEIGHTS) --json build/mnist.json $(ARGS)
	@$(BUILD)/luminal predict --weights $(WEIGHTS)

test: all
	@ctest --test-dir $(BUILD) -j $(TEST_JOBS) --output-on-failure --progress --no-tests=error

# The exhaustive sets: what `make test` samples is run in full.
test-full: all
	@LUMINAL_TEST_FULL=1 ctest --test-dir $(BUILD) -j $(TEST_JOBS) --output-on-failure --progress --no-tests=error --timeout 7200

# Compares with PyTorch, which is set up on first use; writes docs/validation.md.
DEVICES ?= reference cpu cpu:optimal
validate: configure
	@cmake --build $(BUILD) -j $(JOBS) --target luminal_validate
	@tools/validate/run.sh $(BUILD) "$(DEVICES)"

# Ours beside the peers, timed in turn in one run: a table, build/bench.json, and a page of rooflines, build/bench.html.
# BENCH passes options on: make bench BENCH="--suite gemm,conv --threads 2". Without them the searches follow.
bench: configure
	@cmake --build $(BUILD) -j $(JOBS) --target luminal
	@python3 bench/compare/compare.py --luminal $(BUILD)/luminal --python build/peers/bin/python --out build/bench.json \
	  --page build/bench.html $(BENCH)
	@$(if $(BENCH),,$(MAKE) --no-print-directory bench-search)

# How long searches of whole networks take, beside their bars: cold and once more, in build/searches.json.
bench-search: configure
	@cmake --build $(BUILD) -j $(JOBS) --target luminal
	@python3 bench/compare/searches.py --luminal $(BUILD)/luminal --out build/searches.json

# The peers of `make bench`, in a virtual environment of their own.
bench-peers:
	@test -x build/peers/bin/python || python3 -m venv build/peers
	@build/peers/bin/pip install --quiet --upgrade torch numpy jax onnxruntime onnx

# The Google Benchmark programs of bench/.
bench-micro: configure
	@cmake -B $(BUILD) -DLUMINAL_BUILD_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@for program in $(BUILD)/bench_*; do [ -x $$program ] && { echo "== $$program"; $$program || exit 1; }; done

format:
	@tools/setup.sh --ci
	@tools/format

clean:
	@rm -rf build
