package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dibs-run/dibs/deploy"
)

// A Cluster is the CronJobs of one namespace. It is safe for concurrent use.
type Cluster struct {
	name, namespace string
	client          *client
	mu              sync.Mutex
}

var _ deploy.Target = (*Cluster)(nil)

// New connects to a cluster: that of a context of the kubeconfig ("" is the current one) or, if there is no
// kubeconfig, the cluster of the pod that this process runs in. The default namespace is the context's, or the
// pod's. New does not call the cluster yet, but it runs an exec plugin of the kubeconfig.
func New(context, namespace string) (*Cluster, error) {
	c, err := connect(context, namespace)
	if err != nil {
		return nil, err
	}
	name := "kubernetes"
	if c.name != "" {
		name += ":" + c.name
	}
	return &Cluster{name: name + "/" + c.namespace, namespace: c.namespace, client: &c.client}, nil
}

// Split splits a target's name, the part of --to after kubernetes: ":CONTEXT", "/NAMESPACE", or both in this order.
// The name of a context may itself contain a slash.
func Split(where string) (context, namespace string, err error) {
	rest, named := strings.CutPrefix(where, ":")
	if !named {
		if where == "" {
			return "", "", nil
		}
		namespace, ok := strings.CutPrefix(where, "/")
		if !ok || namespace == "" {
			return "", "", errors.New("want kubernetes, kubernetes:CONTEXT, kubernetes/NAMESPACE or kubernetes:CONTEXT/NAMESPACE")
		}
		return "", namespace, nil
	}
	files, _ := configFiles()
	config, _, err := readConfigs(files)
	if err != nil {
		return "", "", err
	}
	if _, known := config.context(rest); known {
		return rest, "", nil
	}
	if slash := strings.LastIndexByte(rest, '/'); slash >= 0 {
		context, namespace = rest[:slash], rest[slash+1:]
	} else {
		context = rest
	}
	if context == "" || strings.HasSuffix(rest, "/") {
		return "", "", errors.New("want kubernetes:CONTEXT or kubernetes:CONTEXT/NAMESPACE")
	}
	return context, namespace, nil
}

// String returns the context and the namespace.
func (c *Cluster) String() string { return c.name }

func (c *Cluster) place(name string) string { return c.name + "/cronjobs/" + name }

// Lock excludes other applies of this process. The versions of the objects exclude those of other processes.
func (c *Cluster) Lock(context.Context) (unlock func(), err error) {
	c.mu.Lock()
	return c.mu.Unlock, nil
}

// Read lists the CronJobs of the namespace.
func (c *Cluster) Read(ctx context.Context) (deploy.Image, error) {
	all, err := c.client.list(ctx)
	if err != nil {
		return nil, err
	}
	return imageOf(c, all), nil
}

// Write has the server check everything first (dryRun), so that what it would refuse changes nothing. Then it
// applies, and deletes last. After an error a part is done, and the next Apply continues.
func (c *Cluster) Write(ctx context.Context, from, to deploy.Image) error {
	is := to.(*image)
	now, err := c.Read(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(now.Documents(), from.Documents()) {
		return fmt.Errorf("%w; nothing was written: plan again", deploy.ErrChanged)
	}
	// The versions are those of now; a fire since the plan was made changes a version, and no text.
	var removed []object
	fresh := &image{cluster: c, items: map[string]item{}}
	for name, i := range is.items {
		i.live = now.(*image).items[name].live
		fresh.items[name] = i
		if i.op == remove {
			removed = append(removed, i.live)
		}
	}
	if err := c.Check(ctx, fresh); err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	if err := c.each(ctx, fresh, false); err != nil {
		return err
	}
	c.client.gone(ctx, removed)
	return nil
}

// Check has the server check what an image would write, without writing it.
func (c *Cluster) Check(ctx context.Context, to deploy.Image) error {
	return c.each(ctx, to.(*image), true)
}

// each carries out what is to be done: new and changed CronJobs, then the others.
func (c *Cluster) each(ctx context.Context, m *image, dry bool) error {
	for _, what := range []op{put, release, remove} {
		for _, name := range m.names() {
			i := m.items[name]
			if i.op != what {
				continue
			}
			if err := c.settle(ctx, name, i, dry); err != nil {
				return fmt.Errorf("%s: cronjob %s: %w", i.id, name, err)
			}
		}
	}
	return nil
}

// settle does one thing, again where only the CronJob's status changed meanwhile.
func (c *Cluster) settle(ctx context.Context, name string, i item, dry bool) error {
	before := item{live: i.live}
	for n := 1; ; n++ {
		err := c.one(ctx, name, i, dry)
		var r *refusal
		if err == nil || i.live == nil || n == attempts || !errors.As(err, &r) || r.code != http.StatusConflict || len(r.causes) > 0 {
			return err
		}
		live, getErr := c.client.get(ctx, name)
		if getErr != nil || text(live, "metadata", "uid") != text(i.live, "metadata", "uid") || (item{live: live}).text() != before.text() {
			return err
		}
		i.live = live
	}
}

func (c *Cluster) one(ctx context.Context, name string, i item, dry bool) error {
	version := text(i.live, "metadata", "resourceVersion")
	switch i.op {
	case put:
		return c.put(ctx, name, i, version, dry)
	case release:
		meta := object{"resourceVersion": version, "labels": nothing(markLabels), "annotations": nothing(markAnnotations), "managedFields": []any{object{}}}
		_, err := c.client.merge(ctx, name, object{"metadata": meta}, dry)
		return err
	}
	return c.client.remove(ctx, i.live, dry)
}

func nothing(keys []string) object {
	m := object{}
	for _, k := range keys {
		m[k] = nil
	}
	return m
}

// put makes a CronJob, or changes the one of the version that was read. Of that one dibs gets all fields that it
// says: what others have changed in the spec was taken for an edit by hand, and what is left is the mark.
func (c *Cluster) put(ctx context.Context, name string, i item, version string, dry bool) error {
	want := clone(i.want).(object)
	meta := want["metadata"].(object)
	if i.live == nil {
		done, err := c.client.apply(ctx, want, false, dry)
		if err == nil && !dry && at(done, "metadata", "generation") != nil && at(done, "metadata", "generation") != int64(1) {
			return fmt.Errorf("%w: another apply made it at the same time, and now has this one's: plan again", deploy.ErrChanged)
		}
		return err
	}
	if !dry {
		var err error
		if version, err = c.claim(ctx, name, i, version); err != nil {
			return err
		}
	}
	meta["resourceVersion"] = version
	_, err := c.client.apply(ctx, want, true, dry)
	return err
}

// claim has dibs own what others have in the spec, and cronix's mark, so that the next apply removes what dibs does
// not say. Nothing but the owners changes yet: who is stopped here can adopt it again.
func (c *Cluster) claim(ctx context.Context, name string, i item, version string) (string, error) {
	live := i.live
	if len(managers(live)) == 0 { // the server will then say that somebody had it all before
		want := clone(i.want).(object)
		want["metadata"].(object)["resourceVersion"] = version
		will, err := c.client.apply(ctx, want, true, true)
		if err != nil {
			return "", err
		}
		live = will
	}
	all := claimed(live)
	if all == nil {
		return version, nil
	}
	meta := object{"resourceVersion": version, "managedFields": all}
	done, err := c.client.merge(ctx, name, object{"metadata": meta}, false)
	return text(done, "metadata", "resourceVersion"), err
}
