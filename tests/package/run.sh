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
if grep -rnE '#include *[<"](fmt|spdlog|nlohmann|CLI|zlib|xxhash|gmp|httplib)' "$work/prefix/include"; then
  echo "package: a public header includes a third-party one" >&2
  exit 1
fi

# The fenced block number $3 (from 1 on) of language $2 in page $1, with the folder that README.md speaks of put in.
block() {
  awk -v fence='```' -v language="$2" -v wanted="$3" '
    on && index($0, fence) == 1 { exit }
    on { print; next }
    inside { if (index($0, fence) == 1) inside = 0; next }
    index($0, fence) == 1 { if ($0 == fence language && ++seen == wanted) on = 1; else inside = 1 }
  ' "$root/$1" | sed "s|<folder>|$work/prefix|g"
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
  block README.md cmake 1 >"$project/CMakeLists.txt"
  cp "$root/$example" "$project/main.cpp"
  build_project "$project"
  "$project/build/my_program" >"$project/output"
  tail -n 1 "$project/output"
done

if command -v pkg-config >/dev/null; then
  echo "== the g++ line of README.md"
  lines=$(block README.md sh 1)
  [[ $lines == *"g++ main.cpp"* ]] || { echo "package: README.md has no line for g++" >&2; exit 1; }
  for example in $examples; do
    project="$work/$(basename "$example" .cpp)"
    (cd "$project" && bash -euo pipefail -c "${lines//g++/\"$compiler\"}" && ./a.out) | diff - "$project/output"
  done
fi

echo "== the examples of the public headers"
project="$work/examples"
cp -r "$here/examples" "$project"
{
  block README.md cmake 1
  echo 'add_library(compiled OBJECT compiled.cpp)'
  echo 'target_link_libraries(compiled PRIVATE luminal::luminal)'
} >"$project/CMakeLists.txt"
mapfile -t headers < <(cd "$root" && find include -name '*.h' | sort)
extract() { (cd "$root" && awk "$@" -f "$here/examples/extract.awk" "${headers[@]}"); }
extract >"$project/compiled.cpp"
extract -v run=1 >"$project/main.cpp"
build_project "$project"
"$project/build/my_program"

echo "== the op of docs/adding_an_op.md"
page=docs/adding_an_op.md project="$work/softsign"
mkdir "$project"
block README.md cmake 1 | sed 's/main.cpp/main.cpp softsign.cpp/' >"$project/CMakeLists.txt"
block $page cpp 1 >"$project/softsign.cpp"
# The page says what to declare and to call; its second block is the use, and ends with the values that are expected.
{
  echo '#include <luminal/luminal.h>'
  echo '#include <iostream>'
  echo 'namespace luminal { extern const OpDef kSoftsign; }'
  echo 'using namespace luminal;'
  echo 'int main() {'
  grep -o 'register_op(kSoftsign)' "$root/$page" | head -n 1 | sed 's/$/;/'
  block $page cpp 2
  echo 'for (size_t i = 0; i < values.size(); ++i) std::cout << (i == 0 ? "" : ", ") << values[i];'
  echo '}'
} >"$project/main.cpp"
build_project "$project"
expected=$(block $page cpp 2 | sed -n 's|.*// {\(.*\)}$|\1|p')
[[ -n $expected ]] || { echo "package: $page does not say what its example gives" >&2; exit 1; }
for device in reference cpu; do
  found=$(LUMINAL_DEVICE=$device "$project/build/my_program")
  [[ $found == "$expected" ]] || { echo "package: softsign on $device is $found, not $expected" >&2; exit 1; }
done
echo "softsign: $expected"

echo "== the kernel of docs/user_kernels.md"
project="$work/user_kernel"
mkdir "$project"
block README.md cmake 1 >"$project/CMakeLists.txt"
block docs/user_kernels.md cpp 1 >"$project/main.cpp"
build_project "$project"
LUMINAL_CACHE=off "$project/build/my_program"

echo "== the optimizer of docs/adding_an_optimizer.md"
page=docs/adding_an_optimizer.md project="$work/optimizer"
mkdir "$project"
block README.md cmake 1 >"$project/CMakeLists.txt"
block $page cpp 1 >"$project/main.cpp"
build_project "$project"
"$project/build/my_program" | tee "$project/output"
grep -qxF "$(sed -n 's|.*to_string() << .*// ||p' "$project/main.cpp")" "$project/output" ||
  { echo "package: $page does not say what its program prints" >&2; exit 1; }

echo "== the law and the command lines of docs/adding_a_rule.md"
page=docs/adding_a_rule.md project="$work/law"
mkdir "$project"
block README.md cmake 1 >"$project/CMakeLists.txt"
block $page "" 1 >"$project/my_laws.egg"
law=$(sed -n 's/.*:name "\(.*\)".*/\1/p' "$project/my_laws.egg")
[[ -n $law ]] || { echo "package: $page shows no law" >&2; exit 1; }
# A copy that is wanted itself, read by another kernel: what the law is for.
{
  echo '#include <luminal/luminal.h>'
  echo '#include <iostream>'
  echo 'using namespace luminal;'
  echo 'int main() {'
  echo '  const std::string laws = R"('
  cat "$project/my_laws.egg"
  echo ')";'
  echo '  Graph cx;'
  echo '  GraphTensor copy = (cx.tensor({3, 4}).set(std::vector<float>(12, 2.0F)).t() * 1.0).retrieve();'
  echo '  GraphTensor sums = copy.sum(1).retrieve();'
  block $page cpp 1
  echo '  Compiled run = cx.compile(Fast{});'
  echo '  run();'
  echo '  for (const auto& rule : run.details().rules) std::cout << rule.name << " fired\n";'
  echo '  std::cout << sums.to_string() << "\n";'
  echo '}'
} >"$project/main.cpp"
build_project "$project"
LUMINAL_CACHE=off "$project/build/my_program" >"$project/output"
grep -qx "$law fired" "$project/output" || { echo "package: $law did not fire" >&2; exit 1; }
grep -qF "f32[4] [6, 6, 6, 6]" "$project/output" || { cat "$project/output" >&2; exit 1; }
mapfile -t lines < <(tr '\n' ' ' <"$root/$page" | grep -o '`luminal explain [^`]*`' | tr -d '`')
[[ ${#lines[@]} -ge 2 ]] || { echo "package: $page has no command lines" >&2; exit 1; }
for line in "${lines[@]}"; do
  (cd "$project" && PATH="$work/prefix/bin:$PATH" LUMINAL_CACHE=off \
     bash -euo pipefail -c "${line//FORMULA/"'x:f32[3,4].t().sum(1)'"}" >/dev/null) ||
    { echo "package: $page: $line" >&2; exit 1; }
done
echo "$law, ${#lines[@]} command lines"

echo "== program"
"$work/prefix/bin/luminal" --version
(cd "$work" && LUMINAL_CACHE=off "$work/prefix/bin/luminal" run -p "What is Luminal?" --temp 0 2>/dev/null) | grep "compiler"
# Only the program itself can tell how long it takes to start with a filled cache.
LUMINAL_CACHE="$work/cache" "$work/prefix/bin/luminal" train mnist --data "$root/data/mnist10k" --limit 128 --epochs 1 \
  --mode budget=1 --weights "$work/w.safetensors" --json "$work/mnist.json" >/dev/null
for field in test_accuracy step_us search_s warm_start_s kernels ops_outside_plan seed cpu; do
  grep -q "\"$field\":" "$work/mnist.json" || { echo "package: mnist.json has no $field" >&2; exit 1; }
done
grep -q '"ops_outside_plan": 0' "$work/mnist.json"
grep -qE '"warm_start_s": [0-9.e-]*[1-9]' "$work/mnist.json"
