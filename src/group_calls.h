/* Groups of calls: what the public calls ask of the group that their thread may have open. */
#ifndef PLAIT_GROUP_CALLS_H
#define PLAIT_GROUP_CALLS_H

#include "work.h"

struct open_group;

/* The calling thread's open group, or NULL. Every call looks here, so it takes one load and no call to find. */
extern _Thread_local struct open_group *group_open __attribute__((tls_model("initial-exec")));

static inline bool group_is_open(void)
{
    return __builtin_expect(group_open != NULL, 0);
}

/* A call of the open group, for the caller to fill. `out` is where the call wants a work of its own, or NULL. */
plait_status group_add(struct comm *comm, enum work_kind kind, plait_work **out, struct work **member);

/* What became of a call, with this thread's sentence: if it was refused and a group is open, that will not start.
 * Returns `status`. */
plait_status group_spoil(plait_status status);

/* The refusal of a call that waits while a group is open. */
plait_status group_refuse_open(const char *function);

/* While a caller's function runs. A group that it leaves open is dropped. */
struct open_group *group_suspend(void);
void group_resume(struct open_group *suspended);

#endif
