#include "collectives/staging.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/status.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; Debian 12's headers have it, older ones do not */
#endif

enum { MAPPED_AHEAD_RANKS = 16 }; /* beyond, it would be felt */

plait_status staging_find(struct group *group, int lane)
{
    struct staging *staging = &group->staging;
    staging->base = calloc((size_t)group->ranks, sizeof *staging->base);
    if (staging->base == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", group->ranks);
    for (int rank = 0; rank < group->ranks; rank++)
        staging->base[rank] = group->board->seat_staging[rank];
    staging->size = SEAT_STAGING_BYTES;
    staging->lane = lane;
    staging->lane_size = lane < 0 ? 0 : lane_bytes(group->board->lane_size, lane);
    group->facts.staging = staging_reach(staging);
    return PLAIT_OK;
}

bool staging_reserve(struct group *group)
{
    struct staging *staging = &group->staging;
    if (staging->reserved)
        return true;
    staging->reserved = group->transport->lane_open(group->endpoint, staging->lane) == PLAIT_OK;
    if (!staging->reserved)
        log_warn("%s", failure_text());
    return staging->reserved;
}

struct staging staging_in_lane(const struct group *group)
{
    const struct staging *staging = &group->staging;
    return (struct staging){ .base = staging->base, .size = staging->lane_size, .lane = staging->lane };
}

/* Maps staging ahead where each rank does so for itself: a page fault costs more than
 * a small operation, and the first walk round the ring would meet one at every page of every rank. */
static void map_ahead(const struct group *group)
{
    const struct staging *staging = &group->staging;
    if (!group->transport->maps_apart || group->ranks > MAPPED_AHEAD_RANKS)
        return;
    for (int rank = 0; rank < group->ranks; rank++)
        if (madvise(staging->base[rank], staging->size, MADV_POPULATE_WRITE) != 0)
            return; /* a kernel before 5.14: the faults come one by one */
}

void staging_change(struct group *group)
{
    const struct board *board = group->board;
    group->staging = staging_in_lane(group);
    for (int rank = 0; rank < group->ranks; rank++)
        group->staging.base[rank] = board->staging[rank] + lane_offset(board->lane_size, group->staging.lane);
    map_ahead(group);
}

void staging_give_up(struct group *group)
{
    group->staging.reserved = false;
    group->transport->lane_close(group->endpoint, group->staging.lane);
}
