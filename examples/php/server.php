<?php
// An application with scheduled jobs, in PHP without any package: it serves its manifest at
// /.well-known/cron-manifest, verifies who fires its jobs, and runs each run at most once.
// It is a script for each request, as under php-fpm; to try it: php -S 127.0.0.1:8080 server.php
declare(strict_types=1);

const TOLERANCE = 300; // seconds that a signature may be old, or ahead
const MAX_BODY = 1 << 20;

class Refused extends Exception
{
    public function __construct(public int $status, string $message)
    {
        parent::__construct($message);
    }
}

/** The jobs: when they are due, and what they do. A function that throws has failed, and is tried again. */
function jobs(): array
{
    return [
        'report' => ['schedule' => '15 4 * * *', 'timezone' => 'Europe/Berlin',
            'run' => fn (array $fire) => 'reported ' . ($fire['scheduled'] ?: 'at once') . "\n"],
        'tidy' => ['schedule' => '@hourly', 'timezone' => 'UTC',
            'run' => fn (array $fire) => "tidied in attempt {$fire['attempt']}\n"],
    ];
}

/** The secrets that are accepted, one per line of CRON_SECRETS: both, while one is being replaced. */
function secrets(): array
{
    $text = getenv('CRON_SECRETS') ?: getenv('CRON_SECRET') ?: '';
    return array_values(array_filter(explode("\n", $text), fn ($s) => $s !== ''));
}

/** Checks X-Cron-Signature over what was sent, and returns which of the secrets made it. */
function verify(?string $header, string $method, string $target, string $body, int $now): int
{
    if ($header === null) {
        throw new Refused(401, 'MissingSignature');
    }
    $parts = [];
    foreach (explode(',', $header) as $segment) {
        $pair = explode('=', $segment, 2);
        $name = trim($pair[0]);
        if (count($pair) < 2 || isset($parts[$name])) { // which of two would it be?
            throw new Refused(401, 'MalformedHeader');
        }
        $parts[$name] = trim($pair[1]);
    }
    $t = $parts['t'] ?? '';
    $v1 = $parts['v1'] ?? '';
    if (!preg_match('/^-?[0-9]{1,15}$/D', $t) || !preg_match('/^[0-9a-f]{64}$/D', $v1)) {
        throw new Refused(401, 'MalformedHeader');
    }
    if (abs($now - (int) $t) > TOLERANCE) {
        throw new Refused(401, 'StaleTimestamp');
    }
    $which = null;
    foreach (secrets() as $i => $secret) {
        if (hash_equals(hash_hmac('sha256', "$t.$method.$target.$body", $secret), $v1)) {
            $which ??= $i;
        }
    }
    return $which ?? throw new Refused(401, 'SignatureMismatch');
}

/**
 * Does a run once, and returns its answer and whether it was done before. A run has a file, which is locked while the
 * run is at work and holds the answer after it. An application on several servers keeps this in its database.
 */
function fire(string $name): array
{
    $job = jobs()[$name] ?? throw new Refused(404, "no job $name");
    $id = $_SERVER['HTTP_X_CRON_RUN_ID'] ?? throw new Refused(400, 'no X-Cron-Run-Id');
    $dir = getenv('RUNS_DIR') ?: sys_get_temp_dir() . '/php-example-runs';
    if (!is_dir($dir) && !@mkdir($dir, 0700, true) && !is_dir($dir)) { // another process may have been quicker
        throw new RuntimeException("cannot make $dir");
    }
    $file = fopen("$dir/" . hash('sha256', $id), 'c+') ?: throw new RuntimeException("cannot open a file in $dir");
    if (!flock($file, LOCK_EX | LOCK_NB)) {
        throw new Refused(503, 'this run is already active'); // asked again later
    }
    $before = stream_get_contents($file);
    if ($before !== '') {
        return [json_decode($before), true];
    }
    $attempt = $_SERVER['HTTP_X_CRON_ATTEMPT'] ?? '1';
    $answer = $job['run']([
        'id' => $id,
        'attempt' => (int) $attempt,
        'scheduled' => $_SERVER['HTTP_X_CRON_FIRE_TIME'] ?? '',
        'token' => $_SERVER['HTTP_DIBS_TOKEN'] ?? '',
        'idempotency_key' => $_SERVER['HTTP_IDEMPOTENCY_KEY'] ?? '',
    ]);
    if (fwrite($file, json_encode($answer)) === false || !fflush($file)) {
        throw new RuntimeException("cannot write to $dir");
    }
    note("ran $name run=$id attempt=$attempt trace=" . ($_SERVER['HTTP_TRACEPARENT'] ?? ''));
    return [$answer, false];
}

/** Says what is to be fired, and where; $base is how dibs reaches this server. */
function manifest(string $base): array
{
    $policy = [
        'concurrency' => 'Forbid',
        'concurrency_scope' => getenv('CRON_SCOPE') ?: 'global',
        'timeout_seconds' => 30,
        'retries' => ['max_attempts' => 3, 'min_seconds' => 1, 'max_seconds' => 10],
    ];
    $all = [];
    foreach (jobs() as $name => $job) {
        $all[] = [
            'name' => $name,
            'schedule' => $job['schedule'],
            'timezone' => $job['timezone'],
            'request' => ['method' => 'POST', 'url' => "$base/cron/$name"],
            'policy' => $policy,
            'auth' => ['secret_refs' => ['env:CRON_SECRET']],
        ];
    }
    return ['version' => 1, 'app' => 'php-example', 'jobs' => $all];
}

function note(string $line): void
{
    file_put_contents('php://stdout', "$line\n");
}

/** Returns the answer's type, its text and whether the run was done before. */
function answer(): array
{
    $body = file_get_contents('php://input', length: MAX_BODY + 1);
    if (strlen($body) > MAX_BODY) {
        throw new Refused(413, 'the body is too long');
    }
    ['REQUEST_METHOD' => $method, 'REQUEST_URI' => $target] = $_SERVER;
    $which = verify($_SERVER['HTTP_X_CRON_SIGNATURE'] ?? null, $method, $target, $body, time());
    if ($which > 0) {
        note("signed with secret $which: it is about to be retired");
    }
    $path = parse_url($target, PHP_URL_PATH);
    if ($method === 'GET' && $path === '/.well-known/cron-manifest') {
        $base = getenv('PUBLIC_URL') ?: "http://127.0.0.1:{$_SERVER['SERVER_PORT']}";
        return ['application/json', json_encode(manifest($base)), false];
    }
    if ($method !== 'POST' || !preg_match('#^/cron/([a-z0-9-]+)$#D', (string) $path, $m)) {
        throw new Refused(404, 'not found');
    }
    return ['text/plain; charset=utf-8', ...fire($m[1])];
}

try {
    if (secrets() === []) {
        throw new RuntimeException('CRON_SECRET or CRON_SECRETS must name the secrets to accept');
    }
    [$type, $text, $before] = answer();
    header("Content-Type: $type");
    if ($before) {
        header('X-Duplicate: true');
    }
    echo $text;
} catch (Throwable $e) {
    http_response_code($e instanceof Refused ? $e->status : 500);
    header('Content-Type: text/plain; charset=utf-8');
    if ($e instanceof Refused) {
        if ($e->status === 503) {
            header('Retry-After: 1');
        }
        echo $e->getMessage(), "\n";
    } else {
        error_log((string) $e);
        echo "failed\n";
    }
}
