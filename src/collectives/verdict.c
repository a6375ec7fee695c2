#include "collectives/verdict.h"

#include "base/status.h"
#include "collectives/notice.h"

#define VERDICT (UINT64_C(1) << 63)

void verdict_say(struct execution *x)
{
    x->phase = PHASE_VERDICT;
    x->waiting = 0;
    notice_signal(x, VERDICT | (uint32_t)x->verdict);
}

static uint64_t said_by(const struct execution *x, int rank)
{
    return rank == x->group->rank ? VERDICT | (uint32_t)x->verdict
                                  : atomic_load_explicit(&notice_of(x, rank)->signals, memory_order_acquire);
}

bool verdict_hear(struct execution *x, plait_status *status)
{
    const struct group *group = x->group;
    for (; x->waiting < group->ranks; x->waiting++)
        if (said_by(x, x->waiting) < VERDICT)
            return false;
    *status = PLAIT_OK;
    for (int rank = 0; rank < group->ranks && *status == PLAIT_OK; rank++) {
        int32_t error = (int32_t)(uint32_t)said_by(x, rank);
        if (error == 0)
            continue;
        x->waiting = rank;
        *status = failure(
            PLAIT_CALLER_FAILED,
            "operation %llu: the caller's function \"%s\" returned %d on rank %d; the call fails on all "
            "ranks and its outputs are undefined",
            (unsigned long long)(x->number - group->uncounted), x->call.made->name, (int)error, rank);
    }
    return true;
}
