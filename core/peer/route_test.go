package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
	"prosody/core/store"
)

func TestTheRouteFollowsTheNetworks(t *testing.T) {
	const direct, advertised = "10.0.0.1:9099", "http://gateway:7000/"
	for _, c := range []struct {
		theirs, ours, advertised string
		secure                   bool
		want                     route
		wrong                    string
	}{
		{"", "", "", false, route{direct, "host", false}, ""},
		{"a", "a", advertised, false, route{direct, "host", false}, ""},
		{"a", "", advertised, true, route{direct, "host", true}, ""},
		{"", "b", advertised, false, route{direct, "host", false}, ""},
		{"a", "b", advertised, false, route{"gateway:7000", "host", false}, ""},
		{"a", "b", "https://gateway/", true, route{"gateway:443", "host", true}, ""},
		{"a", "b", "http://gateway/x", true, route{"gateway:80", "host", false}, ""},
		{"a", "b", "https://gateway/", false, route{}, "peer_tls"},
		{"a", "b", "", false, route{}, "peer_advertised_connect"},
		{"a", "b", "%", false, route{}, "cannot be used"},
	} {
		got, err := choose(store.Peer{Direct: direct, Advertised: c.advertised, Host: "host", Network: c.theirs}, c.ours, c.secure)
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
}

func TestWhatIsAdvertisedHasOneForm(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "http://gateway:7777": "http://gateway:7777/", "https://gateway/a": "https://gateway/a", "gateway:7777": "http://gateway:7777/",
		"10.0.0.1:9099": "http://10.0.0.1:9099/", "ftp://x": "!", "http://": "!", "http://u:p@x": "!", "a b": "!",
	} {
		got, err := normal(given)
		if want == "!" {
			assert.Equal(t, fault.Argument, fault.Of(err), given)
			assert.ErrorContains(t, err, "peer_advertised_connect")
			continue
		}
		require.NoError(t, err, given)
		assert.Equal(t, want, got)
	}
}

func TestADirectAddressIsOneThatOthersCanUse(t *testing.T) {
	assert.Equal(t, "127.0.0.1:5", direct(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5}))
	host, port, err := net.SplitHostPort(direct(&net.TCPAddr{IP: net.IPv6zero, Port: 5}))
	require.NoError(t, err)
	assert.Equal(t, "5", port)
	assert.False(t, net.ParseIP(host).IsUnspecified())
}

// authority signs certificates for tests.
type authority struct {
	key  *ecdsa.PrivateKey
	root *x509.Certificate
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key, root: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.root, a.root, &key.PublicKey, key)
	require.NoError(t, err)
	a.root, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.file = write(t, "CERTIFICATE", der)
	return a
}

// sign makes the TLS of a client whose certificate is for a name.
func (a *authority) sign(t *testing.T, name string) *TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour)}
	if ip := net.ParseIP(name); ip != nil {
		leaf.IPAddresses = []net.IP{ip}
	} else {
		leaf.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.root, &key.PublicKey, a.key)
	require.NoError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return &TLS{CA: a.file, Cert: write(t, "CERTIFICATE", der), Key: write(t, "EC PRIVATE KEY", private), Verify: true}
}

func write(t *testing.T, kind string, der []byte) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "*.pem")
	require.NoError(t, err)
	require.NoError(t, pem.Encode(file, &pem.Block{Type: kind, Bytes: der}))
	require.NoError(t, file.Close())
	return file.Name()
}

// With TLS both sides need a certificate of the same authority, for the address or for the
// name of the machine.
func TestTLSOnBothSides(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	unchecked := foreign.sign(t, "127.0.0.1")
	unchecked.Verify = false
	for name, c := range map[string]struct {
		asks, answers *TLS
		ok            bool
	}{
		"address":            {ours.sign(t, "127.0.0.1"), ours.sign(t, "127.0.0.1"), true},
		"name":               {ours.sign(t, host), ours.sign(t, "x"), true},
		"wrong name":         {ours.sign(t, "elsewhere"), ours.sign(t, "127.0.0.1"), false},
		"foreign responder":  {ours.sign(t, "127.0.0.1"), unchecked, false},
		"foreign requester":  {unchecked, ours.sign(t, "127.0.0.1"), false},
		"plain responder":    {ours.sign(t, "127.0.0.1"), nil, false},
		"plain requester":    {nil, ours.sign(t, "127.0.0.1"), false},
		"nothing is checked": {unchecked, unchecked, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory()
			asks := open(t, d, func(o *Options) { o.TLS = c.asks })
			answers := open(t, d, func(o *Options) { o.TLS = c.answers })
			require.NoError(t, asks.Reach(t.Context()))
			err := answers.Deliver(t.Context(), to(asks))
			if c.ok {
				require.NoError(t, err)
				assert.Len(t, asks.got(), 1)
				return
			}
			assert.Equal(t, Unreachable, kind(t, err))
			assert.Empty(t, asks.got())
		})
	}
}

func TestFilesOfTLSThatCannotBeUsedAreNamed(t *testing.T) {
	ours := newAuthority(t)
	good := ours.sign(t, "x")
	for option, bad := range map[string]*TLS{
		"peer_tls_cert": {Cert: "/none", Key: good.Key},
		"peer_tls_key":  {Cert: good.Cert, Key: good.Cert},
		"peer_tls_ca":   {Cert: good.Cert, Key: good.Key, CA: filepath.Join(t.TempDir(), "none")},
	} {
		_, err := New(Options{TLS: bad})
		require.ErrorContains(t, err, option)
		assert.Equal(t, fault.Config, fault.Of(err))
	}
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err := New(Options{TLS: &TLS{Cert: good.Cert, Key: good.Key, CA: empty}})
	require.ErrorContains(t, err, "holds no certificate")
}
