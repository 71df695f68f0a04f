package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The committed charts are those of the recorded numbers: go run . draws them.
func TestTheCommittedChartsAreDrawn(t *testing.T) {
	charts, err := parse(results)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(charts) != 4 {
		t.Errorf("%d charts, want 4", len(charts))
	}
	for _, c := range charts {
		have, err := os.ReadFile(filepath.Join(images, c.file()))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(have, c.svg()) {
			t.Errorf("%s is not what results.txt says: run go run . in bench/chart", c.file())
		}
		if !strings.Contains(string(page), c.file()) {
			t.Errorf("bench/README.md does not show %s", c.file())
		}
		for d := xml.NewDecoder(bytes.NewReader(have)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", c.file(), err)
			}
		}
	}
}

func TestWrongResultsAreRefused(t *testing.T) {
	for _, text := range []string{
		"1 2 - a bar without a chart\n",
		"a: square 0 1; t\n",
		"a: log 0 1; t\n",
		"a: linear 0 1; t\n0.2 2 - beyond the scale\n",
		"a: linear 0 1; t\n0.4 0.2 - least above most\n",
		"a: linear 0 1; t\n0.4 x - no number\n",
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
