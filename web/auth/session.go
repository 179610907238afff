package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"slices"
	"sync"
	"time"
)

// How long sessions and links last, and how many there can be.
const (
	IdleTimeout  = 4 * time.Hour
	MaxLifetime  = 24 * time.Hour
	LinkLifetime = 10 * time.Minute

	MaxSessions = 256
	MaxLinks    = 64
)

// Session is one browser that has signed in.
type Session struct {
	Actor     string // who it is, as they said
	FormToken string // the form token
	Started   time.Time
}

// ValidFormToken says whether a form token is this session's. It takes the same time
// whatever was sent.
func (s Session) ValidFormToken(form string) bool {
	return s.FormToken != "" && subtle.ConstantTimeCompare([]byte(form), []byte(s.FormToken)) == 1
}

// secretHash is the sum of a secret: who reads the memory has no way in.
type secretHash [sha256.Size]byte

func hashSecret(secret string) secretHash { return sha256.Sum256([]byte(secret)) }

type storedSession struct {
	Session
	lastUsed time.Time
}

type link struct {
	actor string
	until time.Time
}

// Store holds sessions and links. The zero value is empty and ready. Its methods
// may be called from any goroutine.
type Store struct {
	mu       sync.Mutex
	sessions map[secretHash]storedSession
	links    map[secretHash]link
}

// Create begins a session and returns its secret. When there are too many, the one
// that was used least lately ends.
func (s *Store) Create(now time.Time, actor string) (secret string, opened Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.createLocked(now, actor)
}

func (s *Store) createLocked(now time.Time, actor string) (string, Session) {
	if s.sessions == nil {
		s.sessions = make(map[secretHash]storedSession)
	}
	maps.DeleteFunc(s.sessions, func(_ secretHash, h storedSession) bool { return h.expired(now) })
	if len(s.sessions) >= MaxSessions {
		deleteOldest(s.sessions, func(h storedSession) time.Time { return h.lastUsed })
	}
	secret := rand.Text()
	h := storedSession{Session: Session{Actor: actor, FormToken: rand.Text(), Started: now}, lastUsed: now}
	s.sessions[hashSecret(secret)] = h
	return secret, h.Session
}

// deleteOldest makes room for another entry.
func deleteOldest[V any](all map[secretHash]V, at func(V) time.Time) {
	delete(all, slices.MinFunc(slices.Collect(maps.Keys(all)), func(a, b secretHash) int { return at(all[a]).Compare(at(all[b])) }))
}

func (h storedSession) expired(now time.Time) bool {
	return now.Sub(h.lastUsed) >= IdleTimeout || now.Sub(h.Started) >= MaxLifetime
}

// Lookup returns the session of a secret. With touch it counts as a use, which keeps the session from expiring.
func (s *Store) Lookup(now time.Time, secret string, touch bool) (Session, bool) {
	k := hashSecret(secret)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.sessions[k]
	if !ok || h.expired(now) {
		delete(s.sessions, k)
		return Session{}, false
	}
	if touch {
		h.lastUsed = now
		s.sessions[k] = h
	}
	return h.Session, true
}

// Revoke ends a session; of a secret that is none, nothing.
func (s *Store) Revoke(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, hashSecret(secret))
}

// CreateLink makes a login link and returns its code. When there are too many,
// the one that ends first is gone.
func (s *Store) CreateLink(now time.Time, actor string) (code string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links == nil {
		s.links = make(map[secretHash]link)
	}
	maps.DeleteFunc(s.links, func(_ secretHash, l link) bool { return !now.Before(l.until) })
	if len(s.links) >= MaxLinks {
		deleteOldest(s.links, func(l link) time.Time { return l.until })
	}
	code, until = rand.Text(), now.Add(LinkLifetime)
	s.links[hashSecret(code)] = link{actor: actor, until: until}
	return code, until
}

// RedeemLink uses a link up and begins a session, false if the code is not, or no
// longer, one of a link.
func (s *Store) RedeemLink(now time.Time, code string) (secret string, opened Session, ok bool) {
	k := hashSecret(code)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.links[k]
	delete(s.links, k)
	if !ok || !now.Before(l.until) {
		return "", Session{}, false
	}
	secret, opened = s.createLocked(now, l.actor)
	return secret, opened, true
}
