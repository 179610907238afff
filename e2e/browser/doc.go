// Package browser tests the pages in Chromium: with and without JavaScript, on a wide screen and
// on a phone, by mouse and by keyboard.
//
// Every test fails when the console shows an error, when the content security policy is
// violated, when a dialog opens, and when a request goes to another origin. axe-core checks the
// pages in light and dark, with and without data.
//
// # Words
//
//   - A tab is a page with its own cookies.
//   - An instance is a gate and its stub.
//   - A history is a year of drill runs and incidents, written into the record before the start.
//
// With HEADGATE_SHOTS set, pictures of all pages are saved in the folder shots; those of failed
// tests always are. They are not compared.
package browser
