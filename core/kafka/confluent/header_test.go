package confluent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The short rdkafka.h says the same as the real one that confluent-kafka-go carries.
func TestHeader(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc")
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/confluentinc/confluent-kafka-go/v2").Output()
	require.NoError(t, err)
	actual := filepath.Join(strings.TrimSpace(string(module)), "kafka", "librdkafka_vendor", "rdkafka.h")
	short, err := filepath.Abs("rdkafka.h")
	require.NoError(t, err)

	compile := func(text string, args ...string) string {
		t.Helper()
		source := filepath.Join(t.TempDir(), "check.c")
		require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
		output, err := exec.Command("gcc", append(args, source)...).CombinedOutput()
		require.NoErrorf(t, err, "%s", output)
		return string(output)
	}
	include := func(path string) string { return "#include \"" + path + "\"\n" }

	// Prototypes: a declaration that differs from an earlier one is an error.
	compile(include(actual)+include(short), "-fsyntax-only")

	// Values and layouts: both print the same.
	body := "#include <stdio.h>\n#include <stddef.h>\nint main(void) {\n"
	for _, name := range []string{
		"RD_KAFKA_CONSUMER", "RD_KAFKA_CONF_OK", "RD_KAFKA_TIMESTAMP_NOT_AVAILABLE", "RD_KAFKA_ADMIN_OP_DESCRIBETOPICS",
		"RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS", "RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS", "RD_KAFKA_RESP_ERR__FATAL",
		"RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET", "RD_KAFKA_RESP_ERR_NO_ERROR", "RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE",
		"RD_KAFKA_EVENT_REBALANCE", "RD_KAFKA_EVENT_OFFSET_COMMIT", "RD_KAFKA_OFFSET_BEGINNING", "RD_KAFKA_OFFSET_INVALID",
		"sizeof(rd_kafka_resp_err_t)", "sizeof(rd_kafka_message_t)", "sizeof(rd_kafka_topic_partition_t)",
		"sizeof(rd_kafka_topic_partition_list_t)", "sizeof(rd_kafka_timestamp_type_t)", "sizeof(rd_kafka_event_type_t)",
	} {
		body += "\tprintf(\"" + name + " %ld\\n\", (long)(" + name + "));\n"
	}
	for kind, fields := range map[string][]string{
		"rd_kafka_message_t":              {"err", "rkt", "partition", "payload", "len", "key", "key_len", "offset"},
		"rd_kafka_topic_partition_t":      {"topic", "partition", "offset", "err"},
		"rd_kafka_topic_partition_list_t": {"cnt", "size", "elems"},
	} {
		for _, field := range fields {
			body += "\tprintf(\"" + kind + "." + field + " %ld\\n\", (long)offsetof(" + kind + ", " + field + "));\n"
		}
	}
	body += "\treturn 0;\n}\n"
	show := func(header string) string {
		t.Helper()
		binary := filepath.Join(t.TempDir(), "check")
		compile(include(header)+body, "-o", binary)
		output, err := exec.Command(binary).Output()
		require.NoError(t, err)
		return string(output)
	}
	assert.Equal(t, show(actual), show(short))
}
