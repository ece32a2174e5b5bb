package metric

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", "..", ".."}, path...)...))
	require.NoError(t, err)
	return string(data)
}

// known are the names that Prometheus has.
func known() map[string]bool {
	names := map[string]bool{}
	for _, each := range Instruments() {
		name := Prometheus(each)
		names[name] = true
		if each.Kind == histogram.String() {
			names[name+"_bucket"], names[name+"_sum"], names[name+"_count"] = true, true, true
		}
	}
	return names
}

var named = regexp.MustCompile(`\b(?:prosody|messaging_client|messaging_process|db_client)_[a-z_]+`)

// wordsOf are the metrics in a text; labels begin the same way.
func wordsOf(text string) (list []string) {
	for _, name := range named.FindAllString(text, -1) {
		if !labels[strings.ReplaceAll(name, "_", ".")] && name != "prosody_client_stats" && name != "messaging_client_id" {
			list = append(list, name)
		}
	}
	return list
}

func TestTheDocumentExplainsEachMetric(t *testing.T) {
	text := read(t, "docs", "operations.md")
	for _, each := range Instruments() {
		row := "| `" + each.Name + "` (" + each.Unit + ") | `" + Prometheus(each) + "` | " + each.Kind + " | " + each.Help + " |"
		assert.Contains(t, text, row, "docs/operations.md needs the row %s", row)
	}
	names := known()
	for _, name := range wordsOf(text) {
		assert.True(t, names[name], "docs/operations.md names %s", name)
	}
	dotted := regexp.MustCompile("`((?:prosody|messaging|db)\\.[a-z_.]+)`")
	for _, found := range dotted.FindAllStringSubmatch(text, -1) {
		name := found[1]
		if labels[name] || strings.HasPrefix(name, "prosody.message.") || strings.HasPrefix(name, "prosody.timer.") {
			continue
		}
		assert.Contains(t, text, "| `"+name+"` (", "docs/operations.md names %s", name)
	}
}

func TestTheDashboardAndTheAlertsNameMetricsThatThereAre(t *testing.T) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, "scripts", "otel", "grafana.json")), &board))
	require.NotEmpty(t, board.Panels)
	names := known()
	for _, panel := range board.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			require.NotEmpty(t, wordsOf(target.Expr), target.Expr)
			for _, name := range wordsOf(target.Expr) {
				assert.True(t, names[name], "panel %s names %s", panel.Title, name)
			}
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "scripts", "otel", "alerts.yaml")), &alerts))
	text := read(t, "docs", "operations.md")
	count := 0
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			count++
			assert.Contains(t, text, "| "+rule.Alert+" |", "docs/operations.md needs %s", rule.Alert)
			require.NotEmpty(t, wordsOf(rule.Expr), rule.Alert)
			for _, name := range wordsOf(rule.Expr) {
				assert.True(t, names[name], "%s names %s", rule.Alert, name)
			}
		}
	}
	require.Equal(t, strings.Count(text, "| Prosody"), count)
}
