// Package eventbridge installs entries as schedules of Amazon EventBridge Scheduler that start tasks of Amazon ECS,
// or writes them as a template of CloudFormation or Terraform.
//
// An app has one group of schedules, dibs-APP, whose tag dibs:app marks its owner. An entry is one schedule in that
// group for each line of When, JOB.INDEX.PART. Each has the entry's mark as its description:
//
//	dibs:entry shop/invoices#0 part=1/1 spec=… text=… (written by dibs: change the manifest)
//
// A line of When is an expression of EventBridge and a zone: `cron(15 4 1 * ? *) Europe/Berlin`. rate() is not used:
// it counts from when a schedule was created, while an @every counts from the Unix epoch.
//
// The task gets the scheduled instant as `--tick <aws.scheduler.scheduled-time>`, which EventBridge replaces. It
// runs the entry's command in one container; the task definition has what else it needs, such as the store's
// address. An instant that is not a tick of the job is not due, and the task ends with status 0.
//
// AWS has no lock for applies. Each schedule is written whole, the same entry always as the same bytes, and after a
// write all of it is read back: an apply that finds something else there fails and says so, and the next one repairs
// it. An empty group stays, since deleting a group also deletes what others put into it meanwhile.
package eventbridge
