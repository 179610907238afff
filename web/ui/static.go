package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
)

//go:embed static/*
var staticFiles embed.FS

// assets are the paths of the files that pages load. They change with the files, so
// that browsers may keep them for ever.
type assets struct{ Style, Script, Icon string }

var assetPaths = assets{assetPath("style.css"), assetPath("page.js"), assetPath("icon.svg")}

func assetPath(name string) string {
	text, err := staticFiles.ReadFile("static/" + name)
	if err != nil { // it is in the program
		panic(err)
	}
	sum := sha256.Sum256(text)
	return "/static/" + name + "?v=" + hex.EncodeToString(sum[:8])
}

func serveStatic(w http.ResponseWriter, r *http.Request, _ viewer) {
	name := r.PathValue("file")
	text, err := staticFiles.ReadFile("static/" + path.Base(name))
	if err != nil {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	if r.URL.RawQuery != "" {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(text) // the viewer may have gone
}
