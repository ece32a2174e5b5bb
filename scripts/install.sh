#!/usr/bin/env bash
# install.sh [--remove] PREFIX: headers, both libraries, prosody.pc and the CMake configuration, below
# DESTDIR.
set -euo pipefail

remove=
[[ ${1:-} == --remove ]] && { remove=1; shift; }
prefix=${1:?a folder to install to}
[[ $prefix == /* ]] || { echo "install: PREFIX must be absolute, not '$prefix'" >&2; exit 2; }
cd -- "$(dirname -- "$0")/.."
to=${DESTDIR:-}$prefix
files=(include/prosody.h include/prosody/*.h lib/libprosody.so lib/libprosody.so.1 lib/libprosody-rdkafka.so.1
       lib/pkgconfig/prosody.pc lib/cmake/prosody/prosodyConfig{,Version}.cmake)

if [[ $remove ]]; then
  for file in "${files[@]}"; do rm -f -- "$to/$file"; done
  rmdir --ignore-fail-on-non-empty -- "$to/include/prosody" "$to/lib/cmake/prosody" 2>/dev/null || true
  exit
fi

install -d "$to/include/prosody" "$to/lib/pkgconfig" "$to/lib/cmake/prosody"
install -m 644 include/prosody.h "$to/include/"
install -m 644 include/prosody/*.h "$to/include/prosody/"
install -m 755 build/lib/libprosody.so build/lib/libprosody-rdkafka.so.1 "$to/lib/"
ln -sfn libprosody.so "$to/lib/libprosody.so.1"
scripts/pkgconfig.sh >"$to/lib/pkgconfig/prosody.pc"
cp -- scripts/cmake/prosodyConfig.cmake "$to/lib/cmake/prosody/"
sed "s/@VERSION@/$(scripts/version.sh)/" scripts/cmake/prosodyConfigVersion.cmake \
  >"$to/lib/cmake/prosody/prosodyConfigVersion.cmake"
chmod 644 "$to/lib/pkgconfig/prosody.pc" "$to"/lib/cmake/prosody/*.cmake
echo "installed to $to"
[[ -n ${DESTDIR:-} || $EUID -ne 0 ]] || ldconfig || true
