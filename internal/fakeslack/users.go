package fakeslack

import "slices"

// AppID is the one app's. Its app-level token, if it is to be like Slack's, begins
// with xapp-1-A0FAKE-.
const AppID = "A0FAKE"

// What else the stand-in says of itself.
const (
	teamID            = "T0FAKE"
	botUser           = "U0FAKE"
	verificationToken = "verification-token-of-old" // Slack still sends it; nobody should rely on it
)

// User is a person who reads the channels, presses buttons and types commands.
type User struct {
	ID   string // U… or W…
	Name string // as others see it
	Team string // empty: the team of this Slack
}

// DefaultUsers returns the people of a Server whose options name none.
func DefaultUsers() []User {
	return []User{{ID: "U0ADA", Name: "ada"}, {ID: "U0BEN", Name: "ben"}, {ID: "U0EVE", Name: "eve"}}
}

// Users returns those who are known.
func (s *Server) Users() []User { return slices.Clone(s.o.Users) }

// user finds one by ID. It returns false for strangers.
func (s *Server) user(id string) (User, bool) {
	i := slices.IndexFunc(s.o.Users, func(u User) bool { return u.ID == id })
	if i < 0 {
		return User{}, false
	}
	return s.o.Users[i], true
}

// team is never empty.
func (u User) team() string {
	if u.Team == "" {
		return teamID
	}
	return u.Team
}
