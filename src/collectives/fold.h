/* Folding: what becomes of one contribution of each rank, by the call's operation. The library's own operations go
 * straight to a kernel; those that callers make take a way of their own, piece by piece. */
#ifndef PLAIT_COLLECTIVES_FOLD_H
#define PLAIT_COLLECTIVES_FOLD_H

#include "collectives/execute.h"
#include "device/reduce.h"

/* As reduce_find(...)(reduction), whose sources are of ranks 0, 1, ... */
void fold_made(struct execution *execution, const struct reduction *reduction);
static inline void fold_sources(struct execution *execution, const struct reduction *reduction)
{
    if (__builtin_expect(execution->call.made != NULL, 0))
        fold_made(execution, reduction);
    else
        reduce_find(execution->call.type, execution->call.op)(reduction);
}

/* Result k, k * `stride` bytes after the first, is the fold of the group's sources 0 .. k, for the first `ranks`. */
void fold_running(struct execution *execution, void *first_result, size_t stride, int ranks, size_t count);

/* Can elements of `type` be multiplied and summed? */
bool fold_multiplies(plait_type type);

/* The type that partial results have: the elements' own for a caller's function. */
plait_type fold_accumulator(const struct call *call);

/* Makes this rank's contribution a partial result, and a partial result of all a result. */
void fold_begin(const struct execution *execution, void *to, const void *from, size_t count);
void fold_end(const struct execution *execution, void *to, const void *from, size_t count);

/* Folds `message` into `mine`: message op mine if `message_left`, else mine op message. */
void fold_message(struct execution *execution, void *mine, const void *message, size_t count,
                  bool message_left);

#endif
