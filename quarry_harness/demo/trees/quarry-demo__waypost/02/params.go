package waypost

import (
	"fmt"
	"strconv"
)

// Param is one named part of a path.
type Param struct{ Name, Value string }

// Params are the named parts in the order of the pattern.
type Params []Param

// Get returns "" for an unknown name.
func (p Params) Get(name string) string {
	for _, one := range p {
		if one.Name == name {
			return one.Value
		}
	}
	return ""
}

// Int reads a parameter as a whole number.
func (p Params) Int(name string) (int, error) {
	value := p.Get(name)
	number, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("waypost: %s=%q is not a number", name, value)
	}
	return number, nil
}

// Map copies the parameters.
func (p Params) Map() map[string]string {
	copied := make(map[string]string, len(p))
	for _, one := range p {
		copied[one.Name] = one.Value
	}
	return copied
}

// First returns the first value that keep accepts.
func First[T any](values []T, keep func(T) bool) (T, bool) {
	for _, value := range values {
		if keep(value) {
			return value, true
		}
	}
	var zero T
	return zero, false
}
