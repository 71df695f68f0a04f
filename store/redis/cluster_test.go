package redis

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// A namespace lives on one node of a cluster, which refuses what touches two slots: the promises hold there,
// whichever of the nodes it is.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	open := func(ctx context.Context, c store.Config) (*store.Store, error) {
		client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: nodes, ContextTimeoutEnabled: true})
		s, err := New(ctx, client, c)
		if err != nil {
			_ = client.Close()
			return nil, err
		}
		stop := s.Close
		s.Close = func() error {
			_ = stop()
			return client.Close()
		}
		return s, nil
	}
	storetest.RunAgain(t, open, "redis://"+nodes[0])
}

// startCluster starts nodes, each with its part of the slots, and waits until all know of all.
func startCluster(t *testing.T, n int) (addresses []string) {
	t.Helper()
	var nodes []*goredis.Client
	for i := range n {
		bus := freePort(t)
		server := ownServer(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-config-file", "nodes.conf")
		c := config(t, server.URL)
		node := rawClient(t, c)
		addresses, nodes = append(addresses, c.URL.Host), append(nodes, node)
		for _, cmd := range [][]any{
			{"CLUSTER", "ADDSLOTSRANGE", 16384 * i / n, 16384*(i+1)/n - 1},
			{"CLUSTER", "SET-CONFIG-EPOCH", i + 1},
		} {
			if err := node.Do(t.Context(), cmd...).Err(); err != nil {
				t.Fatal(cmd, err)
			}
		}
		if i > 0 {
			host, port, _ := net.SplitHostPort(c.URL.Host)
			if err := nodes[0].Do(t.Context(), "CLUSTER", "MEET", host, port, bus).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, node := range nodes {
		waitFor(t, "the cluster", func() bool {
			info := node.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	return addresses
}

// freePort is one that nobody listens on. The bus's usual one, 10,000 above the node's, is none for the highest.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
