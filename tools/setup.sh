#!/usr/bin/env bash
# Installs what a build needs on Debian 12, and only what is missing: a second call returns at once.
#   tools/setup.sh        compiler, build tools, libraries
#   tools/setup.sh --ci   also what the checks of .ci/run use
set -euo pipefail

packages=(g++ cmake ninja-build mold pkgconf libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libxxhash-dev
          zlib1g-dev libsqlite3-dev llvm-19-dev libgtest-dev libgmock-dev libbenchmark-dev libboost-dev libgmp-dev
          libpcre2-dev libutf8proc-dev libcpp-httplib-dev)
if [[ ${1:-} == --ci ]]; then
  packages+=(ccache clang-19 clang-format-19 libclang-rt-19-dev coinor-cbc python3)
  packages+=(ocl-icd-libopencl1 pocl-opencl-icd)  # an OpenCL device that every machine has
fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup: no dpkg here; install what corresponds to these Debian packages: ${packages[*]}" >&2
  exit 0
fi

# Names that are not installed; dpkg-query prints nothing for packages it has never heard of.
installed=$(dpkg-query -W -f '${db:Status-Status} ${binary:Package}\n' 2>/dev/null | sed -n 's/^installed //p' | sed 's/:.*//')
missing=()
for package in "${packages[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo)
  else
    echo "setup: these packages are missing and installing them takes root; please run" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi
export DEBIAN_FRONTEND=noninteractive
echo "setup: installing ${missing[*]}"
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
         apt-get install -y -qq --no-install-recommends "${missing[@]}")
# Package lists may be absent (a bare image) or stale (a renamed version): one update, then a second try.
if ! compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null || ! "${install[@]}"; then
  "${as_root[@]}" apt-get update -qq
  "${install[@]}"
fi
