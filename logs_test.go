package lcm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Log lines are found by their message: it is constant, what varies stands in
// attributes, and an error is always under "error".
func TestLogMessagesAreConstant(t *testing.T) {
	levels := []string{"Debug", "Info", "Warn", "Error"}
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if filepath.ToSlash(path) == "internal/problem/trouble.go" {
			return nil // hands on the message of its caller
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isLogger(f.X) {
				return true
			}
			args := call.Args
			if name, ok := strings.CutSuffix(f.Sel.Name, "Context"); ok && len(args) > 0 {
				if !slices.Contains(levels, name) {
					return true
				}
				args = args[1:]
			} else if !slices.Contains(levels, f.Sel.Name) {
				return true
			}
			found++
			for i := 0; i < len(args); i++ {
				lit, ok := args[i].(*ast.BasicLit)
				if i == 0 || i%2 == 1 { // the message, and the keys behind it
					if !ok || lit.Kind != token.STRING {
						t.Errorf("%s: message and keys of a log line are constant strings", set.Position(call.Pos()))
						break
					}
					if lit.Value == `"err"` {
						t.Errorf("%s: the key of an error is \"error\"", set.Position(call.Pos()))
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 50 {
		t.Errorf("only %d log lines were found: does this test still see them?", found)
	}
}

// isLogger: by the names loggers have here.
func isLogger(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return slices.Contains([]string{"log", "slog", "Log", "Logger", "logger"}, name)
}
