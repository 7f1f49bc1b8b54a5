package natslog

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// minPayload is what a server must take: the largest message of this build
// with its headers. A default server takes 1 MiB.
const minPayload = events.InlineBytes + 64<<10

func checkPayload(nc *nats.Conn) error {
	if most := nc.MaxPayload(); most < minPayload {
		return problem.New(problem.Unavailable, "the NATS server takes messages of %d bytes at most, %d are needed", most, minPayload).
			WithHint("set max_payload: 1MB, or more, in its configuration")
	}
	return nil
}

// large: the event takes several messages, an atomic batch of its own.
func (c *commit) large(i int) bool { return len(c.batch[i].Message.Data) > events.InlineBytes }

// send stores one event, alone, and answers with its position.
func (c *commit) send(ctx context.Context, i int, expect *uint64) (uint64, error) {
	if !c.large(i) {
		return c.l.publisher.Publish(ctx, c.message(i, expect))
	}
	chunks, err := events.Cut(c.batch[i].Message)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", api.ErrLogUnavailable, err)
	}
	msgs := make([]*nats.Msg, len(chunks))
	for k, m := range chunks {
		msgs[k] = published(StreamLog, m)
	}
	expecting(msgs[0], expect)
	return c.l.publisher.PublishBatch(ctx, msgs)
}

func expecting(m *nats.Msg, last *uint64) {
	if last != nil {
		m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(*last, 10)}
	}
}

// Read returns the event at a position, which is whole wherever its messages
// stand. A position that the log should hold and cannot give is "damaged", one
// beyond its end, or in an event whose messages are not all there, "not_found".
func (l *Log) Read(ctx context.Context, seq uint64) (events.Record, error) {
	here, err := l.Message(ctx, seq)
	if err != nil {
		return here, err
	}
	var j events.Joiner
	first, last := events.Around(here.Message, seq)
	for at := first; at <= last; at++ {
		m := here
		if at != seq {
			if m, err = l.Message(ctx, at); problem.IsCode(err, problem.NotFound) {
				break
			}
		}
		var out []events.Record
		switch {
		case err == nil:
			out = j.Add(m, nil)
		case problem.IsCode(err, problem.Damaged):
			out = j.Flush(nil)
		default:
			return events.Record{}, err
		}
		for _, r := range out {
			if r.Seq >= seq {
				return r, nil
			}
		}
	}
	return events.Record{}, problem.New(problem.NotFound, "position %d is in an event that is not whole", seq)
}

// End is the position of the last event that will stay as it is, 0 for an
// empty log: LastSeq, or the position before a large event at the log's end
// whose messages are not all there.
func (l *Log) End(ctx context.Context) (uint64, error) {
	last, err := l.LastSeq(ctx)
	if err != nil || last == 0 {
		return last, err
	}
	m, err := l.Message(ctx, last)
	if problem.IsCode(err, problem.Damaged) {
		return last, nil // who follows finds that
	}
	if err != nil {
		return 0, err
	}
	var j events.Joiner
	first, end := events.Around(m.Message, last)
	if first == end || end == last {
		return last, nil
	}
	for at := first; at < last; at++ {
		before, err := l.Message(ctx, at)
		if err == nil {
			j.Add(before, nil)
		} else if !problem.IsCode(err, problem.Damaged) {
			return 0, err
		}
	}
	j.Add(m, nil)
	if open := j.Open(); open > 0 {
		return open - 1, nil
	}
	return last, nil
}

// abandon ends the chunks at the end of a subject whose others never came: m,
// at seq, is the last one. A writer stores them all at once, so that there is
// nobody who could go on; where there was one after all, the end is elsewhere
// and nothing is stored.
func (l *Log) abandon(ctx context.Context, m events.Message, seq uint64) error {
	out := published(StreamLog, m)
	expecting(out, &seq)
	_, err := l.js.PublishMsg(ctx, out, jetstream.WithRetryAttempts(0))
	if err == nil {
		return nil
	}
	if err := classify(err); err != errConflict {
		return fmt.Errorf("end a large event on %s that was not finished: %w", m.Subject, err)
	}
	return nil
}
