#!/bin/sh
# run.sh BUILD DEVICES: compares every op, module, loss, optimizer, schedule and distribution with PyTorch on the
# given devices, on "cpu:optimal" a sample of it. PyTorch comes from PyPI into a virtual environment in the build
# folder, once. Writes docs/validation.md, and, if all is well, the expectations that `make test` uses.
set -eu
build=$1
places=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$build/validate
venv=$work/venv
mkdir -p "$work"
if ! cmp -s "$here/requirements.txt" "$venv/installed.txt"; then
  echo "setting up PyTorch in $venv (once)"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/installed.txt"
fi
folders=
for place in $places; do
  folder="$work/$(echo "$place" | tr : _)"
  "$build/luminal_validate" "$place" "$folder"
  folders="$folders $folder"
done
# shellcheck disable=SC2086  # a list of folders
"$venv/bin/python" "$here/compare.py" $folders --table "$root/docs/validation.md" \
  --store "$root/tests/validate/expected.safetensors"
