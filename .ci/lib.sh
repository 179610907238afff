# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO="${GO:-go}"

# say prints one line to stderr, after the name of the script that speaks.
say() {
	printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
}

# die says what is wrong and ends with failure.
die() {
	say "$*"
	exit 1
}

# has tells whether a command can be found.
has() {
	command -v "$1" >/dev/null 2>&1
}
