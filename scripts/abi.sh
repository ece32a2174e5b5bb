#!/usr/bin/env bash
# abi.sh CHECK: one check of the built library or of the header.
#   symbols   libprosody.so exports the functions of the header and nothing else
#   storage   its thread-local storage is small enough for dlopen anywhere
#   load      C, Python and Ruby open it from a bare process
#   layout    constants, structs and functions are still those of include/prosody.abi and of
#             the previous header, tests/c/previous/include
#   breaks    layout notices each kind of change that would break a compiled program
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

compare() { "${PYTHON:-python3}" scripts/layout.py "$@"; }

layout() {
  compare tests/c/previous/include/prosody.h >"$work/previous.abi"
  compare include/prosody.h "$work/previous.abi" || fail "programs of the previous header would break"
  compare include/prosody.h include/prosody.abi
}

# A copy of the header with one change, which the comparison has to refuse or to accept.
change() {  # refused|accepted file expression
  rm -rf -- "$work/changed"; mkdir "$work/changed"
  cp -r include/prosody.h include/prosody "$work/changed/"
  sed -i -E -- "$3" "$work/changed/$2"
  [[ $(diff -r include "$work/changed") ]] || fail "changes nothing: $3"
  local result=accepted
  compare "$work/changed/prosody.h" include/prosody.abi >"$work/changed/output" 2>&1 || result=refused
  [[ $result == "$1" ]] || { cat "$work/changed/output"; fail "$3 is $result, not $1"; }
  count=$((count + 1))
}

breaks() {
  local count=0
  change refused prosody.h '/prosody_client_stalled/,/;/d'                     # a function goes
  change refused prosody.h 's/prosody_client_stalled/prosody_client_stuck/'    # or has another name
  change refused prosody.h 's/int32_t timeout_ms/int64_t timeout_ms/'          # another argument
  change refused prosody.h 's/PROSODY_API int prosody_queue_fd/PROSODY_API long prosody_queue_fd/'
  change refused prosody.h 's/PROSODY_ERR_CLOSED = 200/PROSODY_ERR_CLOSED = 210/'
  change refused prosody.h '/PROSODY_CANCEL_LOST = 4/d'                        # a constant goes
  change refused prosody.h 's/PROSODY_NULL_SIZE UINT32_MAX/PROSODY_NULL_SIZE 0u/'
  change refused prosody.h 's/^  char text\[1008\];/  char text[1000];/'       # a member shrinks
  change refused prosody.h 's/^  int32_t category;$/  uint32_t category;/'     # another type, same size
  change refused prosody.h '/^  uint32_t headers_count;$/d'                    # a member goes
  change refused prosody.h 's/^  uint32_t source_size;/  uint32_t more; uint32_t source_size;/'
  change refused prosody/callback.h 's/prosody_bytes text\);/prosody_bytes text, int32_t more);/'
  change refused prosody/timer.h 's/^  int64_t second;/  int32_t second;/'
  change refused prosody.h 's/typedef int32_t prosody_status;/typedef int64_t prosody_status;/'
  change accepted prosody.h 's/^  PROSODY_SHORT = 4,/  PROSODY_SHORT = 4, PROSODY_MORE = 5,/'
  change accepted prosody.h 's/^(  int64_t retention_ms; .*)$/\1\n  int64_t more;/'  # its size is in `size`
  change accepted prosody.h 's/^(PROSODY_API uint32_t prosody_abi_version.*)$/\1\nPROSODY_API int prosody_more(void);/'
  echo "$count changes"
}

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
  symbols | storage | load | layout | breaks | header) "$1" ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
