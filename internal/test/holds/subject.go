package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// subject returns the test that a comment belongs to, and what it checks; no name if it belongs to none.
func subject(files *token.FileSet, tree *ast.File, comment *ast.CommentGroup) (name, about string) {
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if f.Doc == comment {
			return f.Name.Name, sentence(f.Doc.Text(), f.Name.Name)
		}
	}
	return caseBelow(tree, func(n ast.Node) bool {
		return files.Position(n.Pos()).Line == files.Position(comment.End()).Line+1
	})
}

// caseBelow returns the case of a table that begins where below says so: the function that it names beside its name,
// else the test function that it stands in, and the case's name.
func caseBelow(tree *ast.File, below func(ast.Node) bool) (name, about string) {
	var outer string // the function that has the table
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			outer = f.Name.Name
		} else {
			outer = ""
		}
		var row ast.Node
		ast.Inspect(d, func(n ast.Node) bool {
			if n != nil && row == nil && n != ast.Node(d) && below(n) {
				row = n
			}
			return row == nil
		})
		if row == nil {
			continue
		}
		about, function := parts(row)
		switch {
		case about == "":
			return "", ""
		case function != "":
			return function, about
		case outer != "":
			return outer, about
		}
		return about, about
	}
	return "", ""
}

// parts returns the first string within a case, and the last function that is named beside it.
func parts(row ast.Node) (name, function string) {
	literal, ok := row.(*ast.CompositeLit)
	ast.Inspect(row, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && name == "" {
			name, _ = strconv.Unquote(s.Value)
		}
		return name == ""
	})
	if !ok || len(literal.Elts) != 2 {
		return name, ""
	}
	switch f := literal.Elts[1].(type) {
	case *ast.Ident:
		function = f.Name
	case *ast.CallExpr: // with(f)
		if len(f.Args) == 1 {
			if inner, ok := f.Args[0].(*ast.Ident); ok {
				function = inner.Name
			}
		}
	}
	return name, function
}

var (
	numbered = regexp.MustCompile(`^((Promises?|Rules?|promises?|rules?|and|,|[LTHQ]?\d+) ?)+(: |\. ?|, |$)`)
	role     = regexp.MustCompile(`^(:| is [a-z ]{1,20}:)? `) // of "TestX is the guard: …"
	firstEnd = regexp.MustCompile(`[.;:] |[.]$`)
)

// sentence returns the first sentence of a comment; without a comment it is the function's name, as words.
func sentence(comment, name string) string {
	lines := strings.Split(strings.TrimSpace(comment), "\n")
	kept := lines[:0]
	for _, l := range lines {
		if !strings.HasPrefix(l, marker) {
			kept = append(kept, l)
		}
	}
	s := numbered.ReplaceAllString(strings.Join(strings.Fields(strings.Join(kept, " ")), " "), "")
	if named, ok := strings.CutPrefix(s, name); ok {
		s = role.ReplaceAllString(named, "")
	}
	if end := firstEnd.FindStringIndex(s); end != nil {
		s = s[:end[0]]
	}
	if s == "" || s == "Fault" { // what follows "Fault:" is what once went wrong, and not what is checked
		s = inWords(strings.TrimPrefix(name, "Test"))
	}
	return capital(s)
}

func capital(s string) string {
	letters := []rune(s)
	letters[0] = unicode.ToUpper(letters[0])
	return string(letters)
}

// inWords turns NoTwoHoldersAtOnce into "no two holders at once".
func inWords(name string) string {
	var b strings.Builder
	letters := []rune(name)
	for i, c := range letters {
		if unicode.IsUpper(c) && i > 0 && (unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}
