// Package middleware holds ready-made wrappers for handlers.
package middleware

import (
	"net/http"
	"sync"
	"time"

	"example.org/waypost"
)

type bucket struct {
	tokens float64
	filled time.Time
}

// Limiter hands out tokens to each client at a steady rate.
type Limiter struct {
	mu      sync.Mutex
	rate    float64
	burst   float64
	buckets map[string]*bucket
	now     func() time.Time
}

// NewLimiter allows rate requests a second and burst at once.
func NewLimiter(rate float64, burst int) *Limiter {
	return &Limiter{rate: rate, burst: float64(burst), buckets: map[string]*bucket{}, now: time.Now}
}

// Take spends one token of a client; false means that none is left.
func (l *Limiter) Take(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	b, ok := l.buckets[client]
	if !ok {
		b = &bucket{tokens: l.burst, filled: now}
		l.buckets[client] = b
	}
	b.tokens += now.Sub(b.filled).Seconds() * l.rate
	if b.tokens > l.burst {
		b.tokens = l.burst
	}
	b.filled = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Forget drops clients that were not seen since before.
func (l *Limiter) Forget(before time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped := 0
	for client, b := range l.buckets {
		if b.filled.Before(before) {
			delete(l.buckets, client)
			dropped++
		}
	}
	return dropped
}

// Limit answers 429 to clients without tokens.
func Limit(l *Limiter) waypost.Middleware {
	return func(next waypost.Handler) waypost.Handler {
		return waypost.HandlerFunc(func(w http.ResponseWriter, r *http.Request, values waypost.Params) error {
			if !l.Take(ClientAddress(r, nil)) {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
				return nil
			}
			return next.Serve(w, r, values)
		})
	}
}
