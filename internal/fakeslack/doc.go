// Package fakeslack is a server that behaves like the part of Slack that headgate uses, for the demo, drills and tests.
// It keeps everything in memory, with limits, and shows its channels as a page at "/".
//
// # Supported parts
//
// Under /api/: auth.test, chat.postMessage, chat.update, chat.delete, chat.postEphemeral, conversations.info, .history
// and .replies, and apps.connections.open. Under /services/: incoming webhooks. Requests may be forms or JSON, tokens
// may come in a header or in the form.
//
// Users press buttons and type commands, on the page or through [Server.Press] and [Server.Command]. The app receives
// them as signed requests to a URL ([Server.SetCallbacks]) or, without one, over a socket that it has opened with
// apps.connections.open. It has three seconds to answer. Later responses go to the response URL, which accepts five
// messages within half an hour, or to one user by chat.postEphemeral.
//
// # Terms
//
//   - A ts identifies a message within its channel: seconds and microseconds as text, all different.
//   - A root is a message in the channel; replies are in its thread. A reply to a deleted root becomes a message in the
//     channel, as in Slack.
//   - A fault applies to some or all methods; it hits each call, every n-th, or by chance from a seed.
//   - An interaction is a button press or a command, a receipt its result. Slack itself does not send one twice; faults do,
//     since apps must cope with it.
//   - An ephemeral message is one that only one user sees.
//
// # Sources
//
// The reference of the methods, interaction payloads, request signing and Socket Mode at docs.slack.dev; what that
// leaves out (responses without an error, the limit on all blocks together) was observed by users of slack-go.
package fakeslack
