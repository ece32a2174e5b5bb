//go:build browser

package client

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chromium opens the page of a client and gives the document after its script has run.
func chromium(t *testing.T, client *Client, more ...string) string {
	t.Helper()
	arguments := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + t.TempDir(), "--virtual-time-budget=3000",
		"--enable-logging=stderr",
	}, more...)
	command := exec.CommandContext(t.Context(), "chromium", append(arguments, fmt.Sprintf("http://127.0.0.1:%d/", client.Facts().Port))...)
	var problems strings.Builder
	command.Stderr = &problems
	document, err := command.Output()
	require.NoError(t, err, problems.String())
	assert.NotContains(t, problems.String(), "Content Security Policy")
	assert.NotContains(t, problems.String(), "Uncaught")
	return string(document)
}

func TestChromiumShowsThePage(t *testing.T) {
	client, release := busy(t)
	defer release()
	if at := os.Getenv("PROSODY_SCREENSHOT"); at != "" { // for people who work on the page
		chromium(t, client, "--screenshot="+at, "--window-size=1250,1500")
	}
	document := chromium(t, client, "--dump-dom")
	for _, text := range []string{
		`<span id="badge" class="badge good" role="status">running</span>`, `<h1 id="name">shop</h1>`, ">failing</td>", ">later</td>", ">disk: keys</td>",
		"the &lt;b&gt;bank&lt;/b&gt; does not answer", "&lt;img src=x onerror=", ">live</span>",
	} {
		assert.Contains(t, document, text)
	}
	assert.Regexp(t, regexp.MustCompile(`>in \d\d s</td>`), document)
	assert.Contains(t, document, "<title>running · shop</title>")
	assert.NotContains(t, document, "broken into</title>")
	assert.NotContains(t, document, hidden)
	for _, title := range []string{"Partitions", "Running", "Waiting keys", "Deferred keys", "Timers", "Failures", "Caches"} {
		assert.Regexp(t, regexp.MustCompile(`<h2>`+title+`<small>`), document)
	}
	require.NotRegexp(t, regexp.MustCompile(`NaN|undefined|\[object`), document[:strings.Index(document, "<script>")])
}
