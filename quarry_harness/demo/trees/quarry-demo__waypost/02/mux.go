package waypost

import (
	"net/http"
	"sort"
	"strings"
)

// Handler is what a route leads to.
type Handler interface {
	Serve(w http.ResponseWriter, r *http.Request, values Params) error
}

// HandlerFunc lets a plain function be a Handler.
type HandlerFunc func(w http.ResponseWriter, r *http.Request, values Params) error

// Serve calls f.
func (f HandlerFunc) Serve(w http.ResponseWriter, r *http.Request, values Params) error {
	return f(w, r, values)
}

// Middleware wraps a handler in another one.
type Middleware func(Handler) Handler

// Mux is the router.
type Mux struct {
	root     *node
	chain    []Middleware
	OnError  func(w http.ResponseWriter, r *http.Request, err error)
	NotFound http.Handler
}

// New returns an empty router.
func New() *Mux {
	return &Mux{root: &node{}, OnError: plainError, NotFound: http.HandlerFunc(http.NotFound)}
}

// Use adds middleware to the routes registered after it.
func (m *Mux) Use(chain ...Middleware) {
	m.chain = append(m.chain, chain...)
}

// Handle registers a route. It panics where two routes cannot be told apart.
func (m *Mux) Handle(method, pattern string, h Handler) {
	leaf, err := m.root.insert(pattern)
	if err != nil {
		panic(err)
	}
	if leaf.handlers == nil {
		leaf.handlers = map[string]Handler{}
	}
	leaf.pattern = pattern
	leaf.handlers[method] = compose(h, m.chain)
}

// compose puts the first middleware outermost.
func compose(h Handler, chain []Middleware) Handler {
	for i := len(chain) - 1; i >= 0; i-- {
		h = chain[i](h)
	}
	return h
}

// ServeHTTP makes Mux an http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	leaf, values := m.root.lookup(segments(r.URL.Path), nil)
	if leaf == nil {
		m.NotFound.ServeHTTP(w, r)
		return
	}
	if r.Method == http.MethodOptions && leaf.handlers[http.MethodOptions] == nil {
		w.Header().Set("Allow", strings.Join(leaf.methods(), ", "))
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h, ok := leaf.handlers[r.Method]
	if !ok && r.Method == http.MethodHead {
		h, ok = leaf.handlers[http.MethodGet]
	}
	if !ok {
		w.Header().Set("Allow", strings.Join(leaf.methods(), ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if err := h.Serve(w, r, values); err != nil {
		m.OnError(w, r, err)
	}
}

func (n *node) methods() []string {
	names := make([]string, 0, len(n.handlers))
	for name := range n.handlers {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Routes lists "METHOD pattern" of everything registered, sorted.
func (m *Mux) Routes() []string {
	var lines []string
	m.root.walk(func(n *node) {
		for _, method := range n.methods() {
			lines = append(lines, method+" "+n.pattern)
		}
	})
	sort.Strings(lines)
	return lines
}

func plainError(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// Group registers routes below a common prefix.
type Group struct {
	mux    *Mux
	prefix string
	chain  []Middleware
}

// Group opens a group; its own middleware runs inside that of the router.
func (m *Mux) Group(prefix string, chain ...Middleware) *Group {
	return &Group{m, strings.TrimSuffix(prefix, "/"), chain}
}

// Handle registers a route of the group.
func (g *Group) Handle(method, pattern string, h Handler) {
	g.mux.Handle(method, g.prefix+"/"+strings.TrimPrefix(pattern, "/"), compose(h, g.chain))
}
