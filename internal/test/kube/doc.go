// Package kube tests deploy/kubernetes against what Kubernetes itself is made of: its reading of schedules
// (robfig/cron) and its types. It is a module of its own, so that nobody else needs these.
package kube
