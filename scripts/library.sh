#!/usr/bin/env bash
# Builds build/lib/libprosody.so from ./capi. `make build` calls it when a source is newer.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
root=$PWD
go=${GO:-go}
source build/env.sh
map=$root/build/exports.map
part=$root/build/lib/.libprosody.so.part

{
  printf '{\n  global:\n'
  scripts/exports.sh | sed 's/.*/    &;/'
  printf '  local: *;\n};\n'
} >"$map"

# An anonymous version script, so that the list of symbols holds nothing but functions.
ext="-Wl,--version-script,$map -Wl,-soname,libprosody.so.1 -Wl,-rpath,\$ORIGIN -Wl,--enable-new-dtags -Wl,-z,defs"
"$go" build -tags dynamic -buildmode=c-shared -trimpath -buildvcs=false \
  -ldflags "-s -w -extldflags '$ext'" -o "$part" "${CAPI:-./capi}"
rm -f -- "${part%.part}.h" build/lib/.libprosody.so.h build/lib/.libprosody.h

# A rename: a process that has the old file open keeps it.
mv -f -- "$part" build/lib/libprosody.so
ln -sfn libprosody.so build/lib/libprosody.so.1
