// Package ui serves the pages of headgate: the state of every pool, incidents, drills and their history, the audit,
// runbooks, and the forms that change modes. On-call opens one page and sees whether the gate holds.
//
// # How it is made
//
// Every page is rendered completely on the server and works without JavaScript. A small script refreshes the parts that
// are marked for it, and shows times in the viewer's zone. Pages show and do what the admin API shows and does: they call
// the same methods with the identity of the viewer. Only limits, objectives and samples are read directly.
//
// # What holds on every page
//
//   - Text from outside is inert: html/template escapes it, charts and times are built from numbers and escaped text,
//     Markdown is rendered without raw HTML.
//   - A write needs a session and its form token, and is refused when a page of another site sends it.
//   - Nothing is loaded from other hosts, and no style or script is inline: the Content-Security-Policy forbids it.
//   - Nothing is said by colour alone.
//
// # Terms
//
//   - A viewer is the person who requests a page: signed in, or one who may only read.
//   - A gauge is a number against its limit, with a picture.
//   - A window is the time that charts show, up to now.
//   - A year of drills is 53 weeks up to the current one, in days of UTC. A day counts as its worst verdict; rates are
//     of runs that were started.
package ui
