package scheduler

// parts are the components of a Backend: one type for each duty. A part reads the stores and the settings from the
// Backend, and uses only parts that are above it here.
type parts struct {
	b         *Backend
	requests  requests
	recorder  recorder
	notifier  notifier
	registry  registry
	reaper    reaper
	settler   settler
	concluder concluder
	redefiner redefiner
	unsettler unsettler
	outcomes  outcomes
	outbox    outbox
	reporter  reporter
	pruner    pruner
}

// parts makes the parts at their first use. The Backend's fields are read when they are needed.
func (b *Backend) parts() *parts {
	b.partsOnce.Do(func() {
		p := &b.made
		p.b = b
		p.requests.b = b
		p.recorder.b, p.recorder.requests = b, &p.requests
		p.notifier.b = b
		p.registry = registry{b: b, requests: &p.requests, recorder: &p.recorder}
		p.reaper = reaper{b: b, recorder: &p.recorder, notifier: &p.notifier}
		p.settler = settler{b: b, registry: &p.registry, reaper: &p.reaper, notifier: &p.notifier}
		p.concluder = concluder{b: b, registry: &p.registry, settler: &p.settler, notifier: &p.notifier}
		p.redefiner = redefiner{b: b, registry: &p.registry, settler: &p.settler, concluder: &p.concluder}
		p.unsettler = unsettler{b: b, registry: &p.registry, recorder: &p.recorder}
		p.outcomes = outcomes{b: b, reaper: &p.reaper}
		p.outbox.b, p.outbox.registry, p.outbox.notifier, p.outbox.outcomes = b, &p.registry, &p.notifier, &p.outcomes
		p.reporter = reporter{b: b, outcomes: &p.outcomes, outbox: &p.outbox}
		p.pruner.b = b
	})
	return &b.made
}
