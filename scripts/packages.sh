#!/usr/bin/env bash
# packages.sh: builds the packages, and installs each into an empty environment, where its demo has to
# run: without Go, and without this tree.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
version=$(scripts/version.sh --check)
scripts/glibc.sh --check >/dev/null
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# The same inputs give the same bytes.
scripts/package.sh dist >/dev/null
cp -- build/dist/SHA256SUMS "$work/first"
scripts/package.sh dist >/dev/null
diff "$work/first" build/dist/SHA256SUMS || { echo "packages: a second run gives other bytes" >&2; exit 1; }
mkdir "$work/dist"
cp -- build/dist/* "$work/dist/"
(cd "$work/dist" && sha256sum --quiet -c SHA256SUMS)

# All programs of the system but Go.
mkdir "$work/bin" "$work/home" "$work/demo"
for place in /bin /usr/bin; do ln -sf "$place"/* "$work/bin/" 2>/dev/null || true; done
rm -f -- "$work"/bin/{go,gofmt,gccgo}*
cp -- examples/c/demo.c bindings/python/examples/demo.py bindings/ruby/examples/demo.rb "$work/demo/"
cd -- "$work"

bare() { env -i PATH="$work/bin" HOME="$work/home" LANG=C.UTF-8 "$@"; }
! bare bash -c 'command -v go' || { echo "packages: Go is still there" >&2; exit 1; }

story() {  # name command...: runs a demo, which has to tell its whole story
  local name=$1 said; shift
  said=$(bare timeout -k 5 60 "$@") || { echo "packages: the demo of the $name failed: $said" >&2; exit 1; }
  [[ $(grep -cE '^(message|excise|timer) order-[12]' <<<"$said") == 8 && $said == *done ]] ||
    { echo "packages: the demo of the $name said: $said" >&2; exit 1; }
  echo "$name"
}

# Nothing of this tree may have been used.
inside() { [[ $2 == "$work"/* ]] || { echo "packages: the $1 uses $2" >&2; exit 1; }; }

wheel() {
  bare python3 -m venv "$work/venv"
  bare "$work/venv/bin/pip" install -q --no-index --disable-pip-version-check "$work"/dist/*.whl
  inside wheel "$(bare "$work/venv/bin/python" -c 'from prosody import locate; print(locate.find())')"
  [[ $(bare "$work/venv/bin/python" -c 'import importlib.metadata as m; print(m.version("prosody"))') == "$version" ]]
  bare "$work/venv/bin/python" -c 'import importlib.metadata as m, importlib.resources as r, prosody.testing
assert (r.files("prosody") / "py.typed").is_file()
assert [one.value for one in m.entry_points(group="pytest11", name="prosody")] == ["prosody.testing.plugin"]'
  story wheel "$work/venv/bin/python" demo/demo.py
}

gem() {
  # ffi comes from the system: nothing is downloaded.
  local home=$work/gems paths
  paths=$home:$(bare gem environment gempath)
  bare GEM_HOME="$home" GEM_PATH="$paths" gem install -q --local --no-document "$work"/dist/*.gem >/dev/null
  inside gem "$(bare GEM_HOME="$home" GEM_PATH="$paths" ruby -e 'require "prosody"; puts Prosody.send(:const_get, :Place).find')"
  [[ $(bare GEM_HOME="$home" GEM_PATH="$paths" ruby -e 'require "prosody"; puts Prosody::VERSION') == "$version" ]]
  story gem env GEM_HOME="$home" GEM_PATH="$paths" ruby demo/demo.rb
}

tarball() {
  # Unpacked in one place and moved to another.
  mkdir unpacked "a place"
  tar -xf "$work"/dist/*.tar.gz -C unpacked
  mv -- unpacked/* "a place/prosody"
  local prefix="$work/a place/prosody" flags
  ln -s "a place/prosody" short # pkg-config splits at spaces
  flags=$(bare PKG_CONFIG_PATH="$work/short/lib/pkgconfig" pkg-config --cflags --libs prosody)
  [[ $(bare PKG_CONFIG_PATH="$work/short/lib/pkgconfig" pkg-config --modversion prosody) == "$version" ]]
  # shellcheck disable=SC2086
  bare cc -std=c11 -D_POSIX_C_SOURCE=200809L -o by-pkgconfig demo/demo.c $flags "-Wl,-rpath,$work/short/lib"
  story tarball ./by-pkgconfig

  mkdir project
  cat >project/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.13)
project(demo C)
find_package(prosody ${version%.*} REQUIRED)
add_executable(demo ../demo/demo.c)
target_compile_definitions(demo PRIVATE _POSIX_C_SOURCE=200809L)
target_link_libraries(demo PRIVATE prosody::prosody)
CMAKE
  bare cmake -S project -B build "-DCMAKE_PREFIX_PATH=$prefix" >cmake.log || { cat cmake.log >&2; exit 1; }
  bare cmake --build build >cmake.log || { cat cmake.log >&2; exit 1; }
  story CMake build/demo
  sed -i 's/find_package(prosody [^ ]*/find_package(prosody 99.0/' project/CMakeLists.txt
  ! bare cmake -S project -B other "-DCMAKE_PREFIX_PATH=$prefix" >cmake.log 2>&1 && grep -q 'version: ' cmake.log ||
    { echo "packages: CMake takes any version" >&2; exit 1; }
}

wheel; gem; tarball
tar -xOf dist/*.gem data.tar.gz | tar -tz >gem.list
python3 -m zipfile -l dist/*.whl >wheel.list
for file in LICENSE NOTICES.txt; do
  grep -q "licenses/$file " wheel.list && grep -qx "$file" gem.list &&
    [[ -s "a place/prosody/share/doc/prosody/$file" ]] || { echo "packages: a package lacks $file" >&2; exit 1; }
done
echo "$(wc -l <dist/SHA256SUMS) packages of $version, each installed and run"
