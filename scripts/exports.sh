#!/usr/bin/env bash
# Prints the names of the functions that include/prosody.h declares, one a line, sorted.
# The header is the only list of what libprosody.so exports: the version script and the
# symbol check both start here. A public declaration begins with PROSODY_API.
set -euo pipefail

header=${1:-$(dirname -- "$0")/../include/prosody.h}

names=$(perl -0777 -ne '
  s{/\*.*?\*/}{ }gs;                          # comments
  s{//[^\n]*}{}g;
  s{^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*$}{}mg;     # preprocessor lines
  print "$1\n" while /\bPROSODY_API\b[^;{}()]*?\b(prosody_\w+)\s*\(/g;
' -- "$header" | LC_ALL=C sort -u)

[[ -n $names ]] || { echo "exports: no PROSODY_API function in $header" >&2; exit 1; }
printf '%s\n' "$names"
