// Package auth keeps the sessions of signed-in users, and the token file. Sessions are held in memory: a restart ends
// them all.
//
// # Terms
//
//   - A session is one browser that has presented the token or redeemed a link. Its cookie holds a secret, of which the
//     store keeps only the hash.
//   - A form token is a second secret of a session. Every form contains it, which shows that the form was served by
//     headgate and to this session.
//   - A link signs in once, within a short time. Only RedeemLink uses it up: programs that show previews of links
//     request them too.
//
// A session ends IdleTimeout after the last Lookup that touched it, and MaxLifetime after its start in any case. A page
// that refreshes itself does not touch it.
//
// The package takes the time from its caller and does not depend on HTTP.
package auth
