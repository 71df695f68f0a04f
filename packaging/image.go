package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// A blob is a file of an image layout, named by its hash.
type blob struct {
	MediaType string            `json:"mediaType"`
	Digest    string            `json:"digest"`
	Size      int               `json:"size"`
	Platform  map[string]string `json:"platform,omitempty"`
	data      []byte
}

func newBlob(kind string, data []byte) blob {
	return blob{MediaType: "application/vnd.oci.image." + kind, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data)), Size: len(data), data: data}
}

func jsonBlob(kind string, value any) (blob, error) {
	b, err := json.Marshal(value)
	return newBlob(kind, b), err
}

// image writes an OCI image layout for both architectures as one tar: the binary, which has the zones in it, the
// certificates of Mozilla's roots, a user and two directories.
func (r *release) image() error {
	var all, manifests []blob
	for _, arch := range []string{"amd64", "arm64"} {
		blobs, err := r.imageOf(arch)
		if err != nil {
			return err
		}
		all = append(all, blobs...)
		manifests = append(manifests, blobs[len(blobs)-1])
	}
	index, err := jsonBlob("index.v1+json", map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests})
	if err != nil {
		return err
	}
	var t layout
	t.open(r)
	t.dir("blobs", 0o755, 0)
	t.dir("blobs/sha256", 0o755, 0)
	t.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
	t.file("index.json", index.data, 0o644)
	seen := map[string]bool{}
	for _, b := range all {
		if !seen[b.Digest] {
			t.file("blobs/sha256/"+b.Digest[len("sha256:"):], b.data, 0o644)
			seen[b.Digest] = true
		}
	}
	data, err := t.close()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "dibs-"+r.version+"-oci.tar"), data, 0o644)
}

// imageOf is the image for one architecture: its layer, its configuration, and last its manifest.
func (r *release) imageOf(arch string) ([]blob, error) {
	binary, err := os.ReadFile(r.binary("linux", arch))
	if err != nil {
		return nil, err
	}
	plain, err := r.layer(binary)
	if err != nil {
		return nil, err
	}
	layer := newBlob("layer.v1.tar+gzip", zipped(plain))
	config, err := jsonBlob("config.v1+json", map[string]any{"created": r.at, "os": "linux", "architecture": arch,
		"config": map[string]any{"User": "65532:65532", "Entrypoint": []string{"/usr/bin/dibs"}, "WorkingDir": "/",
			"Env":    []string{"PATH=/usr/bin", "DIBS_DIR=/var/lib/dibs", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
			"Labels": map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain))}}})
	if err != nil {
		return nil, err
	}
	manifest, err := jsonBlob("manifest.v1+json", map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config, "layers": []blob{layer}})
	manifest.Platform = map[string]string{"os": "linux", "architecture": arch}
	return []blob{layer, config, manifest}, err
}

func (r *release) layer(binary []byte) ([]byte, error) {
	var t layout
	t.open(r)
	for _, d := range []string{"etc", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "var", "var/lib"} {
		t.dir(d, 0o755, 0)
	}
	t.dir("tmp", 0o1777, 0)
	t.dir("var/lib/dibs", 0o750, 65532)
	t.file("etc/passwd", []byte("root:x:0:0::/:/sbin/nologin\ndibs:x:65532:65532::/var/lib/dibs:/sbin/nologin\n"), 0o644)
	t.file("etc/group", []byte("root:x:0:\ndibs:x:65532:\n"), 0o644)
	t.file("etc/ssl/certs/ca-certificates.crt", authorities(), 0o644)
	t.file("usr/bin/dibs", binary, 0o755)
	return t.close()
}

// authorities are Mozilla's roots, but those that are trusted within limits that a file of certificates cannot say.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // into memory
		}
	}
	return b.Bytes()
}

// layout is a tar whose files all have the release's time; the first error is close's.
type layout struct {
	r   *release
	b   bytes.Buffer
	w   *tar.Writer
	err error
}

func (t *layout) open(r *release) { t.r, t.w = r, tar.NewWriter(&t.b) }

func (t *layout) dir(name string, mode int64, owner int) {
	t.put(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: owner, Gid: owner}, nil)
}

func (t *layout) file(name string, data []byte, mode int64) {
	t.put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}, data)
}

func (t *layout) put(h *tar.Header, data []byte) {
	if h.ModTime = t.r.at; t.err == nil {
		t.err = t.w.WriteHeader(h)
	}
	if t.err == nil {
		_, t.err = t.w.Write(data)
	}
}

func (t *layout) close() ([]byte, error) {
	if t.err == nil {
		t.err = t.w.Close()
	}
	return t.b.Bytes(), t.err
}
