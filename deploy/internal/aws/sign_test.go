package aws

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// What AWS's published test suite of Signature Version 4 expects, and for the last two what its SDK for Go writes.
func TestSignatures(t *testing.T) {
	now := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	for _, c := range []struct {
		name, method, address, body, service, region, token string
		header                                              http.Header
		want                                                string
	}{
		{name: "get-vanilla", method: "GET", address: "https://example.amazonaws.com/", service: "service", region: "us-east-1",
			want: "SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{name: "post-vanilla", method: "POST", address: "https://example.amazonaws.com", service: "service", region: "us-east-1",
			want: "SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{name: "get-vanilla-query-order-key-case", method: "GET", address: "https://example.amazonaws.com/?Param2=value2&Param1=value1", service: "service", region: "us-east-1",
			want: "SignedHeaders=host;x-amz-date, Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		{name: "the guide's ListUsers", method: "GET", address: "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", service: "iam", region: "us-east-1",
			header: http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}},
			want:   "SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
		{name: "an ARN in the path", method: "GET", token: "token+/=", service: "scheduler", region: "eu-central-1",
			address: "https://scheduler.eu-central-1.amazonaws.com/tags/arn%3Aaws%3Ascheduler%3Aeu-central-1%3A123456789012%3Aschedule-group%2Fdibs-shop",
			want:    "SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=db144bde9b5fa94c7e9e6b731d73b3ed3b9d63bc14276da193c1f6e447d65ed2"},
		{name: "a token in the query", method: "GET", token: "token+/=", service: "scheduler", region: "eu-central-1",
			address: "https://scheduler.eu-central-1.amazonaws.com/schedules?NextToken=a%2Bb%2F%3D%3D&MaxResults=100&ScheduleGroup=dibs-shop",
			want:    "SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=a73dc49ffd731e904c23d03ab122758e468e37a1d2cba12d7728061c4f7f6f33"},
	} {
		r, err := http.NewRequest(c.method, c.address, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range c.header {
			r.Header[name] = values
		}
		sign(r, []byte(c.body), Keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", c.token}, c.region, c.service, now)
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/" + c.region + "/" + c.service + "/aws4_request, " + c.want
		if got := r.Header.Get("Authorization"); got != want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, want)
		}
	}
}
