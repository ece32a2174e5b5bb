package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"

	"google.golang.org/grpc/credentials"

	"prosody/core/fault"
)

// TLS names the files of a client's certificate. With Verify, both sides of a connection
// need a certificate of an authority that the other knows.
type TLS struct {
	CA     string // file; empty: the authorities of the system
	Cert   string // file
	Key    string // file
	Verify bool
}

// secure is TLS, loaded.
type secure struct {
	server credentials.TransportCredentials
	config *tls.Config
	roots  *x509.CertPool
	verify bool
}

func (t *TLS) load() (*secure, error) {
	own, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "peer_tls_cert and peer_tls_key")
	}
	made := &secure{verify: t.Verify}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fault.Wrap(fault.Config, err, "peer_tls_ca")
		}
		made.roots = x509.NewCertPool()
		if !made.roots.AppendCertsFromPEM(text) {
			return nil, fault.New(fault.Config, "peer_tls_ca: %s holds no certificate", t.CA)
		}
	}
	server := &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	if t.Verify {
		server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, made.roots
	}
	made.server = credentials.NewTLS(server)
	made.config = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	return made, nil
}

// client is how to connect to a route. The certificate there must be valid for the
// address, or for the name of the machine that the directory tells.
func (s *secure) client(to route) credentials.TransportCredentials {
	config := s.config.Clone()
	config.InsecureSkipVerify = true // VerifyConnection does it: for either name
	if s.verify {
		config.VerifyConnection = func(state tls.ConnectionState) error { return s.check(state, to) }
	}
	return credentials.NewTLS(config)
}

func (s *secure) check(state tls.ConnectionState, to route) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the other side has no certificate")
	}
	address, _, err := net.SplitHostPort(to.address)
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{Roots: s.roots, Intermediates: x509.NewCertPool(), DNSName: address}
	for _, one := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(one)
	}
	if _, err = state.PeerCertificates[0].Verify(options); err == nil || to.host == "" {
		return err
	}
	options.DNSName = to.host
	if _, other := state.PeerCertificates[0].Verify(options); other == nil {
		return nil
	}
	return err
}
