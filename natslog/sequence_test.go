package natslog

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// delivered is a message with a reply subject.
type delivered struct {
	jetstream.Msg
	reply string
}

func (d delivered) Reply() string { return d.reply }
func (d delivered) Metadata() (*jetstream.MsgMetadata, error) {
	return nil, nats.ErrNotJSMessage
}

func TestSequence(t *testing.T) {
	for reply, want := range map[string][2]uint64{
		"$JS.ACK.LCM.c1.1.42.7.1700000000000000000.9":                  {42, 9},
		"$JS.ACK.hub.ACCOUNTHASH.LCM.c1.1.43.7.1700000000000000000.0":  {43, 0},
		"$JS.ACK._.ACCOUNTHASH.LCM.c1.1.44.7.1700000000000000000.3.tk": {44, 3},
		"$JS.ACK.LCM.c1.1.x.7.1700000000000000000.9":                   {},
		"_INBOX.1":                      {},
		"":                              {},
		"$JS.ACK.LCM.c1.1.42.7.1700000": {},
	} {
		seq, pending, err := sequence(delivered{reply: reply})
		if (err == nil) != (want[0] != 0) || seq != want[0] || pending != want[1] {
			t.Errorf("%q: %d, %d, %v", reply, seq, pending, err)
		}
	}
}
