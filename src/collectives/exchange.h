/* The exchange of counts: where the ranks of a v-form each give their own counts (gatherv, scatterv,
 * all-to-allv), an all-gather of them goes before it, as an operation of its own. Then all ranks know who
 * moves what, how long the longest block is, and whether senders and receivers agree. */
#ifndef PLAIT_COLLECTIVES_EXCHANGE_H
#define PLAIT_COLLECTIVES_EXCHANGE_H

#include "collectives/execute.h"

struct exchange {
    struct call whole; /* what the counts are exchanged for */
    uint64_t rows[];   /* of each rank: elements that it sends to each, then those it expects from each */
};

/* Notes this rank's counts and gives the all-gather of all ranks' in `*first`. */
plait_status exchange_prepare(struct group *group, const struct call *call, struct call *first);

/* What the counts tell: sets the longest block in group->exchange->whole, or fails with PLAIT_MISMATCH and
 * names the culprit, the same on every rank. */
plait_status exchange_conclude(const struct group *group, uint64_t number, int *culprit);

/* Elements that `from` sends to `to`. */
static inline size_t exchange_moved(const struct group *group, int from, int to)
{
    return group->exchange->rows[(size_t)from * 2 * (size_t)group->ranks + (size_t)to];
}

/* Elements that `from` sends to ranks before `to`. */
static inline size_t exchange_moved_before(const struct group *group, int from, int to)
{
    size_t sum = 0;
    for (int rank = 0; rank < to; rank++)
        sum += exchange_moved(group, from, rank);
    return sum;
}

#endif
