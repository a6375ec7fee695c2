/* Calls of groups that can't match, memory taken away while it is in use, callers' functions that fail, are slow or die:
 * each gets an answer that names who and what, on all ranks concerned, and the communicator goes on where that is said. */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

enum { COUNT = 20000 };

static bool refused(struct rank *rank, plait_status got, plait_status wanted, const char *says)
{
    return rank_status(rank, got, wanted, says) && rank_says(rank, says);
}

static void still_works(struct rank *rank)
{
    int64_t value = 1, sum = 0;
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL),
            "a call after it");
    rank_check(rank, sum == rank->size, "the sum is %lld", (long long)sum);
}

/* ------------------------------------------------------------------- what can't match */

/* The same calls in another order: each pair is a mismatch, with both calls named on all ranks, and no more. */
static void run_crossed(struct rank *rank)
{
    int64_t data[2] = { 1, 2 }, sums[2] = { 7, 7 };
    plait_work *own[2] = { NULL, NULL }, *work = NULL;
    rank_ok(rank, plait_group_begin(), "begin");
    for (int i = 0; i < 2; i++) {
        if ((i == 0) == (rank->number == 0))
            rank_ok(rank, plait_scan(rank->comm, data, sums, 2, PLAIT_I64, PLAIT_SUM, &own[i]), "scan");
        else
            rank_ok(rank, plait_allreduce(rank->comm, data, sums, 2, PLAIT_I64, PLAIT_SUM, &own[i]),
                    "all-reduce");
    }
    rank_ok(rank, plait_group_end(&work), "end");
    for (int i = 0; i < 3; i++) {
        rank_status(rank, plait_work_wait(i < 2 ? own[i] : work, -1), PLAIT_MISMATCH, "waiting");
        rank_says(rank, "scan of 2 i64, sum");
        rank_says(rank, "all-reduce of 2 i64, sum");
        plait_work_release(i < 2 ? own[i] : work);
    }
    rank_check(rank, sums[0] == 7 && sums[1] == 7, "an output was touched");
    still_works(rank);
}

/* One groups, another prepares, others call one after another, or start works: all the same. */
static void run_one_groups(struct rank *rank)
{
    int64_t value = 1, sums[2] = { 0, 0 };
    const size_t counts[RANKS_MOST] = { 1 };
    plait_work *works[2] = { NULL, NULL };
    plait_prepared *prepared = NULL;
    const int way = rank->number % 4;
    if (way < 2)
        rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(
        rank,
        plait_allreduce(rank->comm, &value, &sums[0], 1, PLAIT_I64, PLAIT_SUM, way == 3 ? &works[0] : NULL),
        "all-reduce");
    rank_ok(rank,
            plait_reduce_scatterv(rank->comm, &value, &sums[1], counts, PLAIT_I64, PLAIT_MAX,
                                  way == 3 ? &works[1] : NULL),
            "reduce-scatterv");
    if (way == 0)
        rank_ok(rank, plait_group_end(NULL), "end");
    if (way == 1) {
        rank_ok(rank, plait_group_prepare(&prepared), "preparing");
        rank_ok(rank, plait_prepared_start(prepared, NULL), "starting");
        plait_prepared_release(prepared);
    }
    for (int i = 0; i < 2 && way == 3; i++) {
        rank_ok(rank, plait_work_wait(works[i], -1), "waiting");
        plait_work_release(works[i]);
    }
    rank_check(rank, sums[0] == rank->size && sums[1] == (rank->number == 0), "the sums are %lld and %lld",
               (long long)sums[0], (long long)sums[1]);
    still_works(rank);
}

/* Receives that nobody sends to, one rank that leaves out a call of the group: deadlines that say who. */
static void run_left_out(struct rank *rank)
{
    int64_t value = 1, sum = 0, got = 0;
    char who[32];
    const bool message = rank->context != NULL;
    const int odd = rank->size - 1;
    rank_ok(rank, plait_comm_set_timeout(rank->comm, 300), "setting the deadline");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    if (message)
        rank_ok(
            rank,
            plait_recv(rank->comm, &got, 1, PLAIT_I64, (rank->number + 1) % rank->size, 77, NULL, NULL, NULL),
            "receive");
    else if (rank->number != odd)
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    const plait_status status = plait_group_end(NULL);
    if (message || rank->number != odd) {
        snprintf(who, sizeof who, "rank %d", message ? (rank->number + 1) % rank->size : odd);
        rank_status(rank, status, PLAIT_TIMED_OUT, "the end");
        if (!message)
            rank_says(rank, who);
        rank_says(rank, message ? "tag 77" : "barrier");
    } else {
        rank_ok(rank, status, "the end");
    }
    rank_check(rank, sum == rank->size, "the sum is %lld", (long long)sum);
    rank_meet(rank);
}

/* ------------------------------------------------------------------------ memory in use */

/* Whatever uses it is named, and it is free again once that is done. */
static plait_status use_memory(struct rank *rank, int kind, int64_t *memory, plait_work **work,
                               plait_prepared **prepared)
{
    static const size_t counts[RANKS_MOST] = { 5, 5, 5, 5, 5 };
    plait_comm *comm = rank->comm;
    const int next = (rank->number + 1) % rank->size, last = (rank->number + rank->size - 1) % rank->size;
    plait_status status = PLAIT_OK;
    switch (kind) {
    case 0: return plait_scan(comm, memory, memory, COUNT, PLAIT_I64, PLAIT_SUM, work);
    case 1:
        return plait_allgatherv(comm, memory + 5 * rank->number, 5, memory, counts, NULL, PLAIT_I64, work);
    case 2: return plait_alltoallv(comm, memory, counts, NULL, memory, counts, NULL, PLAIT_I64, work);
    case 3:
        return plait_reduce_scatterv(comm, memory, memory + 5 * rank->number, counts, PLAIT_I64, PLAIT_SUM,
                                     work);
    default: break;
    }
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_barrier(comm, NULL), "barrier");
    if (kind % 2 == 0)
        rank_ok(rank, plait_allreduce(comm, memory, memory, COUNT, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    else {
        rank_ok(rank, plait_recv(comm, memory, COUNT, PLAIT_I64, last, 3, NULL, NULL, NULL), "receive");
        rank_ok(rank, plait_send(comm, memory + COUNT, COUNT, PLAIT_I64, next, 3, NULL), "send");
    }
    if (kind < 6)
        return plait_group_end(work);
    status = plait_group_prepare(prepared);
    return status == PLAIT_OK ? plait_prepared_start(*prepared, work) : status;
}

static void run_in_use(struct rank *rank)
{
    static const char *const uses[] = { "scan of",        "all-gatherv of",
                                        "all-to-allv of", "reduce-scatterv of",
                                        "all-reduce of",  "bytes of communicator",
                                        "all-reduce of",  "bytes of communicator" };
    const size_t size = 2 * COUNT * sizeof(int64_t) + 4096 - 2 * COUNT * sizeof(int64_t) % 4096;
    for (int kind = 0; kind < 8 && !rank_failed(rank); kind++)
        for (int registered = 0; registered < 2; registered++) {
            void *memory = NULL;
            plait_work *work = NULL;
            plait_prepared *prepared = NULL;
            rank_doing(rank, "memory in use, kind %d, registered %d", kind, registered);
            if (registered)
                memory = aligned_alloc(4096, size);
            rank_ok(rank,
                    registered ? plait_mem_register(rank->world, memory, size)
                               : plait_mem_alloc(rank->world, size, &memory),
                    "getting memory");
            memset(memory, 0, size);
            if (rank->number != 0)
                rank_meet(rank);
            rank_ok(rank, use_memory(rank, kind, memory, &work, &prepared), "the start");
            if (rank->number == 0) {
                refused(rank,
                        registered ? plait_mem_deregister(rank->world, memory)
                                   : plait_mem_free(rank->world, memory),
                        PLAIT_INVALID_USAGE, uses[kind]);
                rank_meet(rank);
            }
            rank_ok(rank, plait_work_wait(work, -1), "waiting");
            plait_work_release(work);
            rank_ok(rank,
                    registered ? plait_mem_deregister(rank->world, memory)
                               : plait_mem_free(rank->world, memory),
                    "giving it back");
            plait_prepared_release(prepared);
            if (registered)
                free(memory);
        }
}

/* ------------------------------------------------------------------- callers' functions */

struct moody {
    int error;
    int64_t sleep_ms;
    bool dies;
};

static int be_moody(void *context, const void *left, void *right, size_t count, plait_type type)
{
    const struct moody *moody = context;
    (void)left, (void)right, (void)count, (void)type;
    if (moody->dies)
        raise(SIGKILL);
    sleep_ms(moody->sleep_ms);
    return moody->error;
}

static plait_op moody_op(struct rank *rank, struct moody *moody, int commutative)
{
    plait_function_op options = {
        .name = "moody", .function = be_moody, .context = moody, .commutative = commutative
    };
    plait_op op = PLAIT_SUM;
    rank_ok(rank, plait_op_create_function(&options, &op), "making an operation");
    return op;
}

/* An error inside of groups and prepared calls fails that call on all ranks, and the others of the group go on. */
static void run_errors_in_groups(struct rank *rank)
{
    struct moody moody = { .error = 0 };
    static const size_t counts[RANKS_MOST] = { 3, 0, 700, 1 };
    static _Thread_local int64_t data[COUNT], out[COUNT];
    for (int turn = 0; turn < 12 && !rank_failed(rank); turn++) {
        const plait_op op = moody_op(rank, &moody, turn % 2);
        const int culprit = turn % rank->size;
        char who[64];
        int64_t value = 1, sum = 0;
        plait_prepared *prepared = NULL;
        rank_doing(rank, "turn %d", turn);
        rank_ok(rank, plait_group_begin(), "begin");
        rank_ok(rank, plait_allreduce(rank->comm, data, out, turn % 3 == 0 ? 1 : COUNT, PLAIT_I64, op, NULL),
                "a moody all-reduce");
        rank_ok(rank, plait_reduce_scatterv(rank->comm, data, out, counts, PLAIT_I64, op, NULL),
                "a moody reduce-scatterv");
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL),
                "another call");
        moody.error = rank->number == culprit ? 33 : 0;
        plait_status status;
        if (turn % 4 < 2) {
            status = plait_group_end(NULL);
        } else {
            rank_ok(rank, plait_group_prepare(&prepared), "preparing");
            status = plait_prepared_start(prepared, NULL);
        }
        rank_status(rank, status, PLAIT_CALLER_FAILED, "a group with a function that fails");
        snprintf(who, sizeof who, "\"moody\" returned 33 on rank %d", culprit);
        rank_says(rank, who);
        rank_check(rank, sum == rank->size, "the other call gave %lld", (long long)sum);
        moody.error = 0;
        rank_ok(rank, plait_op_destroy(op), "destroying an operation");
        if (prepared != NULL)
            rank_ok(rank, plait_prepared_start(prepared, NULL), "the same calls, in a better mood");
        plait_prepared_release(prepared);
        still_works(rank);
    }
}

/* A function that takes longer than the deadline; what it is called on is told to all others. */
static void run_slow_function(struct rank *rank)
{
    struct moody moody = { .sleep_ms = rank->number == 0 ? 900 : 0 };
    int64_t value = 1, sum = 0;
    plait_op op = moody_op(rank, &moody, 0);
    rank_ok(rank, plait_comm_set_timeout(rank->comm, 250), "setting the deadline");
    plait_status status = plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, op, NULL);
    if (rank->number != 0)
        refused(rank, status, PLAIT_TIMED_OUT, "rank 0");
    else
        rank_check(rank, status == PLAIT_TIMED_OUT || status == PLAIT_OK, "it gave %s",
                   plait_status_name(status));
    rank_ok(rank, plait_op_destroy(op), "destroying an operation");
    rank_meet(rank);
}

static void run_deadly_function(struct rank *rank)
{
    struct moody moody = { .dies = rank->number == 1 };
    static int64_t data[COUNT], out[COUNT];
    const plait_op op = moody_op(rank, &moody, 1);
    plait_status status = PLAIT_OK;
    for (int i = 0; i < 3 && status == PLAIT_OK; i++)
        status = plait_allreduce(rank->comm, data, out, COUNT, PLAIT_I64, op, NULL);
    refused(rank, status, PLAIT_PEER_LOST, "rank 1");
}

static void a_function_dies(void **state)
{
    (void)state;
    const struct ranks_setup setup = { .way = RANKS_FILE, .size = 3 };
    struct ranks *ranks = ranks_start(&setup, run_deadly_function, NULL);
    ranks_excuse(ranks, 1);
    ranks_finish(ranks);
}

#define THREADS(title, function, ranks)                                                                      \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }
#define PROCESSES(title, function, ranks)                                                                    \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks }, NULL                                          \
    }

static const struct scenario scenarios[] = {
    THREADS("calls in another order", run_crossed, 2),
    PROCESSES("calls in another order", run_crossed, 4),
    THREADS("one rank groups", run_one_groups, 4),
    PROCESSES("one rank groups", run_one_groups, 5),
    THREADS("a call is left out", run_left_out, 2),
    PROCESSES("a call is left out", run_left_out, 3),
    { "receives without sends", run_left_out, { .way = RANKS_THREADS, .size = 2 }, "" },
    { "receives without sends", run_left_out, { .way = RANKS_FILE, .size = 3 }, "" },
    THREADS("memory in use", run_in_use, 2),
    PROCESSES("memory in use", run_in_use, 3),
    THREADS("functions that fail in groups", run_errors_in_groups, 2),
    PROCESSES("functions that fail in groups", run_errors_in_groups, 4),
    THREADS("a slow function", run_slow_function, 2),
    PROCESSES("a slow function", run_slow_function, 3),
};

int main(void)
{
    const struct CMUnitTest deaths[] = { cmocka_unit_test(a_function_dies) };
    int failed = scenarios_run("clashes", scenarios, LENGTH(scenarios));
    return failed + cmocka_run_group_tests_name("clashes and deaths", deaths, NULL, NULL);
}
