package peer

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"prosody/core/fault"
	"prosody/core/store"
)

// route is how to reach a client.
type route struct {
	address string // host and port
	host    string // the name of its machine, as the directory has it
	secure  bool
}

// choose picks the route to a client: its direct address within a network, and the
// advertised one of another.
func choose(to store.Peer, network string, secure bool) (route, error) {
	if to.Direct != "" && (to.Network == network || to.Network == "" || network == "") {
		return route{to.Direct, to.Host, secure}, nil
	}
	if to.Advertised == "" {
		return route{}, fmt.Errorf("the client that asked is in network %q, this one is in %q, and it advertises no address (peer_advertised_connect)", to.Network, network)
	}
	uri, err := url.Parse(to.Advertised)
	if err != nil || uri.Hostname() == "" {
		return route{}, fmt.Errorf("the address %q that the client advertises cannot be used", to.Advertised)
	}
	https := uri.Scheme == "https"
	if https && !secure {
		return route{}, fmt.Errorf("the address %q needs peer_tls", to.Advertised)
	}
	port := uri.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[https]
	}
	return route{net.JoinHostPort(uri.Hostname(), port), to.Host, https}, nil
}

// normal checks what a client advertises, and gives it the form of the directory. Without
// a scheme it is a host and port.
func normal(advertised string) (string, error) {
	if advertised == "" {
		return "", nil
	}
	if !strings.Contains(advertised, "://") {
		advertised = "http://" + advertised
	}
	uri, err := url.Parse(advertised)
	switch {
	case err != nil || uri.Hostname() == "":
		return "", fault.New(fault.Argument, "peer_advertised_connect: %q is not an address such as http://gateway:9099", advertised)
	case uri.Scheme != "http" && uri.Scheme != "https":
		return "", fault.New(fault.Argument, "peer_advertised_connect: %q begins with neither http:// nor https://", advertised)
	case uri.User != nil:
		return "", fault.New(fault.Argument, "peer_advertised_connect: must not hold a user or password")
	}
	if uri.Path == "" {
		uri.Path = "/"
	}
	return uri.String(), nil
}

// direct is the address under which others on the network find a listener.
func direct(bound net.Addr) string {
	tcp, ok := bound.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return bound.String()
	}
	return net.JoinHostPort(outward(), strconv.Itoa(tcp.Port))
}

// outward is the machine's address on the way to other networks; the loopback address
// where there is none. Nothing is sent.
func outward() string {
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		if probe, err := (&net.Dialer{}).DialContext(context.Background(), "udp", far); err == nil {
			defer probe.Close() //nolint:errcheck // it has sent nothing
			if local, ok := probe.LocalAddr().(*net.UDPAddr); ok {
				return local.IP.String()
			}
		}
	}
	return "127.0.0.1"
}
