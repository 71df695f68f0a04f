package redis

import "slices"

// The scripts of the queue begin with what they need of lua/queue, in the order in which one uses the other.
var (
	laterParts  = []string{"common", "queue/later"}
	taskParts   = with(laterParts, "queue/task")
	readyParts  = with(taskParts, "queue/ready", "queue/note", "queue/limit", "queue/final")
	waitParts   = with(readyParts, "queue/wait")
	workerParts = with(waitParts, "queue/worker")

	freeScript       = load(with(taskParts, "queue/ready", "identity", "queue/new", "queue/enqueue_free")...)
	enqueueScript    = load(with(waitParts, "identity", "queue/new", "queue/enqueue")...)
	fetchScript      = load(with(workerParts, "queue/pauses", "identity", "queue/held", "queue/fetch")...)
	startTasksScript = load(with(workerParts, "queue/start")...)
	finishScript     = load(with(workerParts, "queue/finish")...)
	runningScript    = load(with(workerParts, "queue/running")...)
	registerScript   = load(with(workerParts, "queue/register")...)
	deregisterScript = load(with(workerParts, "queue/deregister")...)
	maintainScript   = load(with(workerParts, "queue/maintain")...)
	declareScript    = load(with(laterParts, "queue/declare")...)
	countScript      = load(with(laterParts, "queue/count")...)

	operateScript    = load(with(workerParts, "queue/operate")...)
	setLimitScript   = load(with(readyParts, "queue/set_limit")...)
	pauseQueueScript = load(with(laterParts, "queue/note", "queue/pause")...)
	wordsScript      = load(with(readyParts, "queue/words")...)
	subQueuesScript  = load(with(readyParts, "queue/subqueues")...)
	workersScript    = load(with(workerParts, "queue/workers")...)
	showTaskScript   = load(with(workerParts, "queue/show")...)
	listTasksScript  = load(with(workerParts, "queue/list")...)
)

func with(parts []string, more ...string) []string { return slices.Concat(parts, more) }
