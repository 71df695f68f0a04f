// Package kube tests deploy/kubernetes and the chart of packaging/ against what Kubernetes and Helm themselves are
// made of: the reading of schedules (robfig/cron), the types, the rendering. It is a module of its own, so that nobody
// else needs these.
package kube
