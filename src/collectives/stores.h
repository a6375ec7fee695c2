/* How staging is written: with ordinary stores, or past the caches.
 *
 * Near cores want ordinary stores: the reader finds the line in the cache they share. Far cores want
 * non-temporal ones: an ordinary store to a line that the far core has read must first take it back,
 * and the reader fetches it across, which costs more than memory does. So the choice follows what a
 * cache line costs on its way. */
#ifndef PLAIT_COLLECTIVES_STORES_H
#define PLAIT_COLLECTIVES_STORES_H

#include <stdbool.h>

#include "base/settings.h"

/* A line's way above which two cores share no cache: near cores show 25 to 60 ns, far ones
 * 180 and more. */
#define FAR_LINE_NS 120.0

/* Smaller pieces are always written with ordinary stores. Measured far: the others take two to three times as long
 * with these, from 2 KiB to 8 KiB. */
enum { STREAM_FROM_BYTES = 1024 };

static inline bool stores_streamed(enum stores setting, double line_ns)
{
    return setting == STORES_AUTO ? line_ns > FAR_LINE_NS : setting == STORES_STREAMED;
}

#endif
