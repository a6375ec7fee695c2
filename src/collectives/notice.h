/* Notices: how the ranks of a group meet at the start of an operation. */
#ifndef PLAIT_COLLECTIVES_NOTICE_H
#define PLAIT_COLLECTIVES_NOTICE_H

#include "collectives/execute.h"

static inline struct notice *notice_of(const struct execution *execution, int rank)
{
    return &execution->group->board->seats[rank]->notices[execution->number & 1];
}

static inline struct notice_line *notice_lines_of(const struct execution *execution, int rank)
{
    return execution->group->board->seats[rank]->lines[execution->number & 1];
}

/* Can a call's contributions ride in the notices? The same answer on all ranks. Gives their bytes if so. */
bool notice_carries(const struct group *group, const struct call *call, size_t *contribution);

/* The contribution of an uneven call in one piece: its blocks follow each other. */
void notice_pack(struct execution *execution);

/* Puts up this rank's notice: its call, and its contribution if the notices carry it. */
void notice_publish(struct execution *execution, uint64_t signals);

/* Signals `value`; puts the notice up if it is not yet. */
void notice_signal(struct execution *execution, uint64_t value);

/* Looks for all ranks' notices. True when all are up and make the same call; on a
 * difference the execution is done with PLAIT_MISMATCH. */
bool notice_meet(struct execution *execution);

/* All ranks' calls are known, and not alike: the execution is done with PLAIT_MISMATCH. */
void notice_end_by_mismatch(struct execution *execution);

/* The result of a call whose contributions ride in the notices. */
void notice_finish(struct execution *execution);

#endif
