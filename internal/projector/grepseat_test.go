package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// TestSeats: whoever waits is served in the order of coming, a long search goes
// on behind those who came meanwhile, and nobody's seat is lost.
func TestSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{seats: make(seats, 1)}
		long := &grep{s: s}
		if err := long.sit(t.Context()); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 9)
		for n := range 3 {
			go func() {
				g := &grep{s: s}
				if err := g.sit(t.Context()); err == nil {
					order <- fmt.Sprint("short ", n)
				}
				g.standUp()
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := (&grep{s: s}).sit(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a seat for who has gone: %v", err)
		}
		if n := s.seats.spare(5); n != 0 {
			t.Errorf("%d spare seats while others wait", n)
		}
		if err := long.giveWay(t.Context()); err != nil {
			t.Fatal(err)
		}
		order <- "long"
		long.standUp()
		long.standUp() // once is enough
		synctest.Wait()
		close(order)
		var got []string
		for who := range order {
			got = append(got, who)
		}
		if want := []string{"short 0", "short 1", "short 2", "long"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if n := s.seats.spare(5); n != 1 {
			t.Errorf("%d seats at the end", n)
		}
	})
}
