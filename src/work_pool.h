/* Where works on the heap come from. Each world keeps used ones, so that starting works allocates nothing
 * once as many have been under way before. Works may outlive their world; then they are freed one by one. */
#ifndef PLAIT_WORK_POOL_H
#define PLAIT_WORK_POOL_H

#include "work.h"

struct work_pool;

/* NULL without memory. */
struct work_pool *work_pool_make(void);
/* The world ends: frees what lies here, and later what comes back. NULL is fine. */
void work_pool_close(struct work_pool *pool);

/* A work in which only the lock and the room for a layout have values; NULL without memory. `pool` may be NULL.
 * Any thread. */
struct work *work_pool_take(struct work_pool *pool);
/* Takes a work back. Any thread. */
void work_pool_give(struct work *work);

#endif
