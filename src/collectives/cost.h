/* What a planner's cost function is made of: rounds, messages and bytes, in
 * nanoseconds. Rough on purpose: it has to put planners in the right order,
 * not to foretell a time. */
#ifndef PLAIT_COLLECTIVES_COST_H
#define PLAIT_COLLECTIVES_COST_H

#include "collectives/plan.h"

/* A round through the board: signal, and wait until all have. */
double cost_round(const struct cost_facts *facts);
/* A message's way, without its bytes; and what others add that a rank moves at the same time. */
double cost_message(const struct cost_facts *facts);
double cost_further(const struct cost_facts *facts, int messages);

/* A plan of messages, by what it does inside and between facts->groups, and bytes of a block that its chunks should
 * have; < 0 if there is no memory to tell. */
double cost_messages(const struct plan *plan, const struct cost_facts *facts, size_t size, size_t *chunk);

/* The same host, as a rank finds it that works while the others wait. */
static inline struct cost_facts cost_alone(const struct cost_facts *facts)
{
    struct cost_facts alone = *facts;
    alone.cores = facts->ranks;
    return alone;
}

/* All of a plan for `size` bytes a block: its planner's cost, and a round more for each further piece
 * that the staging cuts a block into. */
double cost_plan(const struct plan *plan, const struct cost_facts *facts, size_t size);

/* For `size` bytes that a rank, while all others do the same: */
double cost_put(const struct cost_facts *facts, double size);   /* writes to its window */
double cost_fetch(const struct cost_facts *facts, double size); /* reads from others' windows */
double cost_fold(const struct cost_facts *facts, double size);  /* runs through its cores once read */
double cost_carry(const struct cost_facts *facts, double size); /* sends, or receives */

/* The largest integer k with 2^k <= n, and the least with 2^k >= n; n >= 1. */
static inline int log_floor(int n)
{
    int k = 0;
    while (n >> (k + 1))
        k++;
    return k;
}

static inline int log_ceiling(int n)
{
    int k = log_floor(n);
    return n > 1 << k ? k + 1 : k;
}

#endif
