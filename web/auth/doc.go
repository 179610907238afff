// Package auth remembers who has signed in to the pages. It holds everything
// in memory: a restart signs everybody out.
//
// # Words
//
//   - A session is one browser that has shown the token or opened a link. The
//     browser knows it by a secret in a cookie; here only the secret's sum is kept.
//   - A form token is a second secret of a session. It stands in every form, and
//     shows that a page of ours was filled in, and in this session.
//   - A link is a way in that works once and for a short time. Looking at it does
//     not use it up: programs that show previews of links look at them too.
//
// A session ends when nothing was asked for in its name for IdleTimeout, and
// MaxLifetime after it began in any case. A page that refreshes itself asks for
// nothing in that sense: it Peeks.
//
// The package takes the time from its caller and knows no HTTP.
package auth
