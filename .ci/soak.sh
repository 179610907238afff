#!/usr/bin/env bash
# Runs the race tests over and over in random order until the time is up, and what
# e2e/soak holds, if anything. The first failure ends it.
source "$(dirname "$0")/lib.sh"

minutes="${SOAK_MINUTES:-30}"
rounds=0
SECONDS=0
while [[ $SECONDS -lt $((minutes * 60)) ]]; do
	rounds=$((rounds + 1))
	say "round $rounds"
	"$GO" test -race -shuffle=on -count=1 ./...
done
say "$rounds rounds in $SECONDS s"
.ci/stage.sh soak "e2e/soak does not exist yet"
