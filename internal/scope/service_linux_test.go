package scope

import (
	"math"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestWhichServiceAProcessIsIn(t *testing.T) {
	const dir = "/sys/fs/cgroup/system.slice/dibs.service"
	for _, c := range []struct {
		text, dir string
		want      service
	}{
		{"0::/system.slice/dibs.service\n", dir, service{"dibs.service", "/system.slice/dibs.service", dir, false}},
		{"9:name=systemd:/\n2:cpu:/x.service\n0::/system.slice/dibs.service\n", dir, service{"dibs.service", "/system.slice/dibs.service", dir, false}},
		{"1:name=systemd:/system.slice/dibs.service\n0::/\n", "/sys/fs/cgroup/unified", service{"dibs.service", "/system.slice/dibs.service", "", false}},
		{"1:name=systemd:/system.slice/dibs.service\n", "", service{"dibs.service", "/system.slice/dibs.service", "", false}},
		{"0::/user.slice/user-7.slice/user@7.service/app.slice/dibs@a.service\n", "", service{"dibs@a.service", "/user.slice/user-7.slice/user@7.service/app.slice/dibs@a.service", "", true}},
		{"0::/user.slice/user-7.slice/session-3.scope\n", "", service{}},
		{"0::/system.slice/dibs.service/dibs-1-a\n", "", service{}},
		{"2:cpu:/system.slice/dibs.service\n0::/\n", "", service{}},
		{"0::/\n", "", service{}},
		{"", "", service{}},
	} {
		if got, ok := serviceOf(c.text, c.dir); got != c.want || ok != (c.want.name != "") {
			t.Errorf("%q: %+v", c.text, got)
		}
	}
}

// What says nothing is left to systemd's defaults; what cannot be read is an error, for it may be a fence.
func TestLimits(t *testing.T) {
	all, err := limits(map[string]dbus.Variant{
		"MemoryMax":                 dbus.MakeVariant(uint64(math.MaxUint64)),
		"MemorySwapMax":             dbus.MakeVariant(uint64(0)),
		"TasksMax":                  dbus.MakeVariant(uint64(math.MaxUint64)),
		"DevicePolicy":              dbus.MakeVariant("auto"),
		"IPAddressDeny":             dbus.MakeVariant([]address{}),
		"RestrictNetworkInterfaces": dbus.MakeVariant(interfaces{}),
		"MemoryMin":                 dbus.MakeVariant(uint64(5)),
	})
	got := map[string]any{}
	for _, p := range all {
		got[p.Name] = p.Value.Value()
	}
	if err != nil || len(got) != 2 || got["MemorySwapMax"] != uint64(0) || got["TasksMax"] != uint64(math.MaxUint64) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := limits(map[string]dbus.Variant{"IPAddressDeny": dbus.MakeVariant("any")}); err == nil {
		t.Error("a fence that cannot be read is left out")
	}
}
