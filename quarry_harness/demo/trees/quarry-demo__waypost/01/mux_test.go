package waypost

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func ok(w http.ResponseWriter, _ *http.Request, values Params) error {
	_, err := w.Write([]byte(values.Get("id")))
	return err
}

func get(m *Mux, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
	return answer
}

func TestNamedParameters(t *testing.T) {
	m := New()
	m.Handle("GET", "/orders/:id", HandlerFunc(ok))
	if body := get(m, "/orders/17").Body.String(); body != "17" {
		t.Fatalf("body %q", body)
	}
}

func TestWrongMethod(t *testing.T) {
	m := New()
	m.Handle("POST", "/orders", HandlerFunc(ok))
	if answer := get(m, "/orders"); answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != "POST" {
		t.Fatalf("status %d", answer.Code)
	}
}
