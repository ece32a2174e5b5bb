#!/usr/bin/env bash
# version.sh [--check]: prints the version, which include/prosody.h defines. With --check all that
# repeats it has to agree: the Python package, the gem, and the built library.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
version=$(sed -n 's/^#define PROSODY_VERSION[[:space:]]*"\(.*\)"$/\1/p' include/prosody.h)
[[ -n $version ]] || { echo "version: include/prosody.h defines no PROSODY_VERSION" >&2; exit 1; }
[[ ${1:-} == --check ]] || { echo "$version"; exit; }

same() {  # where found
  [[ $2 == "$version" ]] || { echo "version: include/prosody.h says $version, $1 says ${2:-nothing}" >&2; exit 1; }
}
same bindings/python/pyproject.toml "$(sed -n 's/^version = "\(.*\)"$/\1/p' bindings/python/pyproject.toml)"
same bindings/ruby/lib/prosody/version.rb "$(sed -n 's/^  VERSION = "\(.*\)"$/\1/p' bindings/ruby/lib/prosody/version.rb)"
same build/lib/libprosody.so "$("${PYTHON:-python3}" -c 'import ctypes
library = ctypes.CDLL("build/lib/libprosody.so")
library.prosody_version.restype = ctypes.c_char_p
print(library.prosody_version().decode())')"
same build/lib/pkgconfig/prosody.pc "$(sed -n 's/^Version: //p' build/lib/pkgconfig/prosody.pc)"
echo "$version"
