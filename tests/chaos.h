/* A transport that lies over another and does all that transport.h allows: what is queued is taken up late
 * and in another order, by a seed. The caller's messages keep theirs, as they are promised. */
#ifndef PLAIT_TESTS_CHAOS_H
#define PLAIT_TESTS_CHAOS_H

#include "transport/transport.h"

/* The table; it lies over `inner` for endpoints that are opened from now on. */
const struct transport *chaos_over(const struct transport *inner, uint32_t seed);

#endif
