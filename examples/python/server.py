"""An application with scheduled jobs, in Python's standard library alone: it serves its manifest at
/.well-known/cron-manifest, verifies who fires its jobs, and runs each run at most once."""
import hashlib
import hmac
import json
import os
import re
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

TOLERANCE = 300  # seconds that a signature may be old, or ahead
MAX_BODY = 1 << 20
REMEMBERED = 10_000  # runs

# CRON_SECRETS has the secrets that are accepted, one per line: both, while one is being replaced.
SECRETS = [s for s in os.environ.get("CRON_SECRETS", os.environ.get("CRON_SECRET", "")).split("\n") if s]


def report(fire):
    return f"reported {fire['scheduled'] or 'at once'}\n"


def tidy(fire):
    return f"tidied in attempt {fire['attempt']}\n"


# The jobs: when they are due, and what they do. A function that raises has failed, and is tried again.
JOBS = {
    "report": {"schedule": "15 4 * * *", "timezone": "Europe/Berlin", "run": report},
    "tidy": {"schedule": "@hourly", "timezone": "UTC", "run": tidy},
}


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def verify(header, method, target, body, now):
    """Checks X-Cron-Signature over what was sent, and returns which of the secrets made it."""
    if header is None:
        raise Refused(401, "MissingSignature")
    parts = {}
    for segment in header.split(","):
        name, equals, value = segment.partition("=")
        if not equals or name.strip() in parts:  # which of two would it be?
            raise Refused(401, "MalformedHeader")
        parts[name.strip()] = value.strip()
    t, v1 = parts.get("t", ""), parts.get("v1", "")
    if not re.fullmatch(r"-?[0-9]{1,15}", t) or not re.fullmatch(r"[0-9a-f]{64}", v1):
        raise Refused(401, "MalformedHeader")
    if abs(int(now) - int(t)) > TOLERANCE:
        raise Refused(401, "StaleTimestamp")
    signed = f"{t}.{method}.{target}.".encode() + body
    which = None
    for i, secret in enumerate(SECRETS):
        if hmac.compare_digest(hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest(), v1) and which is None:
            which = i
    if which is None:
        raise Refused(401, "SignatureMismatch")
    return which


# The runs that have begun, by id: the answer of one that is done, or None while it is at work. An application of
# several processes keeps this in its database.
runs, runs_lock = {}, threading.Lock()


def fire(name, headers):
    """Does a run once, and returns its answer and whether it was done before."""
    if name not in JOBS:
        raise Refused(404, f"no job {name}")
    run_id = headers.get("X-Cron-Run-Id")
    if not run_id:
        raise Refused(400, "no X-Cron-Run-Id")
    with runs_lock:
        if run_id in runs:
            if runs[run_id] is None:
                raise Refused(503, "this run is already active")  # asked again later
            return runs[run_id], True
        runs[run_id] = None
    try:
        answer = JOBS[name]["run"]({
            "id": run_id,
            "attempt": int(headers.get("X-Cron-Attempt", "1")),
            "scheduled": headers.get("X-Cron-Fire-Time", ""),
            "token": headers.get("Dibs-Token"),
            "idempotency_key": headers.get("Idempotency-Key"),
        })
    except BaseException:
        with runs_lock:
            del runs[run_id]  # the next attempt does the work
        raise
    print(f"ran {name} run={run_id} attempt={headers.get('X-Cron-Attempt')} trace={headers.get('traceparent', '')}", flush=True)
    with runs_lock:
        runs[run_id] = answer
        if len(runs) > REMEMBERED:
            del runs[next(iter(runs))]  # the oldest
    return answer, False


def manifest(base):
    """Says what is to be fired, and where; base is how dibs reaches this server."""
    policy = {
        "concurrency": "Forbid",
        "concurrency_scope": os.environ.get("CRON_SCOPE", "global"),
        "timeout_seconds": 30,
        "retries": {"max_attempts": 3, "min_seconds": 1, "max_seconds": 10},
    }
    return {"version": 1, "app": "python-example", "jobs": [
        {
            "name": name,
            "schedule": job["schedule"],
            "timezone": job["timezone"],
            "request": {"method": "POST", "url": f"{base}/cron/{name}"},
            "policy": policy,
            "auth": {"secret_refs": ["env:CRON_SECRET"]},
        }
        for name, job in JOBS.items()
    ]}


class Handler(BaseHTTPRequestHandler):
    timeout = 30  # seconds for a request to come in

    def do_GET(self):
        self.answer()

    do_POST = do_GET

    def answer(self):
        extra = {}
        try:
            status, text, extra = self.result()
        except Refused as e:
            status, text = e.status, f"{e}\n"
            if status == 503:
                extra = {"Retry-After": "1"}
        except Exception as e:  # a job failed
            print(f"failed: {e!r}", file=sys.stderr, flush=True)
            status, text = 500, "failed\n"
        body = text.encode()
        self.send_response(status)
        for name, value in ({"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))} | extra).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def result(self):
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            raise Refused(413, "the body is too long")
        body = self.rfile.read(int(length))
        which = verify(self.headers.get("X-Cron-Signature"), self.command, self.path, body, time.time())
        if which > 0:
            print(f"signed with secret {which}: it is about to be retired", flush=True)
        path = urlsplit(self.path).path
        if self.command == "GET" and path == "/.well-known/cron-manifest":
            base = os.environ.get("PUBLIC_URL", f"http://127.0.0.1:{self.server.server_port}")
            return 200, json.dumps(manifest(base)), {"Content-Type": "application/json"}
        job = re.fullmatch(r"/cron/([a-z0-9-]+)", path)
        if self.command != "POST" or not job:
            raise Refused(404, "not found")
        text, before = fire(job[1], self.headers)
        return 200, text, {"X-Duplicate": "true"} if before else {}

    def log_message(self, *args):
        pass


def main():
    if not SECRETS:
        sys.exit("CRON_SECRET or CRON_SECRETS must name the secrets to accept")
    server = ThreadingHTTPServer((os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8080"))), Handler)
    server.daemon_threads = False  # what is at work ends before the process does
    # shutdown waits for the loop of serve_forever, so another thread than the loop's calls it.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
    server.server_close()


if __name__ == "__main__":
    main()
