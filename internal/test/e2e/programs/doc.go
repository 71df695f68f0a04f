// Package programs runs Go programs that use package dibs, as processes on real servers, and kills them.
package programs
