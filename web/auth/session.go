package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
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
	for k, h := range s.sessions {
		if h.expired(now) {
			delete(s.sessions, k)
		}
	}
	if len(s.sessions) >= MaxSessions {
		s.evictLocked()
	}
	secret := rand.Text()
	h := storedSession{Session: Session{Actor: actor, FormToken: rand.Text(), Started: now}, lastUsed: now}
	s.sessions[hashSecret(secret)] = h
	return secret, h.Session
}

func (s *Store) evictLocked() {
	var oldest secretHash
	var at time.Time
	for k, h := range s.sessions {
		if at.IsZero() || h.lastUsed.Before(at) {
			oldest, at = k, h.lastUsed
		}
	}
	delete(s.sessions, oldest)
}

func (h storedSession) expired(now time.Time) bool {
	return now.Sub(h.lastUsed) >= IdleTimeout || now.Sub(h.Started) >= MaxLifetime
}

// Touch returns the session of a secret, and keeps it from going idle.
func (s *Store) Touch(now time.Time, secret string) (Session, bool) {
	return s.lookup(now, secret, true)
}

// Peek returns the session of a secret, and lets it go idle.
func (s *Store) Peek(now time.Time, secret string) (Session, bool) {
	return s.lookup(now, secret, false)
}

func (s *Store) lookup(now time.Time, secret string, use bool) (Session, bool) {
	k := hashSecret(secret)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.sessions[k]
	if !ok {
		return Session{}, false
	}
	if h.expired(now) {
		delete(s.sessions, k)
		return Session{}, false
	}
	if use {
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
	for k, l := range s.links {
		if !now.Before(l.until) {
			delete(s.links, k)
		}
	}
	if len(s.links) >= MaxLinks {
		var first secretHash
		var at time.Time
		for k, l := range s.links {
			if at.IsZero() || l.until.Before(at) {
				first, at = k, l.until
			}
		}
		delete(s.links, first)
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
	if !ok {
		return "", Session{}, false
	}
	delete(s.links, k)
	if !now.Before(l.until) {
		return "", Session{}, false
	}
	secret, opened = s.createLocked(now, l.actor)
	return secret, opened, true
}
