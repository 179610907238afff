#!/usr/bin/env bash
# Counts lines of hand-written Go code without tests and without e2e, by package, and fails
# above LINES_CODE lines, below LINES_COMMENTS percent of comments, or above LINES_FILES files
# in a package.
source "$(dirname "$0")/lib.sh"

.ci/gofiles.sh . | xargs -r -0 -n1 printf '%s\n' | sed 's|^\./||' | grep -vE '_test\.go$|^\.ci/' | sort |
	xargs "$GO" run ./.ci/lines -code "${LINES_CODE:-48000}" -comments "${LINES_COMMENTS:-10}" -files "${LINES_FILES:-30}"
