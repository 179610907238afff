package fakeslack

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) info(v url.Values) reply {
	c := s.channelLocked(v.Get("channel"))
	if c == nil {
		return refusal("channel_not_found")
	}
	return reply{"ok": true, "channel": reply{
		"id": c.ID, "name": c.Name, "is_channel": true, "is_member": c.Member, "is_archived": c.Archived,
	}}
}

// from finds the channel that a call reads.
func (s *Server) from(v url.Values) (*channel, reply) {
	c := s.channelLocked(v.Get("channel"))
	switch {
	case c == nil:
		return nil, refusal("channel_not_found")
	case !c.Member:
		return nil, refusal("not_in_channel")
	}
	return c, nil
}

// history returns messages, newest first.
func (s *Server) history(v url.Values) reply {
	c, refused := s.from(v)
	if refused != nil {
		return refused
	}
	ms := within(c.messages, v)
	ms = slices.DeleteFunc(ms, func(m *Message) bool { return m.Thread != "" && !m.Broadcast })
	slices.Reverse(ms)
	return list(ms, v)
}

// replies returns a thread, the root first.
func (s *Server) replies(v url.Values) reply {
	c, refused := s.from(v)
	if refused != nil {
		return refused
	}
	root := c.find(v.Get("ts"))
	if root == nil {
		return refusal("thread_not_found")
	}
	ms := within(c.messages, v)
	ms = slices.DeleteFunc(ms, func(m *Message) bool { return m.Thread != root.TS })
	return list(slices.Insert(ms, 0, root), v)
}

func within(all []*Message, v url.Values) []*Message {
	oldest, latest, inclusive := v.Get("oldest"), v.Get("latest"), v.Get("inclusive") == "1" || v.Get("inclusive") == "true"
	var ms []*Message
	for _, m := range all {
		after := oldest == "" || cmpTS(m.TS, oldest) > 0 || (inclusive && cmpTS(m.TS, oldest) == 0)
		before := latest == "" || cmpTS(m.TS, latest) < 0 || (inclusive && cmpTS(m.TS, latest) == 0)
		if after && before {
			ms = append(ms, m)
		}
	}
	return ms
}

// cmpTS compares two ts by their seconds, then their fractions.
func cmpTS(a, b string) int {
	as, af, _ := strings.Cut(a, ".")
	bs, bf, _ := strings.Cut(b, ".")
	if len(as) != len(bs) {
		return len(as) - len(bs)
	}
	return strings.Compare(as+"."+af, bs+"."+bf)
}

// list returns one page of messages. A cursor is the number of messages before it.
func list(ms []*Message, v url.Values) reply {
	limit, err := strconv.Atoi(v.Get("limit"))
	if err != nil || limit <= 0 || limit > 999 {
		limit = 100
	}
	skip, err := strconv.Atoi(v.Get("cursor"))
	if v.Get("cursor") != "" && (err != nil || skip < 0) {
		return refusal("invalid_cursor")
	}
	ms = ms[min(skip, len(ms)):]
	metadata := v.Get("include_all_metadata") == "1" || v.Get("include_all_metadata") == "true"
	out, next := []reply{}, ""
	for i, m := range ms {
		if i == limit {
			next = strconv.Itoa(skip + limit)
			break
		}
		out = append(out, m.json(metadata))
	}
	return reply{
		"ok": true, "messages": out, "has_more": next != "",
		"response_metadata": reply{"next_cursor": next},
	}
}
