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
	IdleTime    = 4 * time.Hour
	LongestTime = 24 * time.Hour
	LinkTime    = 10 * time.Minute

	MaxSessions = 256
	MaxLinks    = 64
)

// Session is one browser that has signed in.
type Session struct {
	Actor string // who it is, as they said
	Form  string // the form token
	Began time.Time
}

// Owns says whether a form token is this session's. It takes the same time
// whatever was sent.
func (s Session) Owns(form string) bool {
	return s.Form != "" && subtle.ConstantTimeCompare([]byte(form), []byte(s.Form)) == 1
}

// key is the sum of a secret: who reads the memory has no way in.
type key [sha256.Size]byte

func keyOf(secret string) key { return sha256.Sum256([]byte(secret)) }

type held struct {
	Session
	used time.Time
}

type link struct {
	actor string
	until time.Time
}

// Store holds sessions and links. The zero value is empty and ready. Its methods
// may be called from any goroutine.
type Store struct {
	mu       sync.Mutex
	sessions map[key]held
	links    map[key]link
}

// Open begins a session and returns its secret. When there are too many, the one
// that was used least lately ends.
func (s *Store) Open(now time.Time, actor string) (secret string, opened Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openLocked(now, actor)
}

func (s *Store) openLocked(now time.Time, actor string) (string, Session) {
	if s.sessions == nil {
		s.sessions = make(map[key]held)
	}
	for k, h := range s.sessions {
		if h.over(now) {
			delete(s.sessions, k)
		}
	}
	if len(s.sessions) >= MaxSessions {
		s.evictLocked()
	}
	secret := rand.Text()
	h := held{Session: Session{Actor: actor, Form: rand.Text(), Began: now}, used: now}
	s.sessions[keyOf(secret)] = h
	return secret, h.Session
}

func (s *Store) evictLocked() {
	var oldest key
	var at time.Time
	for k, h := range s.sessions {
		if at.IsZero() || h.used.Before(at) {
			oldest, at = k, h.used
		}
	}
	delete(s.sessions, oldest)
}

func (h held) over(now time.Time) bool {
	return now.Sub(h.used) >= IdleTime || now.Sub(h.Began) >= LongestTime
}

// Use returns the session of a secret, and keeps it from going idle.
func (s *Store) Use(now time.Time, secret string) (Session, bool) { return s.find(now, secret, true) }

// Peek returns the session of a secret, and lets it go idle.
func (s *Store) Peek(now time.Time, secret string) (Session, bool) { return s.find(now, secret, false) }

func (s *Store) find(now time.Time, secret string, use bool) (Session, bool) {
	k := keyOf(secret)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.sessions[k]
	if !ok {
		return Session{}, false
	}
	if h.over(now) {
		delete(s.sessions, k)
		return Session{}, false
	}
	if use {
		h.used = now
		s.sessions[k] = h
	}
	return h.Session, true
}

// Close ends a session; of a secret that is none, nothing.
func (s *Store) Close(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, keyOf(secret))
}

// Link makes a link for somebody and returns its code. When there are too many,
// the one that ends first is gone.
func (s *Store) Link(now time.Time, actor string) (code string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links == nil {
		s.links = make(map[key]link)
	}
	for k, l := range s.links {
		if !now.Before(l.until) {
			delete(s.links, k)
		}
	}
	if len(s.links) >= MaxLinks {
		var first key
		var at time.Time
		for k, l := range s.links {
			if at.IsZero() || l.until.Before(at) {
				first, at = k, l.until
			}
		}
		delete(s.links, first)
	}
	code, until = rand.Text(), now.Add(LinkTime)
	s.links[keyOf(code)] = link{actor: actor, until: until}
	return code, until
}

// Enter uses a link up and begins a session, false if the code is not, or no
// longer, one of a link.
func (s *Store) Enter(now time.Time, code string) (secret string, opened Session, ok bool) {
	k := keyOf(code)
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
	secret, opened = s.openLocked(now, l.actor)
	return secret, opened, true
}
