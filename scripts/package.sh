#!/usr/bin/env bash
# package.sh wheel|gem|tarball|dist: packages in build/dist that carry both libraries, so that whoever
# installs one needs no Go and no librdkafka. dist makes all of them and SHA256SUMS. The same
# inputs give the same bytes.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
root=$PWD
dist=$root/build/dist
stage=$root/build/package
libs=(build/lib/libprosody.so build/lib/libprosody-rdkafka.so.1)
version=$(scripts/version.sh)
machine=$(uname -m)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022
mkdir -p "$dist"

papers() {  # folder: what each package tells of licenses
  cp -- LICENSE "$1/"
  scripts/notices.sh >"$1/NOTICES.txt"
}

staged() {  # folder native: a copy of its files with the libraries inside
  rm -rf -- "$stage"; mkdir -p "$stage/$2"
  git ls-files -z -co --exclude-standard -- "$1" | tar --null -T - -cf - | tar -C "$stage" --strip-components=2 -xf -
  cp -- "${libs[@]}" "$stage/$2/"
  papers "$stage"
  chmod -R u=rwX,go=rX "$stage"
}

wheel() {
  local python=build/venv/bin/python
  [[ -x $python ]] || python3 -m venv build/venv
  "$python" -m pip install -q --disable-pip-version-check 'setuptools>=77' wheel
  staged bindings/python prosody/lib
  rm -f -- "$dist"/prosody-*.whl
  "$python" -m pip wheel -q --no-deps --no-build-isolation --disable-pip-version-check -w "$stage/out" "$stage"
  "$python" -m wheel tags --remove --platform-tag "manylinux_$(scripts/glibc.sh | tr . _)_$machine" \
    "$stage"/out/*.whl >/dev/null
  mv -- "$stage"/out/*.whl "$dist/"
  ls -- "$dist"/*.whl
}

gem() {
  local said
  staged bindings/ruby lib/prosody/native
  rm -f -- "$dist"/prosody-*.gem
  said=$(cd "$stage" && PROSODY_GEM_NATIVE=1 command gem build \
    --output "$dist/prosody-$version-$machine-linux.gem" ./*.gemspec 2>&1) || { echo "$said" >&2; exit 1; }
  # The project has no page of its own to name.
  said=$(grep '^WARNING' <<<"$said" | grep -v -e 'no homepage' -e 'https://guides' -e "See https") || true
  [[ -z $said ]] || { echo "$said" >&2; exit 1; }
  ls -- "$dist"/*.gem
}

tarball() {
  local name=prosody-$version-linux-$machine
  rm -rf -- "$stage" "$dist"/prosody-*.tar.gz; mkdir -p "$stage"
  DESTDIR=$stage scripts/install.sh "/$name" >/dev/null
  mkdir -p "$stage/$name/share/doc/prosody/examples"
  cp -- README.md CHANGELOG.md "$stage/$name/share/doc/prosody/"
  cp -- examples/c/*.[ch] examples/c/Makefile "$stage/$name/share/doc/prosody/examples/"
  papers "$stage/$name/share/doc/prosody"
  chmod -R u=rwX,go=rX "$stage"
  tar -C "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" |
    gzip -9n >"$dist/$name.tar.gz"
  ls -- "$dist/$name.tar.gz"
}

dist() {
  rm -f -- "$dist"/*
  wheel; gem; tarball
  (cd "$dist" && sha256sum -- *.whl *.gem *.tar.gz >SHA256SUMS)
  cat -- "$dist/SHA256SUMS"
}

case ${1:-} in
  wheel | gem | tarball | dist) "$1" ;;
  *) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
esac
