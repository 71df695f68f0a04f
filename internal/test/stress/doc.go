// Package stress holds one test: many clients, in processes of their own, take and release the same few keys as
// fast as they can, while clients and servers are killed, and an observer that is no store watches that a key
// never has two holders and that its tokens only rise.
//
// The observer is a page of memory that all the processes share. Whoever was granted a key writes
// itself there when its work begins and takes itself off when it ends, with atomic operations; whoever finds
// somebody else there, and alive, has seen two holders at once.
package stress
