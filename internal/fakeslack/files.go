package fakeslack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// upload is a file on its way.
type upload struct {
	name string
	data []byte
	done bool
}

// uploadURL is the first of three steps; what is uploaded is bounded as every
// body is.
func (s *Server) uploadURL(v url.Values) reply {
	size, err := strconv.Atoi(v.Get("length"))
	if v.Get("filename") == "" || err != nil || size <= 0 || size > maxBody {
		return refusal("invalid_arguments")
	}
	if len(s.files) >= maxFiles {
		return refusal("file_upload_size_restricted")
	}
	s.lastFile++
	id := fmt.Sprintf("F%06d", s.lastFile)
	s.files[id] = &upload{name: v.Get("filename")}
	return reply{"ok": true, "file_id": id, "upload_url": v.Get("base") + "/api/upload/" + id}
}

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("file")
	data, err := uploaded(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	if err != nil || f == nil {
		http.Error(w, "no such upload", http.StatusBadRequest)
		return
	}
	f.data = data
	fmt.Fprintf(w, "OK - %d", len(data))
}

// uploaded reads the one file of a multipart body.
func uploaded(r *http.Request) ([]byte, error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	for {
		p, err := parts.NextPart()
		if err != nil {
			return nil, err
		}
		if p.FileName() != "" {
			return io.ReadAll(p)
		}
	}
}

func (s *Server) completeUpload(v url.Values) reply {
	var wanted []struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	if err := json.Unmarshal([]byte(v.Get("files")), &wanted); err != nil || len(wanted) == 0 {
		return refusal("invalid_arguments")
	}
	v.Set("channel", v.Get("channel_id"))
	c, refused := s.into(v)
	if refused != nil {
		return refused
	}
	out := []reply{}
	for _, f := range wanted {
		up := s.files[f.ID]
		if up == nil || up.data == nil || up.done {
			return refusal("file_not_found")
		}
		up.done = true
		m := &Message{TS: s.tsLocked(), Thread: v.Get("thread_ts"), Text: v.Get("initial_comment"), File: up.name}
		c.add(m)
		out = append(out, reply{"id": f.ID, "title": f.Title})
	}
	return reply{"ok": true, "files": out}
}

// File returns what was uploaded under a name, the latest first.
func (s *Server) File(name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := s.lastFile; i > 0; i-- {
		if f := s.files[fmt.Sprintf("F%06d", i)]; f != nil && f.name == name && f.done {
			return f.data, true
		}
	}
	return nil, false
}
