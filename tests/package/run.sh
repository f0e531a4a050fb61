#!/usr/bin/env bash
# Installs the build folder $1 into a throw-away prefix and builds a small program against it with compiler $2,
# through find_package and through pkg-config; both must run.
set -euo pipefail
build=$1 compiler=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
# The public headers are all a consumer gets: no third-party include may hide in them.
if grep -rnE '#include *[<"](fmt|spdlog|nlohmann|CLI|zlib|xxhash)' "$work/prefix/include"; then
  echo "package: a public header includes a third-party one" >&2
  exit 1
fi

echo "== find_package"
cmake -S "$here/consumer" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/cmake"
"$work/cmake/consumer" "$work"

if command -v pkg-config >/dev/null; then
  echo "== pkg-config"
  export PKG_CONFIG_PATH
  PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name luminal.pc)")
  # Word splitting is wanted: pkg-config prints a list of flags.
  # shellcheck disable=SC2046
  "$compiler" -O1 "$here/consumer/main.cpp" -o "$work/by_pkg_config" $(pkg-config --cflags --libs luminal)
  "$work/by_pkg_config" "$work"
fi

echo "== program"
"$work/prefix/bin/luminal" --version
# Only the program itself can tell how long it takes to start with a filled cache.
LUMINAL_CACHE="$work/cache" "$work/prefix/bin/luminal" train mnist --data "$here/../../data/mnist10k" --limit 128 --epochs 1 \
  --mode budget=1 --weights "$work/w.safetensors" --json "$work/mnist.json" >/dev/null
for field in test_accuracy step_us search_s warm_start_s kernels ops_outside_plan seed cpu; do
  grep -q "\"$field\":" "$work/mnist.json" || { echo "package: mnist.json has no $field" >&2; exit 1; }
done
grep -q '"ops_outside_plan": 0' "$work/mnist.json"
grep -qE '"warm_start_s": [0-9.e-]*[1-9]' "$work/mnist.json"
