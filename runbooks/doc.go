// Package runbooks holds the pages that on-call reads when a rule fires: one Markdown
// file per kind of trouble, named like the rule that links to it.
package runbooks
