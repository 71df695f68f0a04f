package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"
)

// The chart has the release's version, and the same source makes the same bytes of it.
func TestTheChartHasTheVersion(t *testing.T) {
	r := &release{source: "..", version: "1.2.3-rc.1", at: time.Unix(1_700_000_000, 0)}
	pack := func() []byte {
		b, err := r.packedChart("files/chart")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	packed := pack()
	if !bytes.Equal(packed, pack()) {
		t.Error("twice, with other bytes")
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		texts[h.Name] = string(text)
		if h.Uid != 0 || h.Mode != 0o644 || !h.ModTime.Equal(r.at) {
			t.Errorf("%s: %+v", h.Name, h)
		}
	}
	about := texts["dibs/Chart.yaml"]
	if !strings.Contains(about, "\nversion: 1.2.3-rc.1\n") || !strings.Contains(about, "\nappVersion: \"1.2.3-rc.1\"\n") || strings.Contains(about, "0.0.0") {
		t.Errorf("Chart.yaml:\n%s", about)
	}
	for _, name := range []string{"dibs/values.yaml", "dibs/values.schema.json", "dibs/templates/serve.yaml", "dibs/templates/NOTES.txt"} {
		if texts[name] == "" {
			t.Errorf("no %s", name)
		}
	}
}
