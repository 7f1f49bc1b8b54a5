/* The class of rings, template of all queues. */
#ifndef RING_JNI_H
#define RING_JNI_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ring_ ring;
typedef unsigned int ring_size;

typedef struct {
    ring_size head;
} ring_cursor;

typedef void (JNICALL *ring_event)
    (JNIEnv *env, ring *r);
typedef jint (JNICALL *ring_visit)(ring *r, void *data);
typedef int ring_compare(const char *a, const char *b);

JNIEXPORT jint JNICALL
ring_open(JavaVM *vm, const char *name);

JNIEXPORT void JNICALL Java_shop_Ring_close(JNIEnv *env, jobject self);

RING_API(ring *) ring_find(const char *name);
extern ring *ring_next (ring *r);
static int __attribute__((unused)) ring_check(const ring *r, int (*each)(char));
void (*ring_on_error(void (*handler)(int)))(int);

RING_DEPRECATED("use ring_open")

#ifdef __cplusplus
}
#endif
#endif
