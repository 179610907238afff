// Package fakeslack is a server that behaves like the part of Slack that headgate
// uses, for the demo, drills and tests. It keeps everything in memory, bounded,
// and shows its channels as a page at "/".
//
// # What it knows
//
// Under /api/: auth.test, chat.postMessage, chat.update, chat.delete,
// conversations.info, .history and .replies, files.getUploadURLExternal and
// files.completeUploadExternal (with the upload between them). Under /services/:
// incoming webhooks. Requests may be forms or JSON, tokens may come in a header
// or in the form.
//
// # Words
//
//   - A ts names a message within its channel: seconds and microseconds as text,
//     no two alike.
//   - A root is a message in the channel; replies stand in its thread. A reply to
//     a root that is gone becomes a message in the channel, as Slack has it.
//   - A fault is switched on for some or all methods; it hits each call, every
//     n-th, or by chance from a seed.
//
// # Sources
//
// The reference of the methods at docs.slack.dev; what that leaves out (answers
// without an error, the limit on all blocks together) was observed by users of
// slack-go.
package fakeslack
