// Chart draws the charts of bench/README.md from the ratios in results.txt. Run it in this folder after you change
// them: go run . writes one SVG a chart into ../../docs/img.
package main

import (
	_ "embed"
	"log"
	"os"
	"path/filepath"
)

//go:embed results.txt
var results string

// images is where the pages look for the charts, seen from this folder.
var images = filepath.Join("..", "..", "docs", "img")

func main() {
	log.SetFlags(0)
	charts, err := parse(results)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range charts {
		if err := os.WriteFile(filepath.Join(images, c.file()), c.svg(), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
