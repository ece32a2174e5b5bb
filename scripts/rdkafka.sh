#!/usr/bin/env bash
# Makes libprosody-rdkafka.so.1 from the static archive that the Go module of
# confluent-kafka-go carries, with what `-tags dynamic` needs to find it.
#
# Why: linked into libprosody.so, librdkafka brings 15 KiB of thread-local storage, and
# glibc then refuses to dlopen the library. As an object of its own it loads anywhere.
#
#   build/lib/libprosody-rdkafka.so.1      what is shipped
#   build/rdkafka/librdkafka.so            name for the linker, never shipped
#   build/rdkafka/include/librdkafka/*.h   the headers beside the archive
#   build/rdkafka/rdkafka.pc               for pkg-config
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
root=$PWD
# Functions outside librdkafka's headers that core/kafka/confluent uses as well.
inner=(rd_kafka_toppars_pause_resume)
soname=libprosody-rdkafka.so.1
module=github.com/confluentinc/confluent-kafka-go/v2
work=$root/build/rdkafka
lib=$root/build/lib
go=${GO:-go}
read -r -a cc <<<"${CC:-gcc}"

case $("$go" env GOOS) in
  linux) ;;
  *) echo "rdkafka: only Linux is built here; on this system pass a librdkafka of your own by PKG_CONFIG_PATH" >&2; exit 1 ;;
esac
if "${cc[@]}" -dumpmachine | grep -q musl; then
  echo "rdkafka: musl cannot load a Go library with dlopen; Prosody needs glibc" >&2
  exit 1
fi

arch=$("$go" env GOARCH)
"$go" mod download "$module"
vendor=$("$go" list -m -f '{{.Dir}}' "$module")/kafka/librdkafka_vendor
archive=$vendor/librdkafka_glibc_linux_$arch.a
[[ -e $archive ]] || { echo "rdkafka: the Go module has no archive for $arch" >&2; exit 1; }
version=$(perl -ne 'print join(".", map hex, $1 =~ /../g) =~ s/(\d+\.\d+\.\d+).*/$1/r if /^#define RD_KAFKA_VERSION\s+0x(\w+)/' \
  "$vendor/rdkafka.h")

rm -rf -- "$work"
mkdir -p "$work/include/librdkafka" "$lib"

# Each public function gets a prefix, in the object and (by a pragma that gcc and clang
# know) for whoever compiles with these headers. Otherwise a host that is itself linked
# with a librdkafka would hand its functions to our code, whatever its version.
declared=$(perl -0777 -ne '
  s{/\*.*?\*/}{ }gs;
  s{^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*$}{}mg;
  print "$1\n" while /\b(rd_kafka_\w+)\s*\(/g;
' "$vendor/rdkafka.h" "$vendor/rdkafka_mock.h")
defined=$(nm --defined-only "$archive" 2>/dev/null | awk '$2 == "T" {print $3}' | LC_ALL=C sort -u)
public=$(LC_ALL=C comm -12 <(printf '%s\n' "$declared" "${inner[@]}" | LC_ALL=C sort -u) <(echo "$defined"))
sed 's/.*/& prosody_&/' <<<"$public" >"$work/rename.txt"
sed 's/.*/#pragma redefine_extname & prosody_&/' <<<"$public" >"$work/include/librdkafka/rename.h"
for header in rdkafka.h rdkafka_mock.h; do
  { echo '#include <librdkafka/rename.h>'; cat -- "$vendor/$header"; } >"$work/include/librdkafka/$header"
done
"${OBJCOPY:-objcopy}" "--redefine-syms=$work/rename.txt" "$archive" "$work/rdkafka.a"

# Only its own interface leaves the object: no OpenSSL, no zlib, no curl.
{ echo '{ global:'; sed 's/.*/prosody_&;/' <<<"$public"; echo 'local: *; };'; } >"$work/exports.map"
"${cc[@]}" -shared -o "$work/$soname" "-Wl,-soname,$soname" "-Wl,--version-script,$work/exports.map" \
  -Wl,--whole-archive "$work/rdkafka.a" -Wl,--no-whole-archive \
  -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,relro -Wl,-s -lm -ldl -lpthread -lrt
rm -f -- "$work/rdkafka.a"
mv -f -- "$work/$soname" "$lib/$soname"
ln -s -- "../lib/$soname" "$work/librdkafka.so"

cat >"$work/rdkafka.pc" <<PC
Name: librdkafka
Description: librdkafka as Prosody ships it
Version: $version
Cflags: -I$work/include
Libs: -L$work -lrdkafka
PC
