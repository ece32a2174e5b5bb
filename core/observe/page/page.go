// Package page owns the status page: one HTML document without any outside asset, and the
// same facts as JSON. Both only read.
//
// It shows keys, a bounded number of each kind, and what handlers said when they failed;
// never a payload. The document holds no facts: its script fetches them and writes them as
// text, so that nothing of a key becomes HTML.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"prosody/core/observe"
	"prosody/core/partition"
	"prosody/core/pipeline/deferral"
	"prosody/core/timer"
)

// Status is what the page shows.
type Status struct {
	*observe.Facts
	Now      int64               `json:"now"`   // ms, by the client's clock
	Shown    int                 `json:"shown"` // the most keys of each list
	Running  []partition.KeyFact `json:"running_keys"`
	Waiting  []partition.KeyFact `json:"waiting_keys"`
	Deferred []deferral.Fact     `json:"deferred_keys"`
	Due      []timer.Due         `json:"timers_due"`
}

var (
	//go:embed page.html
	frame string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// document is the whole page, and policy lets it load nothing else.
var document, policy = func() ([]byte, string) {
	whole := strings.NewReplacer("/*STYLE*/", style, "/*SCRIPT*/", script).Replace(frame)
	return []byte(whole), "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"style-src " + digest(style) + "; script-src " + digest(script)
}()

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// New serves the page of a client at / and its facts at /status.
func New(source func() *Status) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Content-Security-Policy", policy)
		if r.URL.Path == "/" {
			header.Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(document) // the asker is gone: nobody is left to tell
			return
		}
		data, err := json.Marshal(source())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		header.Set("Content-Type", "application/json")
		_, _ = w.Write(data)
	})
}
