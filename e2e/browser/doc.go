// Package browser uses the pages as people do: in Chromium, with and without
// JavaScript, on a wide screen and on a phone, with the mouse and with the keyboard.
//
// # What holds all the while
//
// Whatever a test does, it fails when the console shows an error, when the policy of
// the page is broken, when a dialog opens, and when anything is asked of another
// origin. axe-core looks at every page, light and dark, full and empty.
//
// # Words
//
//   - A tab is one page with cookies of its own: nobody else is signed in there.
//   - A house is a gate with its record, and what is in front of and behind it.
//   - A year is runs of drills on every week of one, written into the record before
//     the gate starts.
//   - To press is what a click or Enter does, on a control that can be seen and is
//     not covered.
//
// With HEADGATE_SHOTS set, pictures of all pages go to the folder shots, for people to
// look at; those of tests that failed do always. They are not
// compared.
package browser
