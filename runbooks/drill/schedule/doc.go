// Package schedule decides when drills are due, and starts them. Schedules follow cron (robfig/cron/v3 parses the
// fields); what happens when clocks change is decided here, since a cron entry that is skipped or repeated once a year
// is a drill that is missing or runs twice.
package schedule
