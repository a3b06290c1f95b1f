package waypost

import (
	"errors"
	"strings"
)

// ErrConflict is returned when two patterns claim the same requests.
var ErrConflict = errors.New("waypost: conflicting pattern")

type kind uint8

const (
	literal kind = iota
	param
	wildcard
)

// node is one segment of a pattern.
type node struct {
	kind     kind
	text     string
	children []*node
	handlers map[string]Handler
	pattern  string
}

// segments cuts a path at its slashes; empty segments are dropped.
func segments(path string) []string {
	parts := strings.Split(path, "/")
	kept := parts[:0]
	for _, part := range parts {
		if part != "" {
			kept = append(kept, part)
		}
	}
	return kept
}

func classify(segment string) (kind, string) {
	switch segment[0] {
	case ':':
		return param, segment[1:]
	case '*':
		return wildcard, segment[1:]
	default:
		return literal, segment
	}
}

// insert adds a pattern below n and returns its last node.
func (n *node) insert(pattern string) (*node, error) {
	current := n
	parts := segments(pattern)
	for i, part := range parts {
		k, text := classify(part)
		if k == wildcard && i != len(parts)-1 {
			return nil, errors.New("waypost: wildcard before the end of " + pattern)
		}
		next := current.child(k, text)
		if next == nil {
			if k != literal && current.has(k) {
				return nil, ErrConflict
			}
			next = &node{kind: k, text: text}
			current.children = append(current.children, next)
		}
		current = next
	}
	return current, nil
}

func (n *node) child(k kind, text string) *node {
	for _, c := range n.children {
		if c.kind == k && c.text == text {
			return c
		}
	}
	return nil
}

func (n *node) has(k kind) bool {
	for _, c := range n.children {
		if c.kind == k {
			return true
		}
	}
	return false
}

// lookup tries fixed words first, then a named placeholder, then the catch-all, and backs out of dead ends.
func (n *node) lookup(parts []string, values Params) (*node, Params) {
	if len(parts) == 0 {
		if n.handlers == nil {
			return nil, values
		}
		return n, values
	}
	for want := literal; want <= wildcard; want++ {
		for _, c := range n.children {
			if c.kind != want {
				continue
			}
			switch c.kind {
			case literal:
				if c.text == parts[0] {
					if hit, got := c.lookup(parts[1:], values); hit != nil {
						return hit, got
					}
				}
			case param:
				if hit, got := c.lookup(parts[1:], append(values, Param{c.text, parts[0]})); hit != nil {
					return hit, got
				}
			case wildcard:
				return c, append(values, Param{c.text, strings.Join(parts, "/")})
			}
		}
	}
	return nil, values
}

// walk calls visit for every node that has a handler, parents first.
func (n *node) walk(visit func(*node)) {
	if n.handlers != nil {
		visit(n)
	}
	for _, c := range n.children {
		c.walk(visit)
	}
}
