// The Go parser of the standard library: the functions of the files named on standard input, as JSON lines.
//
// Which functions: declared functions and methods, and the methods of interfaces that have a name at package level.
package main

import (
	"bufio"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
)

type row struct {
	Path      string `json:"path"`
	Name      string `json:"name"`
	StartLine int    `json:"start_line"`
	EndLine   int    `json:"end_line"`
	Body      bool   `json:"body"`
}

type file struct {
	Path   string `json:"path"`
	Parsed bool   `json:"parsed,omitempty"`
	Failed string `json:"failed,omitempty"`
}

func main() {
	out := json.NewEncoder(os.Stdout)
	paths := bufio.NewScanner(os.Stdin)
	for paths.Scan() {
		files := token.NewFileSet()
		tree, err := parser.ParseFile(files, paths.Text(), nil, parser.SkipObjectResolution)
		if err != nil {
			out.Encode(file{Path: paths.Text(), Failed: err.Error()})
			continue
		}
		out.Encode(file{Path: paths.Text(), Parsed: true})
		say := func(name string, node ast.Node, body bool) {
			// Not what a //line comment says.
			first := files.PositionFor(node.Pos(), false).Line
			last := files.PositionFor(node.End()-1, false).Line
			out.Encode(row{paths.Text(), name, first, last, body})
		}
		for _, one := range tree.Decls {
			declaration(one, say)
		}
	}
}

func declaration(node ast.Decl, say func(string, ast.Node, bool)) {
	switch one := node.(type) {
	case *ast.FuncDecl:
		say(one.Name.Name, one, one.Body != nil)
	case *ast.GenDecl:
		for _, spec := range one.Specs {
			named, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			kind, ok := named.Type.(*ast.InterfaceType)
			if !ok {
				continue
			}
			for _, method := range kind.Methods.List {
				for _, name := range method.Names {
					say(name.Name, method, false)
				}
			}
		}
	}
}
