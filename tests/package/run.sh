#!/usr/bin/env bash
# Installs the build folder $1 into a throw-away prefix and builds programs against it with compiler $2, through
# find_package and through pkg-config. Beside one of its own these are the README's, by the very lines it gives.
set -euo pipefail
build=$1 compiler=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
# The public headers are all a consumer gets: no third-party include may hide in them.
if grep -rnE '#include *[<"](fmt|spdlog|nlohmann|CLI|zlib|xxhash|gmp)' "$work/prefix/include"; then
  echo "package: a public header includes a third-party one" >&2
  exit 1
fi

# What README.md has in its fenced blocks of language $1, with the folder it speaks of put in.
readme_block() {
  awk -v fence='```' -v open_fence="\`\`\`$1" '$0 == open_fence { on = 1; next } index($0, fence) == 1 { on = 0 } on' \
    "$root/README.md" | sed "s|<folder>|$work/prefix|g"
}
# Configures and builds the project in $1. Nothing but the package may be looked for: whoever uses it has what
# README.md names, and not the files by which CMake finds libraries of others.
build_project() {
  local others=() package
  for package in fmt spdlog nlohmann_json ZLIB SQLite3 CLI11 LLVM; do
    others+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON")
  done
  (cd "$1" && cmake -B build -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" "${others[@]}" \
     >build.log && cmake --build build >>build.log) || { cat "$1/build.log" >&2; exit 1; }
}

echo "== find_package"
cp -r "$here/consumer" "$work/consumer"
build_project "$work/consumer"
"$work/consumer/build/consumer" "$work"

# The programs that README.md shows: "The whole of [examples/NAME.cpp]" and others with a block of C++ behind their name.
examples=$(awk '/^```cpp$/ { print name } match($0, /examples\/[a-z_]+\.cpp/) { name = substr($0, RSTART, RLENGTH) }' \
             "$root/README.md")
[[ $(wc -w <<<"$examples") -ge 2 ]] || { echo "package: README.md shows no examples" >&2; exit 1; }

echo "== the CMakeLists.txt of README.md"
for example in $examples; do
  project="$work/$(basename "$example" .cpp)"
  mkdir "$project"
  readme_block cmake >"$project/CMakeLists.txt"
  cp "$root/$example" "$project/main.cpp"
  build_project "$project"
  "$project/build/my_program" >"$project/output"
  tail -n 1 "$project/output"
done

if command -v pkg-config >/dev/null; then
  echo "== the g++ line of README.md"
  lines=$(readme_block sh)
  [[ $lines == *"g++ main.cpp"* ]] || { echo "package: README.md has no line for g++" >&2; exit 1; }
  for example in $examples; do
    project="$work/$(basename "$example" .cpp)"
    (cd "$project" && bash -euo pipefail -c "${lines//g++/\"$compiler\"}" && ./a.out) | diff - "$project/output"
  done
fi

echo "== program"
"$work/prefix/bin/luminal" --version
# Only the program itself can tell how long it takes to start with a filled cache.
LUMINAL_CACHE="$work/cache" "$work/prefix/bin/luminal" train mnist --data "$root/data/mnist10k" --limit 128 --epochs 1 \
  --mode budget=1 --weights "$work/w.safetensors" --json "$work/mnist.json" >/dev/null
for field in test_accuracy step_us search_s warm_start_s kernels ops_outside_plan seed cpu; do
  grep -q "\"$field\":" "$work/mnist.json" || { echo "package: mnist.json has no $field" >&2; exit 1; }
done
grep -q '"ops_outside_plan": 0' "$work/mnist.json"
grep -qE '"warm_start_s": [0-9.e-]*[1-9]' "$work/mnist.json"
