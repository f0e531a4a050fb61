# Everything a person needs: `make run` and `make test` work on a fresh Debian 12 machine.
# ARGS adds to the command of `make run`:  make run ARGS="--epochs 5 --limit 0"
BUILD := build/release
JOBS ?= $(shell nproc)
TEST_JOBS ?= 2
ARGS ?=
WEIGHTS ?= build/mnist.safetensors

.PHONY: all run test test-full validate bench format clean setup configure

all: configure
	@cmake --build $(BUILD) -j $(JOBS)

setup:
	@tools/setup.sh

configure: setup
	@cmake --preset release --log-level=WARNING >/dev/null

# Trains a convolutional network on real handwritten digits, then shows one and what the network takes it for.
run: configure
	@cmake --build $(BUILD) -j $(JOBS) --target luminal
	@$(BUILD)/luminal train mnist --weights $(WEIGHTS) $(ARGS)
	@$(BUILD)/luminal predict --weights $(WEIGHTS)

test: all
	@ctest --test-dir $(BUILD) -j $(TEST_JOBS) --output-on-failure --progress --no-tests=error

# The exhaustive sets: what `make test` samples is run in full.
test-full: all
	@LUMINAL_TEST_FULL=1 ctest --test-dir $(BUILD) -j $(TEST_JOBS) --output-on-failure --progress --no-tests=error --timeout 7200

# Compares with PyTorch, which is set up on first use; writes docs/validation.md.
DEVICES ?= reference
validate: configure
	@cmake --build $(BUILD) -j $(JOBS) --target luminal_validate
	@tools/validate/run.sh $(BUILD) "$(DEVICES)"

bench: configure
	@cmake -B $(BUILD) -DLUMINAL_BUILD_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@for program in $(BUILD)/bench_*; do [ -x $$program ] && { echo "== $$program"; $$program || exit 1; }; done

format:
	@tools/setup.sh --ci
	@tools/format

clean:
	@rm -rf build
