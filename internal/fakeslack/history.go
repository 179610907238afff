package fakeslack

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) info(v url.Values) object {
	c := s.channelLocked(v.Get("channel"))
	if c == nil {
		return errorObject("channel_not_found")
	}
	return object{"ok": true, "channel": object{
		"id": c.ID, "name": c.Name, "is_channel": true, "is_member": c.Member, "is_archived": c.Archived,
	}}
}

// readableChannel finds the channel that a call reads.
func (s *Server) readableChannel(v url.Values) (*channel, object) {
	c := s.channelLocked(v.Get("channel"))
	switch {
	case c == nil:
		return nil, errorObject("channel_not_found")
	case !c.Member:
		return nil, errorObject("not_in_channel")
	}
	return c, nil
}

// history returns messages, newest first.
func (s *Server) history(v url.Values) object {
	c, refused := s.readableChannel(v)
	if refused != nil {
		return refused
	}
	ms := filterByTS(c.messages, v)
	ms = slices.DeleteFunc(ms, func(m *Message) bool { return m.Thread != "" && !m.Broadcast })
	slices.Reverse(ms)
	return paginate(ms, v)
}

// replies returns a thread, the root first.
func (s *Server) replies(v url.Values) object {
	c, refused := s.readableChannel(v)
	if refused != nil {
		return refused
	}
	root := c.find(v.Get("ts"))
	if root == nil {
		return errorObject("thread_not_found")
	}
	ms := filterByTS(c.messages, v)
	ms = slices.DeleteFunc(ms, func(m *Message) bool { return m.Thread != root.TS })
	return paginate(slices.Insert(ms, 0, root), v)
}

func filterByTS(all []*Message, v url.Values) []*Message {
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

// paginate returns one page of messages. A cursor is the number of messages before it.
func paginate(ms []*Message, v url.Values) object {
	limit, err := strconv.Atoi(v.Get("limit"))
	if err != nil || limit <= 0 || limit > 999 {
		limit = 100
	}
	skip, err := strconv.Atoi(v.Get("cursor"))
	if v.Get("cursor") != "" && (err != nil || skip < 0) {
		return errorObject("invalid_cursor")
	}
	ms = ms[min(skip, len(ms)):]
	metadata := v.Get("include_all_metadata") == "1" || v.Get("include_all_metadata") == "true"
	out, next := []object{}, ""
	for i, m := range ms {
		if i == limit {
			next = strconv.Itoa(skip + limit)
			break
		}
		out = append(out, m.object(metadata))
	}
	return object{
		"ok": true, "messages": out, "has_more": next != "",
		"response_metadata": object{"next_cursor": next},
	}
}
