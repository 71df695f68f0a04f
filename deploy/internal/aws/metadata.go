package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// fromContainer asks the endpoint that ECS and EKS name in the environment of a container.
func fromContainer(ctx context.Context) (k Keys, ok bool, err error) {
	at := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		at = "http://169.254.170.2" + path
	}
	if at == "" {
		return k, false, nil
	}
	u, err := url.Parse(at)
	hosts := []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}
	if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && (local(u.Hostname()) || slices.Contains(hosts, u.Hostname()))) {
		return k, false, errors.New("AWS credentials: the endpoint of the container is not one of this host's, and has no TLS")
	}
	header := http.Header{}
	token := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return k, false, fmt.Errorf("AWS credentials: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	if token != "" {
		header.Set("Authorization", token)
	}
	k, err = keysFrom(ctx, at, header)
	if err != nil {
		return k, false, fmt.Errorf("AWS credentials of the container: %w", err)
	}
	return k, true, nil
}

// fromInstance asks the metadata service of EC2, version 2.
func fromInstance(ctx context.Context) (Keys, error) {
	if strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return Keys{}, errors.New("its metadata service is disabled here")
	}
	at := "http://169.254.169.254"
	if own := os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"); own != "" {
		at = strings.TrimSuffix(own, "/")
	}
	token, err := ask(ctx, http.MethodPut, at+"/latest/api/token", http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"300"}})
	if err != nil {
		return Keys{}, err
	}
	header := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token)}}
	roles := at + "/latest/meta-data/iam/security-credentials/"
	role, err := ask(ctx, http.MethodGet, roles, header)
	if err != nil {
		return Keys{}, err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(role)), "\n")
	return keysFrom(ctx, roles+url.PathEscape(name), header)
}

func keysFrom(ctx context.Context, at string, header http.Header) (k Keys, err error) {
	data, err := ask(ctx, http.MethodGet, at, header)
	if err != nil {
		return k, err
	}
	var has struct {
		ID     string `json:"AccessKeyId"`
		Secret string `json:"SecretAccessKey"`
		Token  string `json:"Token"`
	}
	if json.Unmarshal(data, &has) != nil || has.ID == "" || has.Secret == "" {
		return k, errors.New("the endpoint answers without keys")
	}
	return Keys{has.ID, has.Secret, has.Token}, nil
}

// ask does not wrap what an answer says: it may be a key.
func ask(ctx context.Context, method, at string, header http.Header) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return nil, errors.New("the endpoint's address cannot be read")
	}
	r.Header = header
	answer, data, err := near.Fetch(r, 2*time.Second, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer", r.URL.Host)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", r.URL.Host, answer.StatusCode)
	}
	return data, nil
}
