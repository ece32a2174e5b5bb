package cassandra

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/clock"
)

func fixed(seconds int64) clock.Clock { return clock.NewManual(time.Unix(seconds, 0)) }

// authority signs itself and writes its files: the certificate and the key.
func authority(t *testing.T, names ...string) (tls.Certificate, string, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	certText, keyText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	require.NoError(t, os.WriteFile(certFile, certText, 0o600))
	require.NoError(t, os.WriteFile(keyFile, keyText, 0o600))
	pair, err := tls.X509KeyPair(certText, keyText)
	require.NoError(t, err)
	return pair, certFile, keyFile
}

// secured is a door to Cassandra that takes TLS only, and clients with certificates only.
func secured(t *testing.T, server tls.Certificate) string {
	clients := x509.NewCertPool()
	clients.AddCert(server.Leaf)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})
	require.NoError(t, err)
	var group sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); group.Wait() })
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			inner, err := net.Dial("tcp", nodes()[0])
			if err != nil {
				_ = conn.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{conn, inner}, {inner, conn}} {
				group.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
	})
	return listener.Addr().String()
}

func TestTLS(t *testing.T) {
	connect(t, Options{})
	server, cert, key := authority(t, "cassandra.example")
	_, stranger, _ := authority(t, "cassandra.example")
	l := newLine()
	l.target = secured(t, server)
	open := func(node string, files TLS) error {
		s, err := Open(t.Context(), Options{Nodes: []string{node, "127.0.0.2:9042"}, Keyspace: shared, TLS: &files, dialer: l})
		if err == nil {
			require.NoError(t, s.Close())
		}
		return err
	}
	const named, unnamed = "cassandra.example:9042", "127.0.0.3:9042"
	require.NoError(t, open(named, TLS{CA: cert, Cert: cert, Key: key, Verify: true}))
	require.NoError(t, open(unnamed, TLS{Cert: cert, Key: key}))
	require.Error(t, open(unnamed, TLS{CA: cert, Cert: cert, Key: key, Verify: true}), "the certificate has another name")
	require.Error(t, open(named, TLS{CA: stranger, Cert: cert, Key: key, Verify: true}), "another authority")
	require.Error(t, open(named, TLS{Cert: cert, Key: key, Verify: true}), "not an authority of the system")
	require.Error(t, open(named, TLS{CA: cert, Verify: true}), "no certificate of the client")
}
