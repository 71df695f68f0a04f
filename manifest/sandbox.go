package manifest

import (
	"path"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/job"
)

var sandboxPathRule = ruleOf(`^-?/[A-Za-z0-9_.,@+/-]{0,500}$`,
	"%q: want an absolute path of letters, digits and _ . , @ + -, with - in front if it may be missing")

// sandboxShape are the properties of systemd's services that leave dibs able to do its work: it runs in the same unit
// as the command. So there is none that takes the network, other processes, control groups or rights of root.
func sandboxShape() *shape {
	paths := func(about string) *shape { return listOf(about, 1, maxWindows, textOf("", sandboxPathRule)) }
	flag := func(name, about string) prop { return prop{name, false, flagOf(about)} }
	return objectOf("What systemd takes away from the command; only dibs apply --to systemd can.",
		flag("NoNewPrivileges", "No sudo, and no other program that gives rights."),
		flag("PrivateTmp", "A /tmp and /var/tmp of its own."),
		flag("PrivateDevices", "No devices but /dev/null and the like."),
		prop{"ProtectSystem", false, wordOf("Read only: full: /usr, /boot and /etc; strict: everything but ReadWritePaths.", "full", "strict")},
		prop{"ProtectHome", false, wordOf("/home, /root and /run/user: read-only, or empty (tmpfs).", "read-only", "tmpfs")},
		flag("ProtectKernelTunables", "/proc/sys and /sys are read only."),
		flag("ProtectKernelModules", "No kernel modules."),
		flag("ProtectKernelLogs", "No kernel log."),
		flag("ProtectClock", "No setting of clocks."),
		flag("ProtectHostname", "No change of the host's name."),
		flag("RestrictNamespaces", "No namespaces."),
		flag("RestrictRealtime", "No realtime scheduling."),
		flag("RestrictSUIDSGID", "No making of setuid files."),
		flag("LockPersonality", "No other execution domain."),
		flag("MemoryDenyWriteExecute", "No memory that is both written and executed: interpreters with a JIT compiler fail."),
		prop{"ReadWritePaths", false, paths("Exceptions from ProtectSystem and ReadOnlyPaths.")},
		prop{"ReadOnlyPaths", false, paths("Paths that are read only.")},
		prop{"InaccessiblePaths", false, paths("Paths that are empty.")})
}

// sandbox reads the properties as a unit has them. A flag that is false is as none.
func (r *reader) sandbox(o fields) job.Sandbox {
	s := job.Sandbox{}
	for name, f := range o.all {
		if f.node == nil {
			continue
		}
		switch f.node.kind {
		case boolean:
			if f.node.text == "true" {
				s[name] = []string{"true"}
			}
		case text:
			s[name] = []string{f.node.text}
		case list:
			for _, item := range items(f) {
				path, _ := r.text(item)
				s[name] = append(s[name], path)
			}
		}
	}
	for _, f := range items(o.all["ReadOnlyPaths"]) {
		text, _ := r.text(f)
		same := func(other string) bool { return sandboxPath(other) == sandboxPath(text) }
		if slices.ContainsFunc(s["ReadWritePaths"], same) {
			r.fail(f, "%q is in ReadWritePaths as well: want it in one of them", text)
		}
	}
	if len(s) == 0 {
		return nil
	}
	return s
}

// sandboxPath is the path of an entry of a list, in its shortest form.
func sandboxPath(entry string) string { return path.Clean(strings.TrimPrefix(entry, "-")) }

// canonicalSandbox is a sandbox as a manifest has it.
func canonicalSandbox(s job.Sandbox) map[string]any {
	if len(s) == 0 {
		return nil
	}
	all := map[string]any{}
	for name, values := range s {
		switch of := described().job.prop("sandbox").prop(name); {
		case of != nil && of.kind == boolean:
			all[name] = true
		case of != nil && of.kind == list:
			all[name] = values
		default:
			all[name] = values[0]
		}
	}
	return all
}
