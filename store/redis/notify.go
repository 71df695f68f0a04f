package redis

import (
	"context"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/lease"
)

// notifier fulfils lease.Notifier over one connection, which is made when it is first needed. There
// is a channel per key: a process hears of the keys that it waits for, and of no others.
type notifier struct {
	*db
	mu     sync.Mutex
	sub    *goredis.PubSub
	topics map[string]*topic // by key
}

// A topic is one key that somebody waits for.
type topic struct {
	ready    chan struct{} // closed when the server has confirmed the subscription
	watchers map[chan struct{}]bool
}

func newNotifier(d *db) *notifier { return &notifier{db: d, topics: make(map[string]*topic)} }

// Watch returns when the server has confirmed that it will tell: a release after that is not missed
// as long as the connection stands. When it was down, all are woken after it is back.
func (n *notifier) Watch(ctx context.Context, key lease.Key) (<-chan struct{}, error) {
	c := make(chan struct{}, 1)
	t, err := n.join(ctx, string(key), c)
	context.AfterFunc(ctx, func() { n.leave(string(key), c) })
	if err == nil {
		select {
		case <-t.ready:
			return c, nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	n.leave(string(key), c)
	return nil, n.wrap("watch", err)
}

func (n *notifier) channel(key string) string { return n.prefix + "free:" + key }

func (n *notifier) join(ctx context.Context, key string, c chan struct{}) (*topic, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sub == nil {
		n.sub = n.client.Subscribe(context.WithoutCancel(ctx))
		go n.deliver(n.sub.ChannelWithSubscriptions())
	}
	t := n.topics[key]
	if t != nil {
		t.watchers[c] = true
		return t, nil
	}
	t = &topic{ready: make(chan struct{}), watchers: map[chan struct{}]bool{c: true}}
	n.topics[key] = t
	return t, n.sub.Subscribe(ctx, n.channel(key))
}

func (n *notifier) leave(key string, c chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.topics[key]
	if t == nil || !t.watchers[c] {
		return
	}
	delete(t.watchers, c)
	if len(t.watchers) == 0 {
		delete(n.topics, key)
		if n.sub != nil {
			_ = n.sub.Unsubscribe(context.Background(), n.channel(key))
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

// wake tells the watchers of a channel. One that is (again) subscribed may have missed a release.
func (n *notifier) wake(channel string, subscribed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.topics[strings.TrimPrefix(channel, n.channel(""))]
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
