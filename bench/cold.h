/* Buffers that no cache holds: each operation of a sample gets a place of its own, whose lines are thrown
 * out of the caches before the sample begins. */
#ifndef PLAIT_BENCH_COLD_H
#define PLAIT_BENCH_COLD_H

#include <stddef.h>

enum { COLD_ROOM = 32 << 20 }; /* bytes of each buffer at least, so that many small operations have a place */

/* Bytes from one place to the next, for operations of `size` bytes. */
size_t cold_stride(size_t size);

/* Places in a buffer of `room` bytes; at least one. */
int cold_places(size_t size, size_t room);

/* Throws the lines of `size` bytes out of all caches. */
void cold_flush(const void *bytes, size_t size);

#endif
