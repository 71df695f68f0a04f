package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/internal/outbound"
)

// podFiles is where a pod finds what its service account may use.
const podFiles = "/var/run/secrets/kubernetes.io/serviceaccount"

// A connection is how a cluster is reached.
type connection struct {
	client
	name string // of the context, or "" in a pod
}

// connect finds the cluster: by a context of the kubeconfig, or where there is none, the one in whose pod this runs.
func connect(name, namespace string) (*connection, error) {
	files, said := configFiles()
	config, found, err := readConfigs(files)
	if err != nil {
		return nil, err
	}
	host := os.Getenv("KUBERNETES_SERVICE_HOST")
	switch {
	case found:
		return fromConfig(&config, name, namespace)
	case said || name != "" || host == "":
		return nil, fmt.Errorf("no kubeconfig at %s, and this is no pod: name one in KUBECONFIG", strings.Join(files, ", "))
	}
	return inPod(net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT")), podFiles, namespace)
}

// inPod uses the service account of the pod. Its token is read for each request, since it is renewed.
func inPod(host, dir, namespace string) (*connection, error) {
	if namespace == "" {
		b, err := conffile.Read(filepath.Join(dir, "namespace"), conffile.Small)
		if err != nil {
			return nil, fmt.Errorf("this pod's namespace: %w: name it, as in --to kubernetes/NAMESPACE", err)
		}
		namespace = strings.TrimSpace(string(b))
	}
	ca, err := conffile.Read(filepath.Join(dir, "ca.crt"), conffile.Bundle)
	if err != nil {
		return nil, fmt.Errorf("the certificate of this pod's cluster: %w", err)
	}
	h, err := (&cluster{}).client(ca, nil)
	if err != nil {
		return nil, err
	}
	u := &user{TokenFile: filepath.Join(dir, "token")}
	return newConnection("", "https://"+host, namespace, h, u.bearer)
}

func fromConfig(config *kubeconfig, name, namespace string) (*connection, error) {
	ctx, cl, u, err := config.chosen(name)
	if err != nil {
		return nil, err
	}
	if namespace == "" {
		if namespace = ctx.Context.Namespace; namespace == "" {
			namespace = "default"
		}
	}
	if err := u.known(); err != nil {
		return nil, fmt.Errorf("the kubeconfig's user of the context %s: %w", ctx.Name, err)
	}
	if overheard(cl.Server) && (u.Token != "" || u.TokenFile != "" || u.Exec != nil) {
		return nil, fmt.Errorf("the kubeconfig's cluster of the context %s is reached by plain http, and its user has a token, which others could read: want https", ctx.Name)
	}
	ca, err := inlineOr(cl.CAData, cl.CAFile)
	if err != nil {
		return nil, err
	}
	if u.Exec != nil {
		if u, err = u.Exec.run(context.Background(), cl, ca); err != nil {
			return nil, fmt.Errorf("the kubeconfig's user of the context %s: %w", ctx.Name, err)
		}
	}
	pair, err := u.certificate()
	if err != nil {
		return nil, err
	}
	h, err := cl.client(ca, pair)
	if err != nil {
		return nil, err
	}
	return newConnection(ctx.Name, cl.Server, namespace, h, u.bearer)
}

// overheard reports whether others can read what is sent to a server.
func overheard(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// known refuses ways to log in that this package does not know. To go on without them would be somebody else's login.
func (u *user) known() error {
	switch {
	case u.Provider != nil:
		return errors.New("auth-provider is not supported, nor by kubectl any more: use an exec plugin or a token")
	case u.Username != "":
		return errors.New("a user name and password are not supported, nor by Kubernetes any more: use a token or a certificate")
	case u.As != "":
		return errors.New("acting as another user (as) is not supported: use that user's credentials")
	}
	return nil
}

func (u *user) certificate() (*tls.Certificate, error) {
	cert, err := inlineOr(u.CertData, u.CertFile)
	if err != nil || cert == nil {
		return nil, err
	}
	key, err := inlineOr(u.KeyData, u.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("the client certificate: %w", err)
	}
	return &pair, nil
}

// bearer adds the token to a request. Without one the certificate says who asks.
func (u *user) bearer(req *http.Request) error {
	token := u.Token
	if u.TokenFile != "" {
		b, err := conffile.Read(u.TokenFile, conffile.Small)
		if err != nil {
			return fmt.Errorf("the token: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

func (cl *cluster) client(ca []byte, pair *tls.Certificate) (*outbound.Client, error) {
	o := outbound.Options{Proxy: http.ProxyFromEnvironment, Reuse: true}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cl.ServerName, InsecureSkipVerify: cl.Insecure}
	if ca != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(ca) {
			return nil, errors.New("the cluster's certificate authority is no PEM certificate")
		}
		o.TLS.RootCAs = pool
	}
	if pair != nil {
		o.TLS.Certificates = []tls.Certificate{*pair}
	}
	if cl.Proxy != "" {
		u, err := url.Parse(cl.Proxy)
		if err != nil || u.Host == "" {
			return nil, errors.New("the cluster's proxy-url is no address")
		}
		o.Proxy = http.ProxyURL(u)
	}
	return outbound.New(o), nil
}

func newConnection(name, server, namespace string, h *outbound.Client, authorize func(*http.Request) error) (*connection, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, errors.New("the cluster's server is no http address")
	}
	if !objectName().MatchString(namespace) {
		return nil, fmt.Errorf("namespace %q: want a name of a-z, 0-9 and -", namespace)
	}
	return &connection{name: name, client: client{http: h, base: strings.TrimSuffix(server, "/"), namespace: namespace,
		authorize: authorize, patience: patience, pause: pause}}, nil
}
