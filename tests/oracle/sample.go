package sample

import "C"

type T[K comparable] struct{ in interface{ Hidden() } }

type I interface {
	M(int) string
	A(); B()
	T
}

type (
	J interface{ N() }
	F func(int) int
)

func (t *T[K]) Method() {
	type local interface{ L() }
	_ = func() {}
}

func Generic[A, B any](a A, b B) (x int) { return 0 }
func assembly(x int) int
func init() {}
func init() {}
func (T[_]) 名前(
) {
}
