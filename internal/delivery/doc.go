// Package delivery stands between producers that must never wait and a consumer that may be slow,
// refuse, or be gone for a while.
//
// Items wait in a queue bounded in bytes. One goroutine cuts the queue into batches, builds the logs of
// a batch and gives them to the next consumer until it accepts them. Order is kept throughout: while one
// batch is retried, nothing else is delivered. An item leaves the account of the queue only when the
// consumer has accepted it, or has refused it for good.
package delivery
