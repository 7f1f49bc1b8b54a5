#include <stdlib.h>
#include "ring.h"

#define RING_MAX 4096

struct ring {
	size_t head, tail;
	char *data;
};

static size_t next(size_t i)
{
	return (i + 1) % RING_MAX;
}

struct ring *ring_new(void) {
	return calloc(1, sizeof(struct ring));
}

int ring_push(struct ring *r, char c)
{
	if (next(r->head) == r->tail)
		return -1;
	r->data[r->head] = c;
	r->head = next(r->head);
	return 0;
}
