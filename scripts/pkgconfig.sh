#!/usr/bin/env bash
# pkgconfig.sh PREFIX INCLUDEDIR LIBDIR: prints prosody.pc for these folders.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
version=$(sed -n 's/^#define PROSODY_VERSION[A-Z_]*[[:space:]]*"\([^"]*\)".*/\1/p' include/prosody.h | head -n 1)

cat <<PC
prefix=$1
includedir=$2
libdir=$3

Name: prosody
Description: Kafka client for services that keep state per key
Version: ${version:-0.1.0}
Cflags: -I\${includedir}
Libs: -L\${libdir} -lprosody
PC
