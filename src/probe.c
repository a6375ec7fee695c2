/* Measures what a cache line costs between two ranks. */
#include <math.h>
#include <sched.h>

#include "base/clock.h"
#include "base/handle.h"
#include "base/pause.h"
#include "base/status.h"
#include "calls.h"
#include "group_calls.h"
#include "world.h"

enum { BATCHES = 8, ROUNDS = 40 };
/* Two ranks that take turns on one core answer each other this slowly: that
 * is the scheduler's time, not a line's. */
static const double SHARED_CORE_NS = 600;
static const int64_t LIMIT_NS = 20000000; /* a peer that is not there in time ends the probe */

/* Waits for the peer's word to reach `value`. */
static bool await(const struct comm *comm, int peer, uint64_t value, int64_t until)
{
    const _Atomic uint64_t *word = &comm->group.board->seats[peer]->probe;
    for (unsigned turn = 1; atomic_load_explicit(word, memory_order_acquire) < value; turn++) {
        if (turn % 256 != 0) {
            pause_briefly();
            continue;
        }
        if (clock_ns() >= until)
            return false;
        sched_yield();
    }
    return true;
}

static void say(const struct comm *comm, uint64_t value)
{
    atomic_store_explicit(&comm->group.board->seats[comm->group.rank]->probe, value, memory_order_release);
}

/* One batch of round trips; nanoseconds one way, or infinity. */
static double time_batch(const struct comm *comm, uint64_t first, int64_t until)
{
    bool leads = comm->group.rank == 0;
    int64_t start = clock_ns();
    for (uint64_t value = first; value < first + ROUNDS; value++) {
        if (leads)
            say(comm, value);
        if (!await(comm, leads ? 1 : 0, value, until))
            return INFINITY;
        if (!leads)
            say(comm, value);
    }
    return (double)(clock_ns() - start) / (2.0 * ROUNDS);
}

/* The best of some batches: what disturbs a batch only ever adds to it. */
static double measure(const struct comm *comm)
{
    int64_t until = clock_ns() + LIMIT_NS;
    double best = INFINITY;
    /* The operation's number makes the values new to every probe. */
    uint64_t first = comm->group.number << 16;
    for (int batch = 0; batch < BATCHES; batch++) {
        double time = time_batch(comm, first + 1 + (uint64_t)batch * ROUNDS, until);
        if (time < best)
            best = time;
    }
    return best < SHARED_CORE_NS ? best : 0;
}

plait_status comm_probe_line(struct comm *comm, double *line_ns)
{
    double measured = 0;
    if (comm->group.ranks > 1 && comm->group.board != NULL) {
        struct call barrier = { .kind = COLLECTIVE_BARRIER };
        plait_status status = calls_run(comm, &barrier);
        if (status != PLAIT_OK)
            return status;
        if (comm->group.rank < 2)
            measured = measure(comm);
        struct call share = { .kind = COLLECTIVE_BROADCAST,
                              .type = PLAIT_F64,
                              .count = 1,
                              .input = comm->group.rank == 0 ? &measured : NULL,
                              .output = &measured };
        status = calls_run(comm, &share);
        if (status != PLAIT_OK)
            return status;
    }
    *line_ns = measured;
    return PLAIT_OK;
}

plait_status plait_comm_measure_line(plait_comm *handle, double *line_ns)
{
    struct comm *comm = comm_find(handle, __func__);
    if (comm == NULL)
        return handle_refusal(handle);
    if (group_is_open())
        return group_refuse_open(__func__);
    if (line_ns == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: line_ns is NULL", __func__);
    return comm_probe_line(comm, line_ns);
}
