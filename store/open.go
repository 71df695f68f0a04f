package store

import "context"

// OpenURL parses an address and opens it with a store package's OpenConfig. Each store's Open uses it. Its error
// shows no password.
func OpenURL(ctx context.Context, url string, open func(context.Context, Config) (*Store, error)) (*Store, error) {
	c, err := Parse(url)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, c)
	return s, c.Scrub(err)
}
