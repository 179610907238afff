# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO="${GO:-go}"

# say prints one line to stderr, with the name of the script.
say() {
	printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
}

# die prints an error and exits with 1.
die() {
	say "$*"
	exit 1
}

# has reports whether a command exists.
has() {
	command -v "$1" >/dev/null 2>&1
}
