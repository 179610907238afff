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
	name      string
	data      []byte
	completed bool
}

// uploadURL is the first of three steps; what is uploaded is bounded as every
// body is.
func (s *Server) uploadURL(v url.Values) object {
	size, err := strconv.Atoi(v.Get("length"))
	if v.Get("filename") == "" || err != nil || size <= 0 || size > maxBody {
		return errorObject("invalid_arguments")
	}
	if len(s.files) >= maxFiles {
		return errorObject("file_upload_size_restricted")
	}
	s.lastFile++
	id := fmt.Sprintf("F%06d", s.lastFile)
	s.files[id] = &upload{name: v.Get("filename")}
	return object{"ok": true, "file_id": id, "upload_url": v.Get("base") + "/api/upload/" + id}
}

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("file")
	data, err := readUpload(r)
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

// readUpload reads the one file of a multipart body.
func readUpload(r *http.Request) ([]byte, error) {
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

func (s *Server) completeUpload(v url.Values) object {
	var wanted []struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	if err := json.Unmarshal([]byte(v.Get("files")), &wanted); err != nil || len(wanted) == 0 {
		return errorObject("invalid_arguments")
	}
	v.Set("channel", v.Get("channel_id"))
	c, refused := s.writableChannel(v)
	if refused != nil {
		return refused
	}
	out := []object{}
	for _, f := range wanted {
		up := s.files[f.ID]
		if up == nil || up.data == nil || up.completed {
			return errorObject("file_not_found")
		}
		up.completed = true
		m := &Message{TS: s.tsLocked(), Thread: v.Get("thread_ts"), Text: v.Get("initial_comment"), File: up.name}
		c.add(m)
		out = append(out, object{"id": f.ID, "title": f.Title})
	}
	return object{"ok": true, "files": out}
}

// File returns what was uploaded under a name, the latest first.
func (s *Server) File(name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := s.lastFile; i > 0; i-- {
		if f := s.files[fmt.Sprintf("F%06d", i)]; f != nil && f.name == name && f.completed {
			return f.data, true
		}
	}
	return nil, false
}
