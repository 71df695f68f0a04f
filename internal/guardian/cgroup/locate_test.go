package cgroup

import "testing"

func TestLocate(t *testing.T) {
	const (
		v1      = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
		hybrid  = v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:7 - cgroup2 cgroup2 rw\n"
		unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		part    = "30 23 0:26 /docker/abc /my\\040groups rw - cgroup2 cgroup rw\n"
	)
	for _, c := range []struct{ mounts, self, want string }{
		{hybrid, "1:cpu:/x\n0::/\n", "/sys/fs/cgroup/unified"},
		{unified, "0::/\n", "/sys/fs/cgroup"},
		{unified, "0::/system.slice/cron.service\n", "/sys/fs/cgroup/system.slice/cron.service"},
		{part, "0::/docker/abc/job\n", "/my groups/job"},
		{part, "0::/docker/abc\n", "/my groups"},
		{part, "0::/docker/abcd\n", ""},
		{unified, "0::/../outside\n", ""},
		{unified, "0::/removed (deleted)\n", ""},
		{v1, "1:cpu:/x\n", ""},
		{v1, "0::/\n", ""},
		{unified, "1:cpu:/x\n", ""},
	} {
		if got := locate(c.mounts, c.self); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.self, c.mounts, got, c.want)
		}
	}
}
