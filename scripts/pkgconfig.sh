#!/usr/bin/env bash
# pkgconfig.sh [PREFIX INCLUDEDIR LIBDIR]: prints prosody.pc for these folders; without them one that
# finds its own, in PREFIX/lib/pkgconfig, wherever that is moved to.
# shellcheck disable=SC2016
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
(($#)) || set -- '${pcfiledir}/../..' '${prefix}/include' '${prefix}/lib'
cat <<PC
prefix=$1
includedir=$2
libdir=$3

Name: prosody
Description: Kafka client for services that keep state per key
Version: $(scripts/version.sh)
Cflags: -I\${includedir}
Libs: -L\${libdir} -lprosody
PC
