// Package mapjob is the pure core of the map operators: one prompt over any
// number of rows that never enter a context. It holds what a job's events say
// and what they mean (the fold), the prompt's template, the result's schema,
// and the arithmetic over typed results.
//
//	JobDefined          the job: prompt, schema, limits, where its rows are
//	RowsFinished        results of rows; the first one of a row in a round holds
//	JobPaused, Resumed  the provider is down, and is back
//	JobCancelled        no more calls
//	RowsRetried         a new round: failed rows are pending again
//	JobEnded            every row has a result, and the output is written or not
//
// A row's claim is no event: it is the lease of its message in the work queue.
// Workers that die, come back late or work twice on one row change nothing.
//
// The package does no I/O and reads no clock. It may import events.
package mapjob
