/* Where a group stages, and when it takes memory for that.
 *
 * Small operations are staged in the seats, which every communicator has. A *lane* gets its memory at the first
 * operation that the seats would cut in pieces. All ranks find that out alike; each reserves its own lane
 * and says in its notice whether it could. When all have met, all change to the lane, or the
 * operation fails on all of them and the next may try again. */
#ifndef PLAIT_COLLECTIVES_STAGING_H
#define PLAIT_COLLECTIVES_STAGING_H

#include "collectives/execute.h"

/* The group, which has a board, stages in its seats and may change to `lane` (-1: to none). */
plait_status staging_find(struct group *group, int lane);

/* Bytes that the group can have for a plan. */
static inline size_t staging_reach(const struct staging *staging)
{
    return staging->lane_size > 0 ? staging->lane_size : staging->size;
}

/* Does a call by `plan` want the lane, whose memory has not been seen to yet? */
static inline bool staging_wants_lane(const struct staging *staging, const struct plan *plan,
                                      size_t block_size)
{
    size_t slot = (block_size + 63) / 64 * 64 * (size_t)plan->window_blocks;
    return staging->lane_size > 0 && slot > staging->size / (size_t)(plan->stages + 1);
}

/* Sees to this rank's lane; false, and a word in the log, if there is no memory for it. */
bool staging_reserve(struct group *group);

/* The ring as it is when the group has changed to its lane. */
struct staging staging_in_lane(const struct group *group);

/* All ranks have their lane: changes to it. */
void staging_change(struct group *group);

/* Some rank has none: gives this one's back. */
void staging_give_up(struct group *group);

#endif
