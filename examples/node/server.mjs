// An application with scheduled jobs, in Node's standard library alone: it serves its manifest at
// /.well-known/cron-manifest, verifies who fires its jobs, and runs each run at most once.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const TOLERANCE = 300; // seconds that a signature may be old, or ahead
const MAX_BODY = 1 << 20;
const REMEMBERED = 10_000; // runs

// CRON_SECRETS are the secrets that are accepted, one per line: while one is being replaced, both.
const secrets = (process.env.CRON_SECRETS ?? process.env.CRON_SECRET ?? '').split('\n').filter(Boolean);
if (secrets.length === 0) {
  console.error('CRON_SECRET or CRON_SECRETS must name the secrets to accept');
  process.exit(2);
}

// The jobs: when they are due, and what they do. A handler that throws has failed and is tried again.
const jobs = {
  report: { schedule: '15 4 * * *', timezone: 'Europe/Berlin', run: async (fire) => `reported ${fire.scheduled || 'at once'}\n` },
  tidy: { schedule: '@hourly', run: async (fire) => `tidied in attempt ${fire.attempt}\n` },
};

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// verify checks X-Cron-Signature over what was sent, and answers which of the secrets made it.
export function verify(header, method, target, body, now = Date.now() / 1000) {
  if (header === undefined) throw new Refused(401, 'MissingSignature');
  const parts = new Map();
  for (const segment of header.split(',')) {
    const at = segment.indexOf('=');
    if (at < 0) throw new Refused(401, 'MalformedHeader');
    const name = segment.slice(0, at).trim();
    if (parts.has(name)) throw new Refused(401, 'MalformedHeader'); // which of the two would it be?
    parts.set(name, segment.slice(at + 1).trim());
  }
  const t = parts.get('t') ?? '';
  const v1 = parts.get('v1') ?? '';
  if (!/^-?[0-9]{1,15}$/.test(t) || !/^[0-9a-f]{64}$/.test(v1)) throw new Refused(401, 'MalformedHeader');
  if (Math.abs(Math.floor(now) - Number(t)) > TOLERANCE) throw new Refused(401, 'StaleTimestamp');
  const given = Buffer.from(v1, 'hex');
  let which = -1;
  secrets.forEach((secret, i) => {
    const mac = createHmac('sha256', secret).update(`${t}.${method}.${target}.`).update(body).digest();
    if (timingSafeEqual(mac, given) && which < 0) which = i;
  });
  if (which < 0) throw new Refused(401, 'SignatureMismatch');
  return which;
}

// runs are those that were begun, by their id: the answer of one that is done, or null while it is
// at work. An application of several processes keeps this in its database.
const runs = new Map();

async function fire(name, request) {
  const job = Object.hasOwn(jobs, name) ? jobs[name] : undefined;
  if (!job) throw new Refused(404, `no job ${name}`);
  const id = request.headers['x-cron-run-id'];
  if (!id) throw new Refused(400, 'no X-Cron-Run-Id');
  if (runs.has(id)) {
    const answer = runs.get(id);
    if (answer === null) throw new Refused(503, 'this run is already active'); // asked again later
    return { status: 200, text: answer, headers: { 'X-Duplicate': 'true' } };
  }
  runs.set(id, null);
  try {
    const answer = await job.run({
      id,
      attempt: Number(request.headers['x-cron-attempt']),
      scheduled: request.headers['x-cron-fire-time'] ?? '',
      previousSuccess: request.headers['x-cron-previous-success-time'] ?? '',
      token: request.headers['dibs-token'],
      idempotencyKey: request.headers['idempotency-key'],
    });
    console.log(`ran ${name} run=${id} attempt=${request.headers['x-cron-attempt']} trace=${request.headers.traceparent ?? ''}`);
    runs.set(id, answer);
    if (runs.size > REMEMBERED) runs.delete(runs.keys().next().value); // the oldest
    return { status: 200, text: answer };
  } catch (error) {
    runs.delete(id); // the next attempt does it again
    throw error;
  }
}

// manifest says what is to be fired, and where; base is how the scheduler reaches this server.
function manifest(base) {
  return {
    version: 1,
    app: 'node-example',
    jobs: Object.entries(jobs).map(([name, { schedule, timezone = 'UTC' }]) => ({
      name,
      schedule,
      timezone,
      request: { method: 'POST', url: `${base}/cron/${name}` },
      policy: { concurrency: 'Forbid', concurrency_scope: process.env.CRON_SCOPE ?? 'global', timeout_seconds: 30, retries: { max_attempts: 3, min_seconds: 1, max_seconds: 10 } },
      auth: { secret_refs: ['env:CRON_SECRET'] },
    })),
  };
}

async function read(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY) throw new Refused(413, 'the body is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function answer(request) {
  const body = await read(request);
  const which = verify(request.headers['x-cron-signature'], request.method, request.url, body);
  if (which > 0) console.log(`signed with secret ${which}: it is about to be retired`);
  const { pathname } = new URL(request.url, 'http://localhost');
  if (request.method === 'GET' && pathname === '/.well-known/cron-manifest') {
    const base = process.env.PUBLIC_URL ?? `http://127.0.0.1:${server.address().port}`;
    return { status: 200, text: JSON.stringify(manifest(base)), headers: { 'Content-Type': 'application/json' } };
  }
  const name = request.method === 'POST' ? pathname.match(/^\/cron\/([a-z0-9-]+)$/)?.[1] : undefined;
  if (!name) throw new Refused(404, 'not found');
  return fire(name, request);
}

const server = createServer(async (request, response) => {
  let result;
  try {
    result = await answer(request);
  } catch (error) {
    if (!(error instanceof Refused)) console.error(error);
    result = { status: error.status ?? 500, text: `${error.status ? error.message : 'failed'}\n` };
    if (result.status === 503) result.headers = { 'Retry-After': '1' };
  }
  response.writeHead(result.status, { 'Content-Type': 'text/plain; charset=utf-8', ...result.headers });
  response.end(result.text);
});

server.listen(Number(process.env.PORT ?? 8080), process.env.HOST ?? '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
process.on('SIGTERM', () => server.close(() => process.exit(0)));
