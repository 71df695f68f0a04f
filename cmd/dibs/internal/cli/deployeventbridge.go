package cli

import (
	"errors"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/eventbridge"
	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/schedule"
)

// mostOptions is the largest FILE of --to eventbridge:FILE that is read.
const mostOptions = 64 << 10

// eventBridge opens an app's schedules in EventBridge, or with --render only what writes them as a document.
func (o targetOptions) eventBridge(app, file string) (t target, err error) {
	if file == "" {
		return t, errors.New("no file that says where tasks are started: name it, as in --to eventbridge:ecs.yaml")
	}
	data, err := conffile.Read(file, mostOptions)
	if err != nil {
		return t, err
	}
	options, err := eventbridge.ParseOptions(data)
	if err != nil {
		return t, err
	}
	options.Elsewhere = o.elsewhere
	t = target{name: "EventBridge", function: options.Function != "", translate: func(s *schedule.Schedule) ([]string, bool, error) {
		tr, err := eventbridge.Translate(s)
		return tr.Lines, tr.More, err
	}}
	t.document = func(form string, entries []deploy.Entry) ([]byte, error) {
		return eventbridge.Template(form, app, entries, options)
	}
	if o.render == "" {
		t.Target, err = eventbridge.New(app, options)
	}
	return t, err
}
