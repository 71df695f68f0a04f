package redis

import (
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/lease"
)

// refusals are the error replies of a server that is there and cannot serve, with the cure.
var refusals = map[string]string{
	"LOADING":    "the server is loading its data; it will answer when that is done",
	"READONLY":   "this is a replica; point the store at the primary",
	"MASTERDOWN": "a replica that lost its primary; point the store at the primary",
	"NOREPLICAS": "the server requires more replicas than it has (min-replicas-to-write)",
	"MISCONF":    "the server cannot save to disk and so refuses writes; see its log",
	"OOM":        "the server's memory is full; raise maxmemory",
	"BUSY":       "another client's script blocks the server",
	"NOAUTH":     "the server requires a password; put it into the store's address",
	"WRONGPASS":  "user or password is wrong; correct the store's address",
	"NOPERM":     "the user lacks rights; give it the keys, the channels and the commands, INFO included, of the ACL SETUSER in docs/reference/stores.md",

	"CLUSTERDOWN": "the cluster does not serve this slot",
	"TRYAGAIN":    "the slot is being moved",
	"MOVED":       "this is a cluster; open the store with a cluster client",
	"ASK":         "this is a cluster; open the store with a cluster client",

	"ERR max number of clients reached": "raise the server's maxclients",
	"ERR invalid password":              "the password is wrong; correct the store's address",
	"ERR AUTH":                          "the server has no password, or does not know this user; correct the store's address",
	"ERR Client sent AUTH":              "the server has no password; remove it from the store's address",
	"ERR DB index is out of range":      "the server has no such database; correct the store's address",
}

// wrap says what failed. It wraps lease.ErrUnavailable if nothing was answered, or by a server that cannot serve. Any
// other error reply comes from a fault of ours, or from other data under our names.
func (d *db) wrap(what string, err error) error {
	var e goredis.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("redis %s: %s: %w: %w", d.addr, what, lease.ErrUnavailable, err)
	}
	if cure, ok := refusal(e.Error()); ok {
		return fmt.Errorf("redis %s: %s: %w: %w; %s", d.addr, what, lease.ErrUnavailable, err, cure)
	}
	return fmt.Errorf("redis %s: %s: %w", d.addr, what, err)
}

// refusal finds the code of an error reply. Redis 6 wraps that of a command within a script in words
// of its own, behind a dash; an ACL failure there has no code at all.
func refusal(message string) (cure string, ok bool) {
	for code, cure := range refusals {
		if strings.HasPrefix(message, code) || strings.Contains(message, "-"+code+" ") {
			return cure, true
		}
	}
	if strings.Contains(message, "ACL failure") || strings.Contains(message, "can't run this command") || strings.Contains(message, "no permissions") {
		return refusals["NOPERM"], true
	}
	return "", false
}
