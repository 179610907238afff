#!/usr/bin/env bash
# Tests of the whole program, in their own module, with the real clients from npm.
source "$(dirname "$0")/lib.sh"

[[ -f e2e/go.mod ]] || die "there is no e2e/go.mod"
.ci/tools.sh node npm cc promtool chromium

# Installed where a lock file says what; the coding agents are large and have a target of their own.
find e2e \( -name node_modules -o -name agents \) -prune -o -name package-lock.json -print | while read -r lock; do
	dir="$(dirname "$lock")"
	if [[ ! -e $dir/node_modules/.package-lock.json || $lock -nt $dir/node_modules/.package-lock.json ]]; then
		say "npm ci in $dir"
		npm --prefix "$dir" ci --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null
	fi
done

# Benchmarks, agents, soak and proof bring no tests into this run.
"$GO" -C e2e test -count=1 -timeout 15m ./...
