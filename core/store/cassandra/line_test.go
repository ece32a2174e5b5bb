package cassandra

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// line is the network between a store and Cassandra: it can be down, silent, or lose
// answers.
type line struct {
	mutex  sync.Mutex
	target string
	down   func(address string) bool
	conns  map[*wire]bool

	swallow atomic.Int64 // answers to requests that are still to be lost
	left    atomic.Int64 // bytes until all connections break; none when not positive
	silent  atomic.Bool

	requests atomic.Int64           // that went out
	mark     atomic.Pointer[string] // what tells the requests of a test
}

func newLine() *line {
	return &line{target: nodes()[0], conns: map[*wire]bool{}}
}

var errDown = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused by the test")}

// DialContext connects to the target whatever the address.
func (l *line) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	l.mutex.Lock()
	down, target := l.down, l.target
	l.mutex.Unlock()
	if down != nil && down(address) {
		return nil, errDown
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, target)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, line: l, gone: make(chan struct{})}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.down != nil && l.down(address) { // it was cut meanwhile
		_ = conn.Close()
		return nil, errDown
	}
	l.conns[w] = true
	return w, nil
}

// cut closes all connections and refuses new ones to addresses that down names.
func (l *line) cut(down func(string) bool) {
	l.mutex.Lock()
	l.down = down
	conns := l.conns
	l.conns = map[*wire]bool{}
	l.mutex.Unlock()
	for conn := range conns {
		_ = conn.Close()
	}
}

// marked is how many connections carried requests of the test.
func (l *line) marked() (count int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for conn := range l.conns {
		if conn.marked.Load() {
			count++
		}
	}
	return count
}

func always(string) bool { return true }

func host(name string) func(string) bool {
	return func(address string) bool { return strings.HasPrefix(address, name+":") }
}

func (l *line) up() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.down = nil
}

// wire is one connection.
type wire struct {
	net.Conn
	line  *line
	asked atomic.Bool // a request went out after the line was told to lose its answer
	once  sync.Once
	gone  chan struct{}

	marked atomic.Bool // it carried a request of the test
}

func (w *wire) Close() error {
	w.once.Do(func() {
		close(w.gone)
		w.line.mutex.Lock()
		delete(w.line.conns, w)
		w.line.mutex.Unlock()
	})
	return w.Conn.Close()
}

// heartbeat is more bytes than those of a heartbeat and less than those of a request.
const heartbeat = 40

func (w *wire) Write(data []byte) (int, error) {
	if len(data) > heartbeat {
		w.line.requests.Add(1)
		if w.line.swallow.Load() > 0 {
			w.asked.Store(true)
		}
	}
	if mark := w.line.mark.Load(); mark != nil && strings.Contains(string(data), *mark) {
		w.marked.Store(true)
	}
	return w.Conn.Write(data)
}

func (w *wire) Read(data []byte) (int, error) {
	n, err := w.Conn.Read(data)
	for w.line.silent.Load() {
		select {
		case <-w.gone:
			return 0, io.EOF
		case <-time.After(10 * time.Millisecond):
		}
	}
	if n > heartbeat/2 && w.asked.Load() && w.line.swallow.Add(-1) >= 0 {
		_ = w.Close()
		return 0, io.EOF
	}
	if left := w.line.left.Load(); left > 0 && w.line.left.Add(-int64(n)) <= 0 {
		w.line.left.Store(0)
		w.line.cut(always)
		return 0, io.EOF
	}
	return n, err
}
