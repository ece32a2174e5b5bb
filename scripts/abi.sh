#!/usr/bin/env bash
# abi.sh CHECK: one check of the built library or of the header.
#   symbols   libprosody.so exports the functions of the header and nothing else
#   storage   its thread-local storage is small enough for dlopen anywhere
#   load      C, Python and Ruby open it from a bare process
#   layout    constants, structs and functions are still those of include/prosody.abi
#   header    it compiles as C99, C11 and C++17, included twice, without a warning
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
root=$PWD
lib=$root/build/lib/libprosody.so
kafka=$root/build/lib/libprosody-rdkafka.so.1
work=$root/build/abi
mkdir -p "$work"
read -r -a cc <<<"${CC:-gcc}"
read -r -a cxx <<<"${CXX:-g++}"

fail() { printf 'abi: %s\n' "$*" >&2; exit 1; }

symbols() {
  scripts/exports.sh >"$work/declared.txt"
  nm -D --defined-only "$lib" | awk '{print $NF}' | LC_ALL=C sort >"$work/exported.txt"
  diff -u "$work/declared.txt" "$work/exported.txt" ||
    fail "the library does not export what the header declares (- header, + library)"
  # Names of a plain librdkafka would bind to another one in the host.
  ! nm -D "$lib" | grep -E ' rd_kafka_' || fail "unprefixed names of librdkafka"
  ! nm -D --defined-only "$kafka" | awk '{print $NF}' | grep -v '^prosody_rd_kafka_' ||
    fail "$(basename "$kafka") exports more than its prefixed interface"
  local soname abi
  soname=$(readelf -dW "$lib" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  abi=$(sed -n 's/^#define PROSODY_ABI_VERSION[[:space:]]*\([0-9]*\).*/\1/p' include/prosody.h)
  [[ $soname == "libprosody.so.$abi" ]] || fail "SONAME $soname, but PROSODY_ABI_VERSION $abi"
  echo "$(wc -l <"$work/exported.txt") functions"
}

storage() {
  local size
  size=$(readelf -lW "$lib" | awk '$1 == "TLS" {print $6}')
  [[ -n $size ]] || size=0
  ((size < 64)) || fail "the TLS segment has $((size)) bytes; 64 is the limit"
  echo "$((size)) bytes"
}

load() {
  cat >"$work/load.c" <<'C'
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include "prosody.h"
int main(int count, char **args) {
  void *lib = count == 2 ? dlopen(args[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!lib) return fprintf(stderr, "%s\n", dlerror()), 1;
  uint32_t (*version)(void);
  *(void **)&version = dlsym(lib, "prosody_abi_version");
  if (!version || version() != PROSODY_ABI_VERSION) return fprintf(stderr, "wrong version\n"), 1;
  return 0;
}
C
  "${cc[@]}" -std=gnu11 -Wall -Wextra -Werror -Iinclude -o "$work/load" "$work/load.c" -ldl
  # A copy elsewhere: the run path must not lead back to this tree.
  rm -rf -- "$work/copy"; mkdir "$work/copy"
  cp -- "$lib" "$kafka" "$work/copy/"
  local bare=(env -u LD_PRELOAD -u LD_LIBRARY_PATH -u GLIBC_TUNABLES)
  "${bare[@]}" "$work/load" "$work/copy/libprosody.so" || fail "C could not open the library"
  "${bare[@]}" "${PYTHON:-python3}" -c 'import ctypes, sys
assert ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL).prosody_abi_version() > 0' "$work/copy/libprosody.so" ||
    fail "Python could not open the library"
  "${bare[@]}" ruby -rffi -e 'path = ARGV.fetch(0)
    flags = FFI::DynamicLibrary::RTLD_NOW | FFI::DynamicLibrary::RTLD_LOCAL
    FFI::DynamicLibrary.open(path, flags).find_function("prosody_abi_version") or abort "no function"' \
    "$work/copy/libprosody.so" || fail "Ruby could not open the library"
  rm -rf -- "$work/copy"
  echo "C, Python, Ruby"
}

layout() { "${PYTHON:-python3}" scripts/layout.py include/prosody.h include/prosody.abi; }

header() {
  printf '#include "prosody.h"\n#include "prosody.h"\nint main(void) { return PROSODY_ABI_VERSION == 0; }\n' \
    | tee "$work/twice.c" >"$work/twice.cc"
  local strict=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude) std compiler
  for compiler in "${cc[0]}" clang; do
    command -v "$compiler" >/dev/null || continue
    for std in c99 c11; do "$compiler" "-std=$std" "${strict[@]}" "$work/twice.c"; done
  done
  for compiler in "${cxx[0]}" clang++; do
    command -v "$compiler" >/dev/null || continue
    "$compiler" -std=c++17 "${strict[@]}" "$work/twice.cc"
  done
  echo "C99, C11, C++17"
}

case ${1:-} in
  symbols | storage | load | layout | header) "$1" ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
