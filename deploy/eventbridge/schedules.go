package eventbridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/aws"
)

// tagKey is the tag by which a group is dibs's; its value is the app.
const tagKey = "dibs:app"

// Schedules are the schedules of an app in EventBridge Scheduler. It is safe for concurrent use.
type Schedules struct {
	app, group string
	options    Options
	client     *aws.Client
	mu         sync.Mutex // held by an apply
	settle     time.Duration
}

var _ deploy.Target = (*Schedules)(nil)

// New returns the target of an app. It calls nothing yet. It looks for credentials where AWS's own tools do.
func New(app string, o Options) (*Schedules, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if o.Region = cmp.Or(o.Region, aws.Region()); !region().MatchString(o.Region) {
		return nil, fmt.Errorf("region %q: want one such as eu-central-1, here or in AWS_REGION", o.Region)
	}
	return &Schedules{app: app, group: groupOf(app), options: o, settle: time.Second,
		client: &aws.Client{Service: "scheduler", Region: o.Region, Endpoint: o.Endpoint}}, nil
}

// String returns the region and the group.
func (t *Schedules) String() string { return "eventbridge " + t.options.Region + "/" + t.group }

// Lock excludes other applies of this process; AWS has no lock. See Write.
func (t *Schedules) Lock(context.Context) (func(), error) {
	t.mu.Lock()
	return t.mu.Unlock, nil
}

// call makes one call of the API.
func (t *Schedules) call(ctx context.Context, c aws.Call) error { return t.client.Do(ctx, c) }

// Read reads the app's group. A group of that name without the tag is an error: it belongs to somebody else.
func (t *Schedules) Read(ctx context.Context) (deploy.Image, error) { return t.read(ctx) }

func (t *Schedules) read(ctx context.Context) (m *image, err error) {
	m = &image{of: t}
	if m.exists, err = t.readGroup(ctx); err != nil {
		return nil, err
	}
	if m.exists {
		if m.items, err = t.list(ctx, url.Values{"ScheduleGroup": {t.group}}); err != nil {
			return nil, err
		}
	}
	if t.options.Elsewhere {
		all, err := t.list(ctx, url.Values{"NamePrefix": {"cronix-" + t.app + "-"}})
		if err != nil {
			return nil, err
		}
		m.items = append(m.items, slices.DeleteFunc(all, func(i item) bool {
			return i.group == t.group || !strings.HasPrefix(i.description, cronixMark+"app="+t.app+" ")
		})...)
	}
	sortItems(m.items)
	return m, nil
}

func (t *Schedules) readGroup(ctx context.Context) (exists bool, err error) {
	var group struct{ Arn, State string }
	err = t.call(ctx, aws.Call{Operation: "GetScheduleGroup", Method: http.MethodGet, Path: []string{"schedule-groups", t.group}, Out: &group})
	switch {
	case aws.Is(err, "ResourceNotFoundException"):
		return false, nil
	case err != nil:
		return false, err
	case group.State == "DELETING":
		return false, fmt.Errorf("the group %s is being deleted: wait until it is gone", t.group)
	}
	var has struct{ Tags []tag }
	if err := t.call(ctx, aws.Call{Operation: "ListTagsForResource", Method: http.MethodGet, Path: []string{"tags", group.Arn}, Out: &has}); err != nil {
		return false, err
	}
	if !slices.Contains(has.Tags, tag{tagKey, t.app}) {
		return false, fmt.Errorf("the group %s is there without the tag %s=%s, so it is not dibs's: delete it, or tag it if it is this app's", t.group, tagKey, t.app)
	}
	return true, nil
}

type tag struct{ Key, Value string }

// list reads the schedules that a query names, each whole: a list has no more than their names.
func (t *Schedules) list(ctx context.Context, q url.Values) (all []item, err error) {
	q.Set("MaxResults", "100")
	for {
		var page struct {
			NextToken string
			Schedules []struct{ GroupName, Name string }
		}
		if err := t.call(ctx, aws.Call{Operation: "ListSchedules", Method: http.MethodGet, Path: []string{"schedules"}, Query: q, Out: &page}); err != nil {
			return nil, err
		}
		for _, s := range page.Schedules {
			i, err := t.get(ctx, s.GroupName, s.Name)
			if aws.Is(err, "ResourceNotFoundException") {
				continue // it went meanwhile
			} else if err != nil {
				return nil, err
			}
			all = append(all, i)
		}
		if page.NextToken == "" {
			return all, nil
		}
		q.Set("NextToken", page.NextToken)
	}
}

func (t *Schedules) get(ctx context.Context, group, name string) (item, error) {
	var has struct {
		definition
		Description string
	}
	err := t.call(ctx, aws.Call{Operation: "GetSchedule", Method: http.MethodGet, Path: []string{"schedules", name}, Query: url.Values{"groupName": {group}}, Out: &has})
	return item{group, name, has.Description, has.definition.normal()}, err
}

// Write makes what is new, changes what differs, and then deletes what goes: an entry that is taken over may fire
// twice within these milliseconds, and is never missing. It ends by reading all of it back: another apply at the same
// time is noticed by at least one of the two.
func (t *Schedules) Write(ctx context.Context, from, to deploy.Image) error {
	was, is := from.(*image), to.(*image)
	now, err := t.read(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(now.Documents(), was.Documents()) {
		return fmt.Errorf("%w; nothing was written: plan again", deploy.ErrChanged)
	}
	if err := t.write(ctx, was, is); err != nil {
		if aws.Is(err, "ConflictException") {
			err = fmt.Errorf("%w: %w", err, deploy.ErrChanged)
		}
		return fmt.Errorf("%w; what was written before that stays, and the next apply goes on", err)
	}
	return t.check(ctx, is)
}

func (t *Schedules) write(ctx context.Context, was, is *image) error {
	if is.exists && !was.exists {
		if err := t.makeGroup(ctx); err != nil {
			return err
		}
	}
	old := map[string]item{}
	for _, i := range was.items {
		old[i.where()] = i
	}
	for _, i := range is.items {
		before, there := old[i.where()]
		delete(old, i.where())
		var err error
		switch {
		case !there:
			err = t.put(ctx, "CreateSchedule", http.MethodPost, i)
		case before.text() != i.text():
			err = t.put(ctx, "UpdateSchedule", http.MethodPut, i)
		}
		if err != nil {
			return err
		}
	}
	for _, i := range was.items {
		if _, gone := old[i.where()]; gone {
			if err := t.delete(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Schedules) makeGroup(ctx context.Context) error {
	in := struct {
		ClientToken string
		Tags        []tag
	}{rand.Text(), []tag{{tagKey, t.app}}}
	return t.call(ctx, aws.Call{Operation: "CreateScheduleGroup", Method: http.MethodPost, Path: []string{"schedule-groups", t.group}, In: in})
}

func (t *Schedules) put(ctx context.Context, operation, method string, i item) error {
	in := struct {
		ClientToken string
		GroupName   string
		Description string `json:",omitempty"`
		definition
	}{rand.Text(), i.group, i.description, i.definition}
	err := t.call(ctx, aws.Call{Operation: operation, Method: method, Path: []string{"schedules", i.name}, In: in})
	if err != nil {
		return fmt.Errorf("%s: %w", i.where(), err)
	}
	return nil
}

func (t *Schedules) delete(ctx context.Context, i item) error {
	err := t.call(ctx, aws.Call{Operation: "DeleteSchedule", Method: http.MethodDelete, Path: []string{"schedules", i.name},
		Query: url.Values{"groupName": {i.group}, "clientToken": {rand.Text()}}})
	if err != nil && !aws.Is(err, "ResourceNotFoundException") {
		return fmt.Errorf("%s: %w", i.where(), err)
	}
	return nil
}

// check reads back what was written. A list may lag, so it looks a few times.
func (t *Schedules) check(ctx context.Context, is *image) error {
	for range 3 {
		now, err := t.read(ctx)
		if err != nil {
			return fmt.Errorf("it is written, and could not be read back: %w", err)
		}
		if slices.Equal(now.Documents(), is.Documents()) {
			return nil
		}
		select {
		case <-time.After(t.settle):
		case <-ctx.Done():
			return errors.Join(errNotWhole, ctx.Err())
		}
	}
	return fmt.Errorf("%w: %w", errNotWhole, deploy.ErrChanged)
}

var errNotWhole = errors.New("it is written, and what is there now is something else: another apply may be at work; apply again")
