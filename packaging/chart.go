package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
)

// chart writes a chart for Helm, with the version in it.
func (r *release) chart() error {
	data, err := r.packedChart(filepath.Join(r.source, "packaging", "files", "chart"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "dibs-"+r.version+".tgz"), data, 0o644)
}

// packedChart is the folder of a chart as helm package packs it: below the chart's name, in the order of the names.
func (r *release) packedChart(folder string) ([]byte, error) {
	var t layout
	t.open(r)
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			text = bytes.Replace(text, []byte("version: 0.0.0 # make dist writes the version here"), []byte("version: "+r.version), 1)
			text = bytes.Replace(text, []byte(`appVersion: "0.0.0"`), []byte(`appVersion: "`+r.version+`"`), 1)
		}
		t.file("dibs/"+filepath.ToSlash(name), text, 0o644)
		return nil
	})
	if err != nil {
		return nil, err
	}
	plain, err := t.close()
	if err != nil {
		return nil, err
	}
	return zipped(plain), nil
}
