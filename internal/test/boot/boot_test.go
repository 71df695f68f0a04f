// Package boot boots a Debian with systemd in a virtual machine, and sees there what no container shows: the services
// of the package, timers that fire, sandboxes that forbid, and a power cut.
package boot

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

//go:embed checks.sh
var checks string

// missed is how long the machine is without power: a daily timer is due in the meantime.
const missed = 130 * time.Second

// DIBS_TEST_BOOT is a folder for the system, which a first run makes (some minutes) and later ones use again; make
// boot sets it. The deb of make dist must be there.
func TestBoot(t *testing.T) {
	work := os.Getenv("DIBS_TEST_BOOT")
	if work == "" {
		t.Skip("DIBS_TEST_BOOT names no folder for a virtual machine: make boot")
	}
	debs, err := filepath.Glob("../../../dist/dibs_*_amd64.deb")
	if err != nil || len(debs) != 1 {
		t.Fatalf("make dist first: %v, %v", debs, err)
	}
	m := machine{t, work}
	m.system()
	m.install(debs[0])
	m.boot(1)
	time.Sleep(missed)
	m.boot(2)
}

// A machine has a root folder, a disk that is made of it, and is booted from that.
type machine struct {
	*testing.T
	work string
}

func (m machine) path(name string) string { return filepath.Join(m.work, name) }

func (m machine) run(name string, args ...string) {
	m.Helper()
	if said, err := exec.CommandContext(m.Context(), name, args...).CombinedOutput(); err != nil {
		m.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said)
	}
}

// system makes a Debian, once.
func (m machine) system() {
	if _, err := os.Stat(m.path("system.tar")); err == nil {
		return
	}
	m.Log("debootstrap …")
	m.run("rm", "-rf", m.path("fresh"))
	m.run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,libpam-systemd,dbus,dbus-user-session,udev,procps,passwd,tzdata,linux-image-amd64", "bookworm", m.path("fresh"))
	m.run("tar", "-C", m.path("fresh"), "-cf", m.path("system.part"), ".")
	m.run("mv", m.path("system.part"), m.path("system.tar"))
	m.run("rm", "-rf", m.path("fresh"))
}

// install puts the package and the checks into a copy of it, and makes a disk of that.
func (m machine) install(deb string) {
	root := m.path("root")
	m.run("rm", "-rf", root)
	m.run("mkdir", "-p", root)
	m.run("tar", "-C", root, "-xf", m.path("system.tar"))
	m.run("cp", deb, filepath.Join(root, "tmp/dibs.deb"))
	m.run("chroot", root, "dpkg", "-i", "/tmp/dibs.deb")
	page, err := os.ReadFile("../../../docs/first-steps/install.md")
	if err != nil {
		m.Fatal(err)
	}
	hardened := regexp.MustCompile("(?s)```ini\n(.*?)```").FindSubmatch(page)
	if hardened == nil {
		m.Fatal("the install page has no settings to harden the service with")
	}
	for name, text := range map[string]string{
		"checks/checks.sh": checks, "checks/hardened.conf": string(hardened[1]), "etc/hostname": "guest\n", "etc/fstab": "",
		"etc/systemd/system/checks.service": "[Unit]\nAfter=multi-user.target\n[Service]\nType=idle\nExecStart=/bin/bash /checks/checks.sh ${BOOT}\n" +
			"PassEnvironment=BOOT\nStandardOutput=file:/dev/ttyS1\nStandardError=journal+console\n[Install]\nWantedBy=multi-user.target\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			m.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			m.Fatal(err)
		}
	}
	m.run("chroot", root, "systemctl", "enable", "checks.service")
	m.run("sh", "-c", fmt.Sprintf("cp %s/boot/vmlinuz-* %s && cp %s/boot/initrd.img-* %s", root, m.path("kernel"), root, m.path("initrd")))
	m.run("rm", "-f", m.path("disk"))
	m.run("mkfs.ext4", "-q", "-d", root, m.path("disk"), "3G")
	m.run("rm", "-rf", root)
}

// boot starts the machine for the nth time, and reports what its checks say. Then its power is cut. It is emulated:
// a machine that is virtual itself often has a /dev/kvm that starts nothing.
func (m machine) boot(n int) {
	m.Helper()
	log, err := os.Create(m.path(fmt.Sprintf("console.%d", n)))
	if err != nil {
		m.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(m.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "768", "-smp", "2", "-display", "none", "-no-reboot", "-nic", "none",
		"-kernel", m.path("kernel"), "-initrd", m.path("initrd"), "-drive", "file="+m.path("disk")+",format=raw,if=virtio",
		"-append", fmt.Sprintf("root=/dev/vda rw console=ttyS0 panic=-1 systemd.setenv=BOOT=%d", n),
		"-serial", "file:"+log.Name(), "-serial", "stdio")
	cmd.Stderr = log
	said, err := cmd.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	passed, ended := m.report(said, n)
	_ = cmd.Process.Kill() // the power cut
	_ = cmd.Wait()
	if !ended || passed == 0 {
		m.Fatalf("boot %d ended after %d checks; its console is in %s", n, passed, log.Name())
	}
	m.Logf("boot %d: %d checks passed", n, passed)
}

func (m machine) report(said io.Reader, n int) (passed int, ended bool) {
	m.Helper()
	for lines := bufio.NewScanner(said); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		switch name, failed := strings.CutPrefix(line, "FAIL "); {
		case failed:
			m.Errorf("boot %d: %s", n, name)
		case strings.HasPrefix(line, "PASS "):
			m.Logf("boot %d: %s", n, line)
			passed++
		case line == fmt.Sprint("END ", n):
			return passed, true
		}
	}
	return passed, false
}
