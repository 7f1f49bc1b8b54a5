package tokens

import (
	"fmt"
	"math/rand"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	t0 := time.Now()
	c := borrow()
	fmt.Println("init", time.Since(t0), len(c.class))
	t0 = time.Now()
	bad := 0
	for id := range uint32(vocabularySize) {
		h := c.halves(id)
		if h.whole() && c.size(id) > 1 {
			bad++
			if bad < 20 {
				fmt.Printf("%q\n", c.token(id))
			}
		}
	}
	fmt.Println("halves", time.Since(t0), bad)
	for _, s := range []string{"hello world", " it's DON'T", "中ABC", "a \n b"} {
		fmt.Println(s, Count(s), referenceCount(s))
	}
	alpha := []rune("aabcetsrmldvSTRE''ſÀÁéß中日本ʰ̡́ \n\r\t\u00a0\u3000/!.-=_\"1234٣½Ⅷ😀👍\u200d\ufe0f\ufffd\x7f\x00ǅ가한")
	bad = 0
	for seed := range 200000 {
		r := rand.New(rand.NewSource(int64(seed)))
		n := r.Intn(40)
		rs := make([]rune, n)
		k := 1 + r.Intn(len(alpha))
		off := r.Intn(len(alpha))
		for i := range rs {
			rs[i] = alpha[(off+r.Intn(k))%len(alpha)]
		}
		s := string(rs)
		if a, b := Count(s), referenceCount(s); a != b {
			bad++
			if bad < 10 {
				t.Errorf("%q %d %d", s, a, b)
			}
		}
	}
	fmt.Println("bad", bad)
}
