package middleware

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"example.org/waypost"
)

// Recover turns a panic of the handler into an error.
func Recover(next waypost.Handler) waypost.Handler {
	return waypost.HandlerFunc(func(w http.ResponseWriter, r *http.Request, values waypost.Params) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("handler of %s crashed: %v", r.URL.Path, cause)
			}
		}()
		return next.Serve(w, r, values)
	})
}

type recorder struct {
	http.ResponseWriter
	status int
	bytes  int
}

// WriteHeader notes the status on its way out.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Write counts what the client gets.
func (r *recorder) Write(body []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(body)
	r.bytes += n
	return n, err
}

// Log prints one line a request.
func Log(out *log.Logger) waypost.Middleware {
	return func(next waypost.Handler) waypost.Handler {
		return waypost.HandlerFunc(func(w http.ResponseWriter, r *http.Request, values waypost.Params) error {
			seen := &recorder{ResponseWriter: w}
			started := time.Now()
			err := next.Serve(seen, r, values)
			out.Printf("%s %s %d %dB %s", r.Method, r.URL.Path, seen.status, seen.bytes, time.Since(started))
			return err
		})
	}
}
