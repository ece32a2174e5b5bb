#!/usr/bin/env bash
# Starts a Cassandra of its own that checks passwords and rights, runs the test that needs
# one, and takes it down again.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
jars=${PROSODY_SERVICES_HOME:-${HOME:?}/.cache/prosody-services}/jars
home=$(mktemp -d)
mkdir -p "$jars"
ln -s "$jars" "$home/jars"
export PROSODY_SERVICES_HOME=$home PROSODY_CASSANDRA_PORT=9242 PROSODY_CASSANDRA_STORAGE_PORT=7200
export PROSODY_CASSANDRA_EXTRA=$'authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer'
trap 'scripts/services wipe cassandra; rm -rf -- "$home"' EXIT
scripts/services up cassandra
make --no-print-directory go-env >/dev/null
# shellcheck disable=SC1091
source build/env.sh
PROSODY_TEST_CASSANDRA_AUTH=127.0.0.1:9242 "${GO:-go}" test -count=1 -tags dynamic,rights \
  -run '^TestRights$' ./core/store/cassandra
