#!/usr/bin/env bash
# Runs the tests in e2e/DIR with a build tag: tests that are too long or too large for CI.
# If DIR has no tests, it prints REASON and succeeds.
# Usage: stage.sh DIR TAG REASON
source "$(dirname "$0")/lib.sh"

[[ $# -eq 3 ]] || die "usage: stage.sh DIR TAG REASON"
if ! compgen -G "e2e/$1/*_test.go" >/dev/null; then
	say "$1: no tests were run: $3"
	exit 0
fi
.ci/tools.sh node npm cc
"$GO" -C e2e test -count=1 -v -timeout 3h -tags "$2" "./$1/..."
