package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"reflect"
	"slices"
	"strings"
)

// maxCandidates bounds what an error lists.
const maxCandidates = 60

// found is a node of a function's body with its ancestors, the outermost first.
type found struct {
	node ast.Node
	path []ast.Node
}

// find returns the nodes that a target describes, in the order of the source, and
// what else of its kind there is.
func (t Target) find(body *ast.BlockStmt) (all []found, candidates []string, err error) {
	var pattern ast.Expr
	if t.kind == anyExpression {
		if pattern, err = parser.ParseExpr(t.pattern); err != nil {
			return nil, nil, fmt.Errorf("pattern %q: %w", t.pattern, err)
		}
	}
	ast.PreorderStack(body, nil, func(n ast.Node, stack []ast.Node) bool {
		names, ok := t.describe(n, pattern)
		if !ok {
			return true
		}
		candidates = append(candidates, names...)
		matches := t.kind == anyReturn
		if pattern != nil {
			matches = equal(reflect.ValueOf(pattern), reflect.ValueOf(n))
		}
		for _, name := range names {
			matches = matches || pattern == nil && (name == t.pattern || strings.HasSuffix(name, "."+t.pattern))
		}
		if matches {
			all = append(all, found{n, slices.Clone(stack)})
		}
		return true
	})
	return all, candidates, nil
}

// describe says whether a node is of the target's kind, and by which names it goes.
func (t Target) describe(n ast.Node, pattern ast.Expr) (names []string, ok bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if t.kind == anyCall {
			return []string{selector(n.Fun)}, true
		}
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			names = append(names, selector(e))
		}
		if t.kind == anyAssignment {
			return names, true
		}
	case *ast.IncDecStmt:
		if t.kind == anyAssignment {
			return []string{selector(n.X)}, true
		}
	case *ast.ValueSpec:
		for _, id := range n.Names {
			names = append(names, id.Name)
		}
		if t.kind == anyAssignment {
			return names, true
		}
	case *ast.ReturnStmt:
		if t.kind == anyReturn {
			return []string{printed(n)}, true
		}
	}
	if e, isExpr := n.(ast.Expr); isExpr && pattern != nil && reflect.TypeOf(e) == reflect.TypeOf(pattern) {
		return []string{printed(n)}, true
	}
	return nil, false
}

// String names the target for errors.
func (t Target) String() string {
	s := ""
	switch t.kind {
	case anyCall:
		s = "call of " + t.pattern
	case anyAssignment:
		s = "assignment to " + t.pattern
	case anyReturn:
		s = "return statement"
	case anyExpression:
		s = "expression " + t.pattern
	}
	if t.nth > 0 {
		s += fmt.Sprintf(", number %d", t.nth)
	}
	return s
}

// selector prints what is called or assigned to, with ... for operands that are
// more than names.
func selector(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return selector(e.X) + "." + e.Sel.Name
	case *ast.ParenExpr:
		return selector(e.X)
	case *ast.StarExpr:
		return selector(e.X)
	case *ast.IndexExpr:
		return selector(e.X)
	default:
		return "..."
	}
}

// printed returns the first line of a node.
func printed(n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	line, _, cut := strings.Cut(b.String(), "\n")
	if cut {
		line += " ..."
	}
	return line
}

var (
	posType     = reflect.TypeFor[token.Pos]()
	commentType = reflect.TypeFor[*ast.CommentGroup]()
)

// equal compares the syntax of a pattern with that of a node.
func equal(pattern, node reflect.Value) bool {
	pattern, node = operand(pattern), operand(node)
	if !pattern.IsValid() || !node.IsValid() {
		return pattern.IsValid() == node.IsValid()
	}
	if id, ok := pattern.Interface().(*ast.Ident); ok && id != nil && id.Name == "_" {
		_, isExpr := node.Interface().(ast.Expr)
		return isExpr
	}
	if pattern.Type() != node.Type() {
		return false
	}
	switch pattern.Type() {
	case posType, commentType:
		return true
	}
	switch pattern.Kind() {
	case reflect.Pointer:
		if pattern.IsNil() || node.IsNil() {
			return pattern.IsNil() == node.IsNil()
		}
		return equal(pattern.Elem(), node.Elem())
	case reflect.Struct:
		for i := range pattern.NumField() {
			if !equal(pattern.Field(i), node.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if pattern.Len() != node.Len() {
			return false
		}
		for i := range pattern.Len() {
			if !equal(pattern.Index(i), node.Index(i)) {
				return false
			}
		}
		return true
	default:
		return pattern.Equal(node)
	}
}

// operand takes off interfaces and parentheses.
func operand(v reflect.Value) reflect.Value {
	for v.IsValid() {
		if v.Kind() == reflect.Interface {
			v = v.Elem()
			continue
		}
		p, ok := v.Interface().(*ast.ParenExpr)
		if !ok || p == nil {
			break
		}
		v = reflect.ValueOf(p.X)
	}
	return v
}

// statement returns the innermost statement around a node that is in a list of
// statements, so that others can be inserted before and after it.
func (f found) statement() (ast.Stmt, bool) {
	nodes := append(slices.Clone(f.path), f.node)
	for i := len(nodes) - 1; i > 0; i-- {
		s, ok := nodes[i].(ast.Stmt)
		if ok && slices.Contains(statements(nodes[i-1]), s) {
			return s, true
		}
	}
	return nil, false
}

func statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	default:
		return nil
	}
}

// branch returns where the statements begin of the innermost branch or loop whose
// head contains a node.
func (f found) branch() (token.Pos, bool) {
	nodes := append(slices.Clone(f.path), f.node)
	for i := len(nodes) - 2; i >= 0; i-- {
		child := nodes[i+1]
		switch n := nodes[i].(type) {
		case *ast.IfStmt:
			if child != n.Body && child != n.Else {
				return n.Body.Lbrace + 1, true
			}
		case *ast.ForStmt:
			if child != n.Body {
				return n.Body.Lbrace + 1, true
			}
		case *ast.RangeStmt:
			if child != n.Body {
				return n.Body.Lbrace + 1, true
			}
		case *ast.CaseClause:
			if e, ok := child.(ast.Expr); ok && slices.Contains(n.List, e) {
				return n.Colon + 1, true
			}
		case *ast.CommClause:
			if child == n.Comm {
				return n.Colon + 1, true
			}
		}
	}
	return token.NoPos, false
}
