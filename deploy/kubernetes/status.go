package kubernetes

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

// A refusal is an answer of the API server that is no success.
type refusal struct {
	code    int
	message string
	causes  []string // of fields
	cure    string
}

func (r *refusal) Error() string {
	msg := fmt.Sprintf("the API server answers %d %s", r.code, http.StatusText(r.code))
	if r.message != "" {
		msg += ": " + r.message
	}
	if len(r.causes) > 0 {
		msg += " (" + strings.Join(r.causes, "; ") + ")"
	}
	if r.cure != "" {
		msg += ": " + r.cure
	}
	return msg
}

// Unwrap is ErrChanged where somebody else was there between the plan and the write.
func (r *refusal) Unwrap() error {
	if r.code == http.StatusConflict {
		return deploy.ErrChanged
	}
	return nil
}

// refused reads an answer that is no success. The server's text is cut and has no control characters.
func refused(code int, body []byte, namespace string) *refusal {
	r := &refusal{code: code}
	if v, err := decode(body); err == nil {
		r.message = clean(text(v, "message"))
		causes, _ := at(v, "details", "causes").([]any)
		for _, c := range causes[:min(len(causes), 5)] {
			r.causes = append(r.causes, clean(text(c, "field")+": "+text(c, "message")))
		}
	}
	switch code {
	case http.StatusUnauthorized:
		r.cure = "it does not accept these credentials: log in again, or name another context, as in --to kubernetes:CONTEXT"
	case http.StatusForbidden:
		r.cure = fmt.Sprintf("these credentials need the verbs list, create, patch and delete for cronjobs of batch in the namespace %s", namespace)
	case http.StatusNotFound:
		r.cure = fmt.Sprintf("is there a namespace %s? Make it, or name another, as in --to kubernetes/NAMESPACE", namespace)
	case http.StatusConflict:
		r.cure = "somebody else changed it: plan again; --overwrite takes back what was changed by hand"
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		r.cure = "it is overloaded or ill: apply again later, which goes on where this one ended"
	}
	return r
}

func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + "…"
	}
	return s
}
