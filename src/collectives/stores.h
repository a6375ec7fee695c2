/* How staging is written: with ordinary stores, or past the caches.
 *
 * Near cores want ordinary stores: the reader finds the line in the cache they
 * share. Far cores want non-temporal ones: an ordinary store to a line that
 * the far core has read must first take it back, which costs more than memory
 * does. The cores of a virtual machine move from near to far and back within minutes,
 * so the choice starts from the probed line cost and then follows the rate
 * at which staging is actually written. */
#ifndef PLAIT_COLLECTIVES_STORES_H
#define PLAIT_COLLECTIVES_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"

struct store_choice {
    bool fixed;    /* by a setting */
    bool streamed; /* the choice now */
    int slow;      /* ordinary writes in a row that were slow */
    int64_t next_try_ns; /* when ordinary stores are tried again */
};

enum { STREAM_FROM_BYTES = 8192 }; /* smaller pieces are always written with ordinary stores */

struct store_choice stores_start(enum stores setting, double line_ns);

/* Writes `size` bytes into staging by the present choice, and learns from the time it took. */
void stores_put(struct store_choice *stores, void *to, const void *from, size_t size);

#endif
