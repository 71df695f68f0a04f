// Package scope has systemd put what a service of dibs's starts into scopes: units of their own beside the service. A
// stop of the service, whose KillMode is control-group by default, then signals dibs alone, which drains and ends its
// commands itself.
//
//	system.slice ─┬─ dibs.service ─ dibs serve
//	              └─ dibs-shop.cleanup-RUN.scope ─┬─ warden, guardian
//	                                              └─ dibs-RUN-… ─ the command (made by run/command)
//
// A scope is asked of systemd for each command, over D-Bus (StartTransientUnit): of the system's manager by
// root, over systemd's own socket, else over the bus; of a user's manager by that user. Any other user may not
// ask, and the unit's KillMode decides. It is in the service's slice, has the service's limits and its fences
// of devices and addresses, which are a control group's and so would not follow a process out of it (see
// limits), is ordered so that a shutdown stops the service first, and goes when it is empty.
package scope
