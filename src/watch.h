/* The watch: looks, while nothing moves, for reasons why nothing will: aborts, peers that ended, left or
 * died, and deadlines. The driver's. */
#ifndef PLAIT_WATCH_H
#define PLAIT_WATCH_H

#include <stdbool.h>

struct engine;

/* Looks at what is due by the clock, or at all but peers' lives if `now`; at requests in any case. */
void engine_watch(struct engine *engine, bool now);

#endif
