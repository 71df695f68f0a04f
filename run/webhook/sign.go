package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// SignatureHeader is the header that has the signature of a request.
const SignatureHeader = "X-Cron-Signature"

// Sign returns the value of SignatureHeader: HMAC-SHA256 over "<t>.<METHOD>.<path and query as sent>.<body>", where
// t is at in Unix seconds and the method is in capitals. Sign anew for each attempt, because a verifier refuses a
// time that is more than 300 s off. The scheme is that of the cron-manifest protocol, version 1.
func Sign(secret []byte, at time.Time, method, target string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%d.%s.%s.", at.Unix(), strings.ToUpper(method), target)
	mac.Write(body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}
