package middleware

import (
	"net"
	"net/http"
	"strings"
)

// ClientAddress returns where a request came from. X-Forwarded-For counts only where the sender is a trusted proxy.
func ClientAddress(r *http.Request, trusted []*net.IPNet) string {
	host := remoteHost(r)
	if !within(net.ParseIP(host), trusted) {
		return host
	}
	hops := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop := strings.TrimSpace(hops[i])
		if hop != "" && !within(net.ParseIP(hop), trusted) {
			return hop
		}
	}
	return host
}

func within(ip net.IP, networks []*net.IPNet) bool {
	for _, network := range networks {
		if ip != nil && network.Contains(ip) {
			return true
		}
	}
	return false
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
