#!/usr/bin/env bash
# library.sh [FOLDER [TAG]]: builds FOLDER/libprosody.so (build/lib) from ./capi, with one more
# build tag if named. `make build` calls it when a source is newer.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
root=$PWD
go=${GO:-go}
source build/env.sh
map=$root/build/exports.map
to=${1:-build/lib}
tags=dynamic${2:+,$2}
part=$root/$to/.libprosody.so.part
mkdir -p "$to"

{
  printf '{\n  global:\n'
  scripts/exports.sh | sed 's/.*/    &;/'
  printf '  local: *;\n};\n'
} >"$map"

# An anonymous version script, so that the list of symbols holds nothing but functions.
ext="-Wl,--version-script,$map -Wl,-soname,libprosody.so.1 -Wl,-rpath,\$ORIGIN -Wl,--enable-new-dtags -Wl,-z,defs"
"$go" build -tags "$tags" -buildmode=c-shared -trimpath -buildvcs=false \
  -ldflags "-s -w -extldflags '$ext'" -o "$part" ./capi
rm -f -- "$to/.libprosody.so.h"

# A rename: a process that has the old file open keeps it.
mv -f -- "$part" "$to/libprosody.so"
ln -sfn libprosody.so "$to/libprosody.so.1"
[[ $to -ef build/lib ]] || cp -f -- build/lib/libprosody-rdkafka.so.1 "$to/"
