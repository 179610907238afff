#!/usr/bin/env bash
# Tests of the whole program, in a separate module, with real clients from npm.
# Usage: e2e.sh [PACKAGE...]; without packages, all of them.
source "$(dirname "$0")/lib.sh"

[[ -f e2e/go.mod ]] || die "e2e/go.mod does not exist"
.ci/tools.sh node npm cc promtool chromium

# A lock file says what to install. The coding agents are large and have their own target.
find e2e \( -name node_modules -o -name agents \) -prune -o -name package-lock.json -print | while read -r lock; do
	dir="$(dirname "$lock")"
	if [[ ! -e $dir/node_modules/.package-lock.json || $lock -nt $dir/node_modules/.package-lock.json ]]; then
		say "npm ci in $dir"
		npm --prefix "$dir" ci --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null
	fi
done

# The program is built once for all packages.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$GO" build -o "$work/headgate" ./cmd/headgate
export HEADGATE_TEST_PROGRAM="$work/headgate"

if [[ $# -eq 0 ]]; then
	# The slowest packages start first, so that none of them is left for the end.
	slow=(./watch ./browser ./drills ./guard ./rollback)
	mapfile -t others < <(cd e2e && "$GO" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... |
		sed 's|^headgate/e2e/|./|' | grep -vxF -f <(printf '%s\n' "${slow[@]}"))
	set -- "${slow[@]}" "${others[@]}"
fi
# Most packages wait for real time, so more of them run at once than there are cores.
# Benchmarks, agents, soak and acceptance have no tests in this run.
"$GO" -C e2e test -count=1 -vet=off -p "${E2E_PARALLEL:-4}" -timeout "${E2E_TIMEOUT:-15m}" "$@"
