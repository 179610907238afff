# Prints the targets of a Makefile: "##@ Group" starts a group, "name: ... ## text" is a line in it.
BEGIN { FS = ":.*## " }
/^##@ / { printf "\n%s\n", substr($0, 5); next }
/^[a-z0-9_-]+:.*## / { printf "  make %-10s %s\n", $1, $2 }
