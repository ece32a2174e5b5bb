// Command rows measures plain writes of single rows to Cassandra, the yardstick of keyed
// state. It prints JSON with the rate.
//
//	rows [WRITES [IN-FLIGHT [BYTES]]]
//
// BENCH_CASSANDRA names a node.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

const keys = 1000 // as bench.py has

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	numbers := [3]int{20_000, 32, 64}
	for i := 0; i < len(numbers) && i < len(arguments); i++ {
		number, err := strconv.Atoi(arguments[i])
		if err != nil || number < 1 {
			return fmt.Errorf("usage: rows [WRITES [IN-FLIGHT [BYTES]]]")
		}
		numbers[i] = number
	}
	cluster := gocql.NewCluster(cmp.Or(os.Getenv("BENCH_CASSANDRA"), "localhost:9042"))
	cluster.Consistency = gocql.LocalQuorum
	cluster.Timeout = 30 * time.Second
	session, err := cluster.CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	for _, statement := range []string{
		"CREATE KEYSPACE IF NOT EXISTS prosody_bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE IF NOT EXISTS prosody_bench.rows (key text PRIMARY KEY, data blob)",
	} {
		if err := session.Query(statement).Exec(); err != nil {
			return err
		}
	}
	write := func(n int) error {
		return session.Query("INSERT INTO prosody_bench.rows (key, data) VALUES (?, ?)", fmt.Sprintf("key-%d", n%keys), make([]byte, numbers[2])).Exec()
	}
	for n := range keys {
		if err := write(n); err != nil {
			return err
		}
	}
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make(chan error, numbers[1])
	began := time.Now()
	for range numbers[1] {
		all.Go(func() {
			for n := int(next.Add(1)); n <= numbers[0]; n = int(next.Add(1)) {
				if err := write(n); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	all.Wait()
	seconds := time.Since(began).Seconds()
	close(failures)
	if err := <-failures; err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"scenario": "rows", "in_flight": numbers[1], "per_second": int(float64(numbers[0]) / seconds), "seconds": seconds,
	})
}
