package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/lambda"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
)

const lambdaHelp = `Be the runtime of an AWS Lambda function: each invocation fires one job of a manifest, as dibs trigger does. EventBridge
invokes the function (dibs apply --to eventbridge:FILE, with function in FILE) with this event:

  {"job": "shop.invoices", "tick": "2026-03-01T04:15:00Z"}

The answer is the result as of dibs trigger --json. A tick that is not run here (another process has it, it is paused or
not due) is a success. A run that failed, and a store that is unavailable, are errors of the function: Lambda invokes it
again with the same event, as its configuration says, and a tick that has been run does not run again.

The run is stopped, with its grace, before the function's timeout. The jobs must be of scope global.

dibs does this also if it is started without arguments where Lambda has set AWS_LAMBDA_RUNTIME_API: so the binary itself
can be the bootstrap of a function with the runtime provided.al2023. The manifest is then in DIBS_MANIFEST, and the
store's address in DIBS_STORE. To give flags, let a script be the bootstrap:

  exec /var/task/dibs lambda --manifest /var/task/jobs.yaml --environment production`

func newLambda(e env) *cobra.Command {
	o := triggerOptions{}
	cmd := &cobra.Command{Use: "lambda", Short: "Be the runtime of an AWS Lambda function that fires jobs", Long: lambdaHelp,
		Example: "  dibs lambda --manifest /var/task/jobs.yaml",
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLambda(cmd.Context(), e, o) }}
	storeFlag(cmd, &o.store)
	o.sourceOptions.flags(cmd)
	manifestFlags(cmd, &o.serveOptions)
	return cmd
}

// asLambda is the command line of a process that Lambda has started as bootstrap.
func asLambda(args []string) []string {
	if len(args) == 0 && os.Getenv(lambda.Variable) != "" {
		return []string{"lambda"}
	}
	return args
}

// lambdaDir is this host's own directory in a function: Lambda lets nothing else be written.
const lambdaDir = "/tmp/dibs"

func runLambda(ctx context.Context, e env, o triggerOptions) error {
	at := os.Getenv(lambda.Variable)
	if at == "" {
		return usage(fmt.Errorf("%s is not set: AWS Lambda sets it, so only Lambda starts this", lambda.Variable))
	}
	if os.Getenv("DIBS_DIR") == "" {
		if err := os.Setenv("DIBS_DIR", lambdaDir); err != nil {
			return err
		}
	}
	runtime := lambda.New(at)
	if o.source == "" || o.source == "-" {
		err := usage(errors.New("no manifest: name a file, a directory or an address in DIBS_MANIFEST, or with --manifest"))
		return errors.Join(err, runtime.InitFailed(err))
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return runtime.Serve(ctx, func(inner context.Context, in lambda.Invocation) (any, error) {
		return invoked(ctx, inner, e, o, in)
	})
}

// A lambdaEvent is what EventBridge sends.
type lambdaEvent struct {
	Job  string `json:"job"`
	Tick string `json:"tick"`
}

func readEvent(text []byte) (ev lambdaEvent, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&ev); err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("more follows")
		}
	}
	if err == nil {
		_, err = time.Parse(time.RFC3339, ev.Tick)
	}
	if err != nil || strings.Count(strings.Replace(ev.Job, "/", ".", 1), ".") != 1 {
		return ev, fmt.Errorf(`the event is %.200q: want {"job": "APP.JOB", "tick": "2026-03-01T04:15:00Z"}`, text)
	}
	return ev, nil
}

const (
	// lambdaMargin is what is left of an invocation to record how the run ended, after its grace.
	lambdaMargin = 3 * time.Second
	// answerMargin is what is left of it for the answer.
	answerMargin = time.Second
)

// invoked fires one tick. Nothing of it is left when it returns: Lambda then freezes the process, and no lease could
// be renewed. told ends when this process is told to end; inner ends with the invocation.
func invoked(told, inner context.Context, e env, o triggerOptions, in lambda.Invocation) (any, error) {
	ev, err := readEvent(in.Event)
	if err != nil {
		return nil, &lambda.Failure{Type: "Dibs.BadEvent", Err: err}
	}
	inner, cancel := context.WithDeadline(inner, in.Deadline.Add(-answerMargin))
	defer cancel()
	o.tick = ev.Tick
	t := trigger{options: o, env: e}
	if err := t.prepare(inner, e, ev.Job); err != nil {
		return nil, &lambda.Failure{Type: "Dibs.Refused", Err: err}
	}
	defer t.job.Close(inner)
	policy := t.job.Spec().Policy
	if policy.Scope != job.Global {
		return nil, &lambda.Failure{Type: "Dibs.Refused", Err: fmt.Errorf("%s: its concurrency_scope is host, and each "+
			"instance of a function is a host of its own, so it would guard nothing: make it global, or give --default-scope global", ev.Job)}
	}
	left := time.Until(in.Deadline) - policy.StopGrace - lambdaMargin
	if left <= 0 {
		return nil, &lambda.Failure{Type: "Dibs.Refused", Err: fmt.Errorf("%s: the function's timeout leaves no time to run "+
			"it: set it to more than stop_grace_seconds (%s) and %s", ev.Job, policy.StopGrace, lambdaMargin)}
	}
	accept, stopAccept := context.WithTimeout(told, left)
	defer stopAccept()
	work, stopWork := context.WithCancelCause(context.Background())
	defer stopWork(nil)
	defer context.AfterFunc(accept, func() { stopWork(run.ErrShutdown) })()
	rep := t.fire(accept, work)
	rep.ExitStatus = t.status(&rep)
	t.job.Tidy(inner)
	if rep.ExitStatus != 0 {
		if rep.err == nil {
			rep.err = fmt.Errorf("%s: %s", rep.Key, rep.Outcome)
		}
		fmt.Fprintf(e.stderr, "dibs: %v\n", rep.err)
		kind := camel(string(rep.Outcome))
		if rep.Outcome == run.Failed && rep.RunID == "" { // nothing ran, such as for a tick in the future
			kind = "Refused"
		}
		return nil, &lambda.Failure{Type: "Dibs." + kind, Err: rep.err}
	}
	return rep, nil
}

// camel is an outcome as Lambda's types of errors are written: TimedOut.
func camel(outcome string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(outcome, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
