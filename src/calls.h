/* What the other public calls share with the collectives. */
#ifndef PLAIT_CALLS_H
#define PLAIT_CALLS_H

#include "fault/call.h"
#include "world.h"

/* Is `type` an element type? `function` is the caller's name, for the sentence. */
plait_status calls_check_type(plait_type type, const char *function);

/* Can `buffer`, which the function calls `what`, hold `size` bytes? */
plait_status calls_check_buffer(const void *buffer, size_t size, const char *what, const char *function);

/* Are type, op, root and count of a call ones that `comm` can have? */
plait_status calls_check(const struct comm *comm, const struct call *call, const char *function);

/* Runs a good call to its end, or starts it where `work` is not NULL. */
plait_status calls_carry_out(struct comm *comm, const struct call *call, plait_work **work);

/* Runs a collective to its end. */
plait_status calls_run(struct comm *comm, const struct call *call);

#endif
