package cassandra

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/clock"
	"prosody/core/fault"
)

// Options say where Cassandra is and how it is used. Each is named like the option of
// Prosody without its prefix "cassandra_".
type Options struct {
	Nodes       []string // host:port
	Keyspace    string
	User        string
	Password    string
	Datacenter  string
	Rack        string
	Retention   time.Duration
	Replication string // of a keyspace that has to be created; see config.ParseReplication
	Verify      bool   // schema=verify: tables are looked for, not created
	TLS         *TLS   // nil for none

	Clock clock.Clock  // real when nil
	Log   *slog.Logger // none when nil

	dialer gocql.Dialer // tests cut it
}

// TLS is how connections are secured. Files are PEM.
type TLS struct {
	CA     string // file; the system's authorities when empty
	Cert   string // file; none when empty
	Key    string // file
	Verify bool
}

const (
	// patience is how long a node may take to answer: longer than its own timeouts
	// usually are.
	patience = 5 * time.Second
	// agreement is how long nodes may take to agree on a changed schema.
	agreement = 20 * time.Second
)

// cluster is what both sessions have in common.
func (o *Options) cluster() (*gocql.ClusterConfig, error) {
	cluster := gocql.NewCluster(o.Nodes...)
	cluster.Consistency = gocql.LocalQuorum
	cluster.WriteCoalesceWaitTime = 0 // waiting for company triples the time of a lone request
	cluster.Timeout = patience
	cluster.ConnectTimeout = patience
	cluster.ReconnectInterval = time.Second
	cluster.MaxWaitSchemaAgreement = agreement
	cluster.DefaultTimestamp = false // every write names its own
	cluster.DefaultIdempotence = true
	cluster.RetryPolicy = retry{}
	cluster.NextPagePrefetch = 0
	cluster.SocketKeepalive = 15 * time.Second
	cluster.Dialer = o.dialer
	cluster.Metadata.CacheMode = gocql.KeyspaceOnly
	cluster.Logger = logger{o.Log}
	if o.User != "" {
		cluster.Authenticator = gocql.PasswordAuthenticator{Username: o.User, Password: o.Password}
	}
	if o.TLS != nil {
		secure, err := o.TLS.config(o.Nodes)
		if err != nil {
			return nil, err
		}
		cluster.SslOpts = &gocql.SslOptions{Config: secure}
	}
	return cluster, nil
}

// config checks a node's certificate against its address or any of the names of the
// options: nodes that the cluster names are known by address only.
func (t *TLS) config(nodes []string) (*tls.Config, error) {
	result := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	var roots *x509.CertPool
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fault.Wrap(fault.Config, err, "cassandra_tls_ca")
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Config, "cassandra_tls_ca: no certificate in %s", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fault.New(fault.Config, "cassandra_tls_cert and cassandra_tls_key: not a pair of PEM files that can be read")
		}
		result.Certificates = []tls.Certificate{pair}
	}
	if !t.Verify {
		return result, nil
	}
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node
		if host, _, err := net.SplitHostPort(node); err == nil {
			names[i] = host
		}
	}
	result.VerifyConnection = func(state tls.ConnectionState) error {
		return verify(state, roots, names)
	}
	return result, nil
}

func verify(state tls.ConnectionState, roots *x509.CertPool, names []string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the node shows no certificate")
	}
	leaf := state.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return err
	}
	var err error
	for _, name := range names {
		if err = leaf.VerifyHostname(name); err == nil {
			return nil
		}
	}
	return err
}
