// Package ui is what people see of headgate in a browser: how every pool
// stands, what was wrong and is, what drills have shown, who did what, what to do. On-call opens one page
// and knows whether the gate holds.
//
// # How it is made
//
// Every page is rendered here, whole, and works without JavaScript. A small script
// refreshes the parts that are marked for it, and shows times in the viewer's zone.
// What pages show and do is what the admin API shows and does: they are a client of
// it, for whoever has signed in. Nothing is read past it but limits, objectives and
// samples.
//
// # What holds on every page
//
//   - Text from outside is inert: html/template escapes it, charts and times are
//     built from numbers and escaped text, Markdown is rendered without raw HTML.
//   - A write needs a session and its form token, and no page of another site may
//     send one.
//   - Nothing is loaded from elsewhere, and no style or script stands in a page: the
//     Content-Security-Policy forbids it.
//   - Nothing is said by colour alone.
//
// # Words
//
//   - A viewer is whoever asks: signed in, or one who may only read.
//   - A bar is a number against its limit, as a picture.
//   - A window is the time that charts show, up to now.
//   - A year is that of drills: 53 weeks up to the one that it is, in days of UTC. A
//     day counts as its worst verdict; rates are of runs that were begun.
package ui
