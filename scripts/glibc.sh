#!/usr/bin/env bash
# glibc.sh [--check]: prints the oldest glibc that can load both libraries, by the versions of the
# symbols that they ask for. With --check it has to be the one that docs/limits.md promises.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
needs=$(readelf -VW build/lib/libprosody.so build/lib/libprosody-rdkafka.so.1 |
  grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | sed 's/GLIBC_//')
[[ -n $needs ]] || { echo "glibc: the libraries ask for no version" >&2; exit 1; }
if [[ ${1:-} == --check ]]; then
  stated=$(sed -n 's/.*glibc \([0-9]\.[0-9]*\) or newer.*/\1/p' docs/limits.md | head -n 1)
  [[ $stated == "$needs" ]] || { echo "glibc: the libraries need $needs, docs/limits.md says ${stated:-nothing}" >&2; exit 1; }
  # No other library may be needed that a minimal system lacks.
  needed=$(readelf -dW build/lib/libprosody.so build/lib/libprosody-rdkafka.so.1 | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
  odd=$(grep -vE '^(libc|libm|libdl|libpthread|librt|libresolv|libgcc_s|ld-linux.*|libprosody-rdkafka)\.so\.[0-9]$' <<<"$needed" || true)
  [[ -z $odd ]] || { echo "glibc: the libraries need $odd as well" >&2; exit 1; }
fi
echo "$needs"
