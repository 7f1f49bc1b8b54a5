package natslog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a process told of a tenant replaces what it told before, and is told to
// everybody, whatever the names.
func TestSpending(t *testing.T) {
	l := open(t)
	all := func() map[string]string {
		out := map[string]string{}
		if err := l.EachSpending(ctx(t), func(process, tenant string, value []byte) { out[process+" "+tenant] = string(value) }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := all(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, one := range [][3]string{{"a", "acme", "1"}, {"a", "acme", "2"}, {"b", "acme", "3"}, {"a", "Ümläut/50 %.*>", "4"}} {
		if err := l.SaveSpending(ctx(t), one[0], one[1], []byte(one[2])); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]string{"a acme": "2", "b acme": "3", "a Ümläut/50 %.*>": "4"}, all()); diff != "" {
		t.Error(diff)
	}
}
