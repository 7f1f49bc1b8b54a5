package session

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"lcm/events"
)

// A row comes back as it comes back from JSON, which keeps every exported field:
// one that is added to a type and forgotten in its row fails here.
func TestRowsKeepWhatJSONKeeps(t *testing.T) {
	t.Run("entry", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { sameAsJSON[Entry](t) }) })
	t.Run("node", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { sameAsJSON[Node](t) }) })
	t.Run("cut", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { sameAsJSON[Cut](t) }) })
	t.Run("head", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			var h, got Head
			fill(t, reflect.ValueOf(&h).Elem(), "Head")
			r := rows{NewMemory()}
			if err := r.putPath(h.Path); err != nil {
				t.Fatal(err)
			}
			if err := r.put(RowHead, nil, h); err != nil {
				t.Fatal(err)
			}
			got, err := r.head()
			if err != nil {
				t.Fatal(err)
			}
			equalJSON(t, h, got)
		})
	})
}

type rowOf[T any] interface {
	*T
	encoding.BinaryUnmarshaler
}

func sameAsJSON[T encoding.BinaryMarshaler, P rowOf[T]](t *rapid.T) {
	var v, got T
	fill(t, reflect.ValueOf(&v).Elem(), fmt.Sprintf("%T", v))
	row, err := v.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := P(&got).UnmarshalBinary(row); err != nil {
		t.Fatal(err)
	}
	equalJSON(t, v, got)
	again, _ := got.MarshalBinary()
	if !bytes.Equal(row, again) {
		t.Fatal("the row that was read gives another row")
	}
}

func equalJSON[T any](t *rapid.T, v, got T) {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var want T
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
}

// fill draws a value for every field that JSON keeps.
func fill(t *rapid.T, v reflect.Value, label string) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		v.Set(reflect.ValueOf(drawTime(t, label)))
		return
	case *[]events.Range:
		v.Set(reflect.ValueOf(drawRanges(t, label)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), label+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, label) {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), label)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, label), 3))
		for i := range v.Len() {
			fill(t, v.Index(i), fmt.Sprint(label, i))
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(rapid.Byte().Draw(t, label)))
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, label)))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, label))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Int:
		v.SetInt(rapid.Int64().Draw(t, label))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, label))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, label))
	default:
		t.Fatalf("%s: no rule for %s", label, v.Type())
	}
}

func drawTime(t *rapid.T, label string) time.Time {
	at := time.Unix(rapid.Int64Range(-62135596800, 253402214400).Draw(t, label), rapid.Int64Range(0, 999_999_999).Draw(t, label)).UTC()
	if minutes := rapid.IntRange(-23*60, 23*60).Draw(t, label); minutes != 0 && at.Year() > 1 && at.Year() < 9999 {
		at = at.In(time.FixedZone("", 60*minutes))
	}
	return at
}

func drawRanges(t *rapid.T, label string) []events.Range {
	var out []events.Range
	last := uint64(0)
	for range rapid.IntRange(0, 4).Draw(t, label) {
		r := events.Range{First: last + 1 + uint64(rapid.Uint32().Draw(t, label))}
		r.Last = r.First + uint64(rapid.Uint32().Draw(t, label))
		out, last = append(out, r), r.Last+1
	}
	return out
}

// No two kinds of row share a letter: they would be each other's rows.
func TestRowKindsAreDistinct(t *testing.T) {
	src, err := os.ReadFile("rows.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, m := range regexp.MustCompile(`(Row\w+) +RowKind = ('.')`).FindAllStringSubmatch(string(src), -1) {
		if other := seen[m[2]]; other != "" {
			t.Errorf("%s and %s are both %s", other, m[1], m[2])
		}
		seen[m[2]] = m[1]
	}
	if len(seen) < 18 {
		t.Errorf("only %d kinds found", len(seen))
	}
}

// FuzzRows: whatever stands in a row, it is read or refused.
func FuzzRows(f *testing.F) {
	at := time.Unix(1, 2)
	for _, v := range []encoding.BinaryMarshaler{
		Entry{N: 1, ID: "a", Calls: []string{"x"}, CallEntries: []uint64{7}, AuthorTime: &at},
		Node{N: 3, NodeCommitted: events.NodeCommitted{Entries: []events.Range{{First: 2, Last: 9}}, Rich: &events.Tier{Text: "r"}}},
		Cut{N: 1, CutCommitted: events.CutCommitted{Frontier: []events.Shown{{Key: "k", Tier: "stub"}}, Clips: []events.Clip{{Entry: 1}}}},
		Head{Path: []events.Range{{First: 1, Last: 2}}, Settings: events.Settings{Labels: map[string]string{"a": "b"}}},
	} {
		row, _ := v.MarshalBinary()
		f.Add(row)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, row []byte) {
		readAgain[Entry](t, row)
		readAgain[Node](t, row)
		readAgain[Cut](t, row)
		readAgain[Head](t, row)
	})
}

func readAgain[T encoding.BinaryMarshaler, P rowOf[T]](t *testing.T, row []byte) {
	var v, again T
	if P(&v).UnmarshalBinary(row) != nil {
		return
	}
	b, _ := v.MarshalBinary()
	if err := P(&again).UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, again, cmpopts.EquateNaNs()); diff != "" {
		t.Fatal(diff)
	}
}
