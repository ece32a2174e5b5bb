#!/usr/bin/env bash
# pkgconfig.sh PREFIX INCLUDEDIR LIBDIR: prints prosody.pc for these folders.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
version=$(sed -n 's/^#define PROSODY_VERSION[[:space:]]*"\(.*\)"$/\1/p' include/prosody.h)

cat <<PC
prefix=$1
includedir=$2
libdir=$3

Name: prosody
Description: Kafka client for services that keep state per key
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lprosody
PC
