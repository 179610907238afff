// Command lines counts the Go code of the program: hand-written files without tests, given
// as arguments. It prints lines of code (neither blank nor only comment), comment lines and
// files for each package, and fails when a total exceeds its limit.
//
// Generated code, which has the standard comment for it, is counted apart.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// count is what a number of files have.
type count struct{ code, comments, files int }

func (c count) plus(d count) count {
	return count{c.code + d.code, c.comments + d.comments, c.files + d.files}
}

func main() {
	maxCode := flag.Int("code", 0, "limit for lines of code")
	maxFiles := flag.Int("files", 0, "limit for files in a package")
	minComments := flag.Float64("comments", 0, "least percentage of comment lines, of the lines of code")
	flag.Parse()
	problems, err := run(flag.Args(), *maxCode, *maxFiles, *minComments)
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "lines:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// run counts files, prints the table, and returns the limits that are exceeded.
func run(files []string, maxCode, maxFiles int, minComments float64) (problems []string, err error) {
	packages := map[string]count{}
	var total, generated count
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		c := countLines(source)
		if ast.IsGenerated(file) {
			generated = generated.plus(c)
			continue
		}
		total = total.plus(c)
		dir := filepath.Dir(name)
		packages[dir] = packages[dir].plus(c)
	}
	const row = "%-32s %7d %9d %6d\n"
	fmt.Printf("%-32s %7s %9s %6s\n", "package", "code", "comments", "files")
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		c := packages[dir]
		fmt.Printf(row, dir, c.code, c.comments, c.files)
		if c.files > maxFiles {
			problems = append(problems, fmt.Sprintf("%s has %d files, limit %d", dir, c.files, maxFiles))
		}
	}
	fmt.Printf(row, "total", total.code, total.comments, total.files)
	fmt.Printf(row, "generated", generated.code, generated.comments, generated.files)
	if total.code > maxCode {
		problems = append(problems, fmt.Sprintf("%d lines of code, limit %d", total.code, maxCode))
	}
	if share := 100 * float64(total.comments) / float64(max(total.code, 1)); share < minComments {
		problems = append(problems, fmt.Sprintf("comments are %.1f %% of the code, limit %.0f %%", share, minComments))
	}
	return problems, nil
}

// countLines counts the lines of one file. A line with code and a comment is code.
func countLines(source []byte) count {
	positions := token.NewFileSet()
	file := positions.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	code, comments := map[int]bool{}, map[int]bool{}
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.SEMICOLON && text == "\n" {
			continue // inserted by the scanner
		}
		lines := code
		if kind == token.COMMENT {
			lines = comments
		}
		first := positions.Position(at).Line
		for n := range 1 + strings.Count(text, "\n") {
			lines[first+n] = true
		}
	}
	maps.DeleteFunc(comments, func(line int, _ bool) bool { return code[line] })
	return count{len(code), len(comments), 1}
}
