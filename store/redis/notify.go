package redis

import (
	"context"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/lease"
)

// notifier fulfils lease.Notifier, and tells of queues, over one connection that is made when it is first needed.
// Each key and each queue has a channel: a process hears only of those that it waits for.
type notifier struct {
	*db
	mu     sync.Mutex
	sub    *goredis.PubSub
	topics map[string]*topic // by the channel's name without the prefix
}

// A topic is one key, or queue, for which somebody waits.
type topic struct {
	ready    chan struct{} // closed when the server has confirmed the subscription
	watchers map[chan struct{}]bool
}

func newNotifier(d *db) *notifier { return &notifier{db: d, topics: make(map[string]*topic)} }

// Watch returns when the server has confirmed the subscription: a release after that is not missed while the
// connection lasts. After a lost connection is back, all watchers are woken.
func (n *notifier) Watch(ctx context.Context, key lease.Key) (<-chan struct{}, error) {
	return n.watch(ctx, []string{"free:" + string(key)})
}

func (n *notifier) watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	c := make(chan struct{}, 1)
	for _, name := range names {
		t, err := n.join(ctx, name, c)
		context.AfterFunc(ctx, func() { n.leave(name, c) })
		if err == nil {
			err = t.await(ctx)
		}
		if err != nil {
			for _, name := range names {
				n.leave(name, c)
			}
			return nil, n.wrap("watch", err)
		}
	}
	return c, nil
}

// await returns when the server has confirmed the subscription.
func (t *topic) await(ctx context.Context) error {
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *notifier) join(ctx context.Context, name string, c chan struct{}) (*topic, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sub == nil {
		n.sub = n.client.Subscribe(context.WithoutCancel(ctx))
		go n.deliver(n.sub.ChannelWithSubscriptions())
	}
	t := n.topics[name]
	if t != nil {
		t.watchers[c] = true
		return t, nil
	}
	t = &topic{ready: make(chan struct{}), watchers: map[chan struct{}]bool{c: true}}
	n.topics[name] = t
	return t, n.sub.Subscribe(ctx, n.prefix+name)
}

func (n *notifier) leave(name string, c chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.topics[name]
	if t == nil || !t.watchers[c] {
		return
	}
	delete(t.watchers, c)
	if len(t.watchers) == 0 {
		delete(n.topics, name)
		if n.sub != nil {
			_ = n.sub.Unsubscribe(context.Background(), n.prefix+name)
		}
	}
}

// deliver ends when the connection is closed for good.
func (n *notifier) deliver(messages <-chan any) {
	for m := range messages {
		switch m := m.(type) {
		case *goredis.Message:
			n.wake(m.Channel, false)
		case *goredis.Subscription:
			if m.Kind == "subscribe" {
				n.wake(m.Channel, true)
			}
		}
	}
}

// wake wakes the watchers of a channel. A watcher whose subscription is new, or again there, may have missed a
// release.
func (n *notifier) wake(channel string, subscribed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.topics[strings.TrimPrefix(channel, n.prefix)]
	if t == nil {
		return
	}
	if subscribed {
		select {
		case <-t.ready:
		default:
			close(t.ready)
			return
		}
	}
	for c := range t.watchers {
		select {
		case c <- struct{}{}:
		default: // it has yet to look at the last one
		}
	}
}

func (n *notifier) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sub == nil {
		return nil
	}
	err := n.sub.Close()
	n.sub, n.topics = nil, make(map[string]*topic)
	return err
}
