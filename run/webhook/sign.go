package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// SignatureHeader carries the signature of a request.
const SignatureHeader = "X-Cron-Signature"

// Sign is the header's value: HMAC-SHA256 over "<t>.<METHOD>.<path and query as sent>.<body>", with t in Unix
// seconds and the method in capitals. It is made anew for each attempt, since a verifier refuses a time that is
// more than 300 s off. The scheme is that of the cron-manifest protocol, version 1.
func Sign(secret []byte, at time.Time, method, target string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%d.%s.%s.", at.Unix(), strings.ToUpper(method), target)
	mac.Write(body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}
