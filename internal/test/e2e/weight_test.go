//go:build linux

package e2e

import (
	"debug/elf"
	"slices"
	"testing"
)

// A program that can execute templates calls methods by names that the linker does not know, so the linker keeps every
// exported method of every package: 12 MB more, which every start pays for. cobra executes templates only where one was
// set (SetVersionTemplate, SetHelpTemplate, SetUsageTemplate).
func TestTheLinkerLeavesOutWhatNobodyCalls(t *testing.T) {
	f, err := elf.Open(dibsBinary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	if !has("main.main") {
		t.Fatal("the binary has no symbols to look at")
	}
	if has("text/template.(*state).evalField") {
		t.Error("dibs can execute templates: find who makes it with go build -ldflags=-dumpdep ./cmd/dibs")
	}
}
