// Package kubernetes installs entries as CronJobs of a namespace.
//
// An entry is one CronJob, or one for each of its lines, since a CronJob has a single schedule. Its pod runs
// `dibs trigger` in the image that the entry names, and passes the "restricted" standard for pods. The job's manifest
// is an annotation of the pod, which finds it as a file; secrets are references to Secrets of the namespace.
//
// The mark is in labels and annotations:
//
//	app.kubernetes.io/managed-by: dibs
//	dibs.run/app, dibs.run/job
//	dibs.run/entry: shop/invoices#0
//	dibs.run/line:  "0"
//	dibs.run/spec, dibs.run/text: the hashes
//
// An object without the label and the entry is somebody else's, and is never written to, except by Adopt.
//
// Objects are written by server-side apply, with the field manager "dibs". What an object's text is, its managed
// fields say: those of dibs, and what others have changed in its spec, which so counts as edited by hand. What the
// server fills in, and what others have in its metadata, does not count. An update keeps the object, its name and its
// jobs. Each write carries the version of the object that the plan was made for, so of two applies at once one is
// refused.
//
// # The tick
//
// Kubernetes notes the scheduled time in an annotation of the Job, which a pod cannot read without rights in the API.
// The name of the Job is the CronJob's and that time in minutes since 1970. It is a label of the pod too, which hands
// it to `dibs trigger` in DIBS_KUBERNETES_JOB.
package kubernetes
