#!/usr/bin/env bash
# package.sh wheel|gem: a Python wheel or a Ruby gem that carries both libraries, in
# build/dist/. Whoever installs it needs no Go and no librdkafka.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
root=$PWD
dist=$root/build/dist
stage=$root/build/package
libs=(build/lib/libprosody.so build/lib/libprosody-rdkafka.so.1)
mkdir -p "$dist"

staged() {  # folder native: a copy of the tracked files with the libraries inside
  rm -rf -- "$stage"; mkdir -p "$stage/$2"
  git ls-files -z -co --exclude-standard -- "$1" | tar --null -T - -cf - | tar -C "$stage" --strip-components=2 -xf -
  cp -- "${libs[@]}" "$stage/$2/"
  cp -- LICENSE "$stage/"
}

glibc() {  # the newest version of glibc that the libraries ask for, as 2_34
  readelf -VW "${libs[@]}" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1 | sed 's/GLIBC_//; s/\./_/'
}

wheel() {
  local python=build/venv/bin/python
  [[ -x $python ]] || python3 -m venv build/venv
  "$python" -m pip install -q --disable-pip-version-check 'setuptools>=77' wheel
  staged bindings/python prosody/lib
  rm -f -- "$dist"/prosody-*.whl
  "$python" -m pip wheel -q --no-deps --no-build-isolation --disable-pip-version-check -w "$stage/out" "$stage"
  "$python" -m wheel tags --remove --platform-tag "manylinux_$(glibc)_$(uname -m)" "$stage"/out/*.whl >/dev/null
  mv -- "$stage"/out/*.whl "$dist/"
  ls -- "$dist"/*.whl
}

gem() {
  staged bindings/ruby lib/prosody/native
  rm -f -- "$dist"/prosody-*.gem
  local version
  version=$(sed -n 's/^#define PROSODY_VERSION[[:space:]]*"\(.*\)"$/\1/p' include/prosody.h)
  (cd "$stage" && PROSODY_GEM_NATIVE=1 command gem build -q --strict --output "$dist/prosody-$version-$(uname -m)-linux.gem" ./*.gemspec)
  ls -- "$dist"/*.gem
}

case ${1:-} in
  wheel | gem) "$1" ;;
  *) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
esac
