#!/usr/bin/env bash
# Lists every Go file of the project, ended by NUL, without what npm installed.
source "$(dirname "$0")/lib.sh"

find . \( -name node_modules -o -name .git -o -name bin \) -prune -o -name '*.go' -type f -print0
