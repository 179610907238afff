// Package fakeslack is a server that behaves like the part of Slack that headgate
// uses, for the demo, drills and tests. It keeps everything in memory, bounded,
// and shows its channels as a page at "/".
//
// # What it knows
//
// Under /api/: auth.test, chat.postMessage, chat.update, chat.delete,
// chat.postEphemeral, conversations.info, .history and .replies,
// apps.connections.open, files.getUploadURLExternal and
// files.completeUploadExternal (with the upload between them). Under /services/:
// incoming webhooks. Requests may be forms or JSON, tokens may come in a header
// or in the form.
//
// Users press buttons and type commands, on the page or through [Server.Press]
// and [Server.Command]. The app hears of it by a signed request to a URL
// ([Server.SetCallbacks]) or, without one, over a socket that it has opened with
// apps.connections.open. It has three seconds to answer. What it has to say later
// goes to the response URL, which takes five messages within half an hour, or by
// chat.postEphemeral to one user.
//
// # Words
//
//   - A ts names a message within its channel: seconds and microseconds as text,
//     no two alike.
//   - A root is a message in the channel; replies stand in its thread. A reply to
//     a root that is gone becomes a message in the channel, as Slack has it.
//   - A fault is switched on for some or all methods; it hits each call, every
//     n-th, or by chance from a seed.
//   - An interaction is a press or a command, a receipt what became of it. Slack
//     itself does not send one twice; faults do, since apps must bear it.
//   - A whisper is a message that only one user sees.
//
// # Sources
//
// The reference of the methods, interaction payloads, request signing and Socket
// Mode at docs.slack.dev; what that leaves out (answers
// without an error, the limit on all blocks together) was observed by users of
// slack-go.
package fakeslack
