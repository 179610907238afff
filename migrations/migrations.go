package migrations

import "embed"

// FS holds the SQL files, in the form that goose reads.
//
//go:embed *.sql
var FS embed.FS
