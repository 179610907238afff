#!/usr/bin/env bash
# Repeats the race tests in random order for SOAK_MINUTES, then runs the tests of e2e/soak
# if there are any. Stops at the first failure.
source "$(dirname "$0")/lib.sh"

minutes="${SOAK_MINUTES:-30}"
rounds=0
SECONDS=0
while [[ $SECONDS -lt $((minutes * 60)) ]]; do
	rounds=$((rounds + 1))
	say "round $rounds"
	# shellcheck disable=SC2086 # a list of flags
	"$GO" test $RACE -count=1 ./...
done
say "$rounds rounds in $SECONDS s"
.ci/stage.sh soak soak "e2e/soak has no tests"
