package scope

import (
	"fmt"
	"math"

	"github.com/godbus/dbus/v5"
)

// A property is one of a unit, as systemd is told it.
type property struct {
	Name  string
	Value dbus.Variant
}

// The forms of properties that are lists.
type (
	perDevice struct {
		Path  string
		Value uint64
	}
	pair    struct{ First, Second string }
	address struct {
		Family  int32
		Address []byte
		Prefix  uint32
	}
	socket struct {
		Family, Protocol int32
		Count, From      uint16
	}
	interfaces struct {
		Allow bool
		Names []string
	}
)

// A reader reads a property, and says whether it says anything.
type reader func(dbus.Variant) (value dbus.Variant, says bool, err error)

// inherited are the properties of a service that a scope beside it gets too: bounds of what processes may use,
// and fences that a control group puts around them. What protects the service from others (MemoryMin=) is the
// service's alone. A bound holds for each scope; one for all of them together is a slice's matter.
var inherited = map[string]reader{
	"CPUWeight":                 as(bounds),
	"StartupCPUWeight":          as(bounds),
	"CPUQuotaPerSecUSec":        as(bounds),
	"CPUQuotaPeriodUSec":        as(bounds),
	"AllowedCPUs":               as(some[byte]),
	"StartupAllowedCPUs":        as(some[byte]),
	"AllowedMemoryNodes":        as(some[byte]),
	"StartupAllowedMemoryNodes": as(some[byte]),
	"MemoryHigh":                as(bounds),
	"MemoryMax":                 as(bounds),
	"MemorySwapMax":             as(bounds),
	"MemoryZSwapMax":            as(bounds),
	"TasksMax":                  as(func(uint64) bool { return true }), // a scope's own default is a bound
	"IOWeight":                  as(bounds),
	"StartupIOWeight":           as(bounds),
	"IODeviceWeight":            as(some[perDevice]),
	"IOReadBandwidthMax":        as(some[perDevice]),
	"IOWriteBandwidthMax":       as(some[perDevice]),
	"IOReadIOPSMax":             as(some[perDevice]),
	"IOWriteIOPSMax":            as(some[perDevice]),
	"IODeviceLatencyTargetUSec": as(some[perDevice]),
	"DevicePolicy":              as(func(s string) bool { return s != "auto" }),
	"DeviceAllow":               as(some[pair]),
	"IPAddressAllow":            as(some[address]),
	"IPAddressDeny":             as(some[address]),
	"IPIngressFilterPath":       as(some[string]),
	"IPEgressFilterPath":        as(some[string]),
	"BPFProgram":                as(some[pair]),
	"SocketBindAllow":           as(some[socket]),
	"SocketBindDeny":            as(some[socket]),
	"RestrictNetworkInterfaces": as(func(i interfaces) bool { return len(i.Names) > 0 }),
}

func bounds(n uint64) bool { return n != math.MaxUint64 }

func some[T any](all []T) bool { return len(all) > 0 }

func as[T any](says func(T) bool) reader {
	return func(v dbus.Variant) (dbus.Variant, bool, error) {
		var to T
		if err := v.Store(&to); err != nil {
			return v, false, err
		}
		return dbus.MakeVariant(to), says(to), nil
	}
}

// limits are what a scope inherits of a service. An error is that something cannot be read: then a scope might let out
// what the service keeps in.
func limits(service map[string]dbus.Variant) (all []property, err error) {
	for name, read := range inherited {
		v, ok := service[name]
		if !ok {
			continue // this systemd has no such property
		}
		value, says, err := read(v)
		if err != nil {
			return nil, fmt.Errorf("the service's %s cannot be read: %w", name, err)
		}
		if says {
			all = append(all, property{name, value})
		}
	}
	return all, nil
}
