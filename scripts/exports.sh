#!/usr/bin/env bash
# exports.sh [FOLDER]: prints the names of the functions that prosody.h and its parts declare
# (below include), one a line, sorted. The headers are the only list of what libprosody.so exports: the version script and the
# symbol check both start here. A public declaration begins with PROSODY_API.
set -euo pipefail

folder=${1:-$(dirname -- "$0")/../include}

names=$(perl -0777 -ne '
  s{/\*.*?\*/}{ }gs;                          # comments
  s{//[^\n]*}{}g;
  s{^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*$}{}mg;     # preprocessor lines
  print "$1\n" while /\bPROSODY_API\b[^;{}()]*?\b(prosody_\w+)\s*\(/g;
' -- "$folder"/prosody.h "$folder"/prosody/*.h | LC_ALL=C sort -u)

[[ -n $names ]] || { echo "exports: no PROSODY_API function in $folder" >&2; exit 1; }
printf '%s\n' "$names"
