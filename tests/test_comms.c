/* Communicators: split, group, a thousand of them, threads of their own, deadlines, abort of one. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

/* A few collectives and a message on `comm` come out right. */
static bool comm_works(struct rank *rank, plait_comm *comm, const char *what)
{
    const int me = plait_comm_rank(comm), ranks = plait_comm_size(comm);
    int64_t value = me + 1, sum = 0, root = me == ranks - 1 ? 77 : 0, all[RANKS_MOST] = { 0 };
    rank_doing(rank, "using %s", what);
    if (!rank_ok(rank, plait_allreduce(comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), what) ||
        !rank_check(rank, sum == ranks * (ranks + 1) / 2, "%s: the sum is %lld", what, (long long)sum) ||
        !rank_ok(rank, plait_broadcast(comm, &root, 1, PLAIT_I64, ranks - 1, NULL), what) ||
        !rank_check(rank, root == 77, "%s: the broadcast gave %lld", what, (long long)root) ||
        !rank_ok(rank, plait_allgather(comm, &value, all, 1, PLAIT_I64, NULL), what))
        return false;
    for (int i = 0; i < ranks; i++)
        if (!rank_check(rank, all[i] == i + 1, "%s: block %d is %lld", what, i, (long long)all[i]))
            return false;
    return true;
}

/* Who is in `comm` at which place. */
static bool has_ranks(struct rank *rank, plait_comm *comm, const int *world_ranks, int count,
                      const char *what)
{
    if (!rank_check(rank, plait_comm_size(comm) == count, "%s has %d ranks, not %d", what,
                    plait_comm_size(comm), count))
        return false;
    for (int i = 0; i < count; i++) {
        if (!rank_check(rank, plait_comm_world_rank(comm, i) == world_ranks[i],
                        "%s: place %d is rank %d, not %d", what, i, plait_comm_world_rank(comm, i),
                        world_ranks[i]))
            return false;
        if (world_ranks[i] == rank->number &&
            !rank_check(rank, plait_comm_rank(comm) == i, "%s: I am %d, not %d", what, plait_comm_rank(comm),
                        i))
            return false;
    }
    rank_check(rank, plait_comm_world_rank(comm, -1) == -1 && plait_comm_world_rank(comm, count) == -1,
               "%s: a world rank of nobody", what);
    return true;
}

static void run_split(struct rank *rank)
{
    plait_comm *comm = NULL;
    int members[RANKS_MOST], count = 0;

    /* By parity, backwards. */
    for (int i = rank->size - 1; i >= 0; i--)
        if (i % 2 == rank->number % 2)
            members[count++] = i;
    if (!rank_ok(rank, plait_comm_split(rank->comm, rank->number % 2, -rank->number, NULL, &comm),
                 "split by parity"))
        return;
    has_ranks(rank, comm, members, count, "the half");
    comm_works(rank, comm, "the half");
    comm_works(rank, rank->comm, "the parent");

    /* Equal keys keep the parent's order; a split of a split. */
    plait_comm *again = NULL;
    rank_ok(rank, plait_comm_split(comm, 5, 3, NULL, &again), "split of the half");
    has_ranks(rank, again, members, count, "the half's copy");
    rank_ok(rank, plait_comm_destroy(comm), "destroying the half");
    comm_works(rank, again, "the half's copy, whose parent is gone");
    rank_ok(rank, plait_comm_destroy(again), "destroying the copy");
    rank_check(rank, plait_comm_rank(again) == -1 && plait_comm_size(again) == -1,
               "a destroyed communicator has a rank");
}

static void run_no_colour(struct rank *rank)
{
    plait_comm *comm = (plait_comm *)(intptr_t)1234;
    const int last = rank->size - 1;
    if (!rank_ok(
            rank,
            plait_comm_split(rank->comm, rank->number == last ? PLAIT_NO_COLOUR : 0x7fffffff, 0, NULL, &comm),
            "split"))
        return;
    if (rank->number == last) {
        rank_check(rank, comm == NULL, "no colour gave a communicator");
    } else {
        rank_check(rank, plait_comm_size(comm) == last, "%d ranks", plait_comm_size(comm));
        comm_works(rank, comm, "all but the last");
        rank_ok(rank, plait_comm_destroy(comm), "destroy");
    }
    comm_works(rank, rank->comm, "the world's own");
}

/* A colour each: communicators of one. */
static void run_alone(struct rank *rank)
{
    plait_comm *comm = NULL;
    if (!rank_ok(rank, plait_comm_split(rank->comm, rank->number, 0, NULL, &comm), "split"))
        return;
    has_ranks(rank, comm, &rank->number, 1, "mine alone");
    for (int i = 0; i < 10; i++)
        comm_works(rank, comm, "mine alone");
    rank_ok(rank, plait_barrier(comm, NULL), "barrier");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");
}

/* Pairs that overlap, all at once, with a tag each; those not in a group do not call. */
static void run_groups(struct rank *rank)
{
    const int left = (rank->number + rank->size - 1) % rank->size, right = (rank->number + 1) % rank->size;
    const int with_left[] = { left, rank->number }, with_right[] = { rank->number, right };
    plait_comm *lower = NULL, *upper = NULL;
    const bool first = rank->number != rank->size - 1; /* someone must begin, or all wait for their left */
    for (int i = 0; i < 2; i++) {
        rank_doing(rank, "making the group with my %s", (i == 0) == first ? "right" : "left");
        plait_status status = (i == 0) == first
                                  ? plait_comm_group(rank->comm, with_right, 2, rank->number, NULL, &upper)
                                  : plait_comm_group(rank->comm, with_left, 2, left, NULL, &lower);
        if (!rank_ok(rank, status, "group"))
            return;
    }
    has_ranks(rank, upper, with_right, 2, "the group with my right");
    has_ranks(rank, lower, with_left, 2, "the group with my left");
    plait_work *works[2] = { NULL };
    int values[2] = { rank->number, rank->number }, sums[2] = { 0 };
    rank_ok(rank, plait_allreduce(upper, &values[0], &sums[0], 1, PLAIT_I32, PLAIT_SUM, &works[0]),
            "all-reduce");
    rank_ok(rank, plait_allreduce(lower, &values[1], &sums[1], 1, PLAIT_I32, PLAIT_SUM, &works[1]),
            "all-reduce");
    for (int i = 0; i < 2; i++) {
        rank_ok(rank, plait_work_wait(works[i], -1), "waiting");
        plait_work_release(works[i]);
    }
    rank_check(rank, sums[0] == rank->number + right && sums[1] == rank->number + left, "sums %d and %d",
               sums[0], sums[1]);
    rank_ok(rank, plait_comm_destroy(upper), "destroy");
    rank_ok(rank, plait_comm_destroy(lower), "destroy");
}

/* A group in an order of its own, without rank 0, while rank 0 does something else. */
static void run_group_order(struct rank *rank)
{
    const int members[] = { 3, 1, 2 };
    plait_comm *comm = NULL;
    if (rank->number != 0) {
        if (!rank_ok(rank, plait_comm_group(rank->comm, members, 3, 0x7fffffff, NULL, &comm), "group"))
            return;
        has_ranks(rank, comm, members, 3, "the group");
        comm_works(rank, comm, "the group");
        struct trial trial;
        struct call call = { CALL_ALLTOALL, PLAIT_I32, PLAIT_SUM, 0, 5000 };
        struct layout layout = { .input_shift = 1 };
        rank_check(rank, trial_open(&trial, 20000, 3), "no memory");
        trial_run(rank, &trial, comm, &call, &layout, 4);
        trial_close(&trial);
    }
    comm_works(rank, rank->comm, "the world's own");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");
}

/* A thousand at a time, each with its own counter; then as many again. */
static void run_many(struct rank *rank)
{
    enum { MANY = 900 };
    static plait_comm *comms[4][MANY];
    const int turns = ranks_slowness() > 1 ? 1 : 2;
    for (int turn = 0; turn < turns && !rank_failed(rank); turn++) {
        plait_comm **mine = comms[rank->number];
        for (int i = 0; i < MANY; i++) {
            rank_doing(rank, "turn %d: split %d", turn, i);
            if (!rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &mine[i]), "split"))
                return;
        }
        for (int i = MANY - 1; i >= 0; i--) {
            int value = i, sum = 0;
            rank_doing(rank, "turn %d: all-reduce on %d", turn, i);
            if (!rank_ok(rank, plait_allreduce(mine[i], &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL),
                         "all-reduce") ||
                !rank_check(rank, sum == i * rank->size, "communicator %d: the sum is %d", i, sum))
                return;
        }
        for (int i = 0; i < MANY; i++) {
            rank_doing(rank, "turn %d: destroying %d", turn, i);
            rank_ok(rank, plait_comm_destroy(mine[(i * 7) % MANY]), "destroy");
        }
    }
}

/* More than fit: the one too many fails on all ranks with a sentence, and the others go on. */
static void run_too_many(struct rank *rank)
{
    enum { MANY = 3000 };
    static plait_comm *comms[2][MANY];
    plait_comm **mine = comms[rank->number];
    int made = 0;
    plait_status status = PLAIT_OK;
    while (made < MANY && status == PLAIT_OK) {
        rank_doing(rank, "split %d", made);
        status = plait_comm_split(rank->comm, 0, 0, NULL, &mine[made]);
        made += status == PLAIT_OK;
    }
    if (status != PLAIT_OK) {
        rank_check(rank, status == PLAIT_OUT_OF_RESOURCES || status == PLAIT_OUT_OF_MEMORY,
                   "communicator %d gave %s: %s", made, plait_status_name(status), plait_last_error());
        rank_check(rank, made >= 1000, "only %d communicators", made);
    }
    comm_works(rank, rank->comm, "the world's own");
    comm_works(rank, mine[made - 1], "the last one");
    for (int i = 0; i < made; i++)
        rank_ok(rank, plait_comm_destroy(mine[i]), "destroy");
    plait_comm *comm = NULL;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "a split after there is room again");
    comm_works(rank, comm, "a new one");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");
}

/* One rank destroys long before the others, who still use other communicators. */
static void run_destroyed_apart(struct rank *rank)
{
    plait_comm *comms[10] = { NULL };
    for (int i = 0; i < 10; i++)
        rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comms[i]), "split");
    for (int i = 0; i < 10; i++)
        comm_works(rank, comms[i], "one of ten");
    for (int i = 0; i < 10; i += 2)
        if (rank->number == 0)
            rank_ok(rank, plait_comm_destroy(comms[i]), "destroy");
    for (int i = 1; i < 10; i += 2)
        comm_works(rank, comms[i], "one that is left");
    plait_comm *fresh[3] = { NULL };
    for (int i = 0; i < 3; i++) /* where rank 0 has room that the others do not have yet */
        rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &fresh[i]), "split");
    for (int i = 0; i < 3; i++)
        comm_works(rank, fresh[i], "a fresh one");
    for (int i = 0; i < 10; i++)
        if (rank->number != 0 || i % 2 == 1)
            rank_ok(rank, plait_comm_destroy(comms[i]), "destroy");
    for (int i = 0; i < 3; i++) {
        comm_works(rank, fresh[i], "a fresh one, later");
        rank_ok(rank, plait_comm_destroy(fresh[i]), "destroy");
    }
}

/* A thread for each communicator of a rank. */
struct strand {
    struct rank *rank;
    plait_comm *comm;
    int number;
};

static void *run_strand(void *argument)
{
    struct strand *strand = argument;
    struct rank *rank = strand->rank;
    float *data = malloc(20000 * sizeof *data);
    for (int i = 0; i < 60 && !rank_failed(rank); i++) {
        const size_t count = i % 3 == 0 ? 20000 : 3;
        for (size_t j = 0; j < count; j++)
            data[j] = (float)(strand->number * 100 + i);
        const float wanted = (float)((strand->number * 100 + i) * rank->size);
        rank_ok(rank, plait_allreduce(strand->comm, data, data, count, PLAIT_F32, PLAIT_SUM, NULL),
                "all-reduce");
        rank_check(rank, data[0] == wanted && data[count - 1] == wanted, "strand %d, call %d: %g, not %g",
                   strand->number, i, (double)data[0], (double)wanted);
    }
    free(data);
    return NULL;
}

static void run_threads(struct rank *rank)
{
    enum { STRANDS = 3 };
    struct strand strands[STRANDS];
    pthread_t threads[STRANDS];
    for (int i = 0; i < STRANDS; i++) {
        strands[i] = (struct strand){ .rank = rank, .number = i };
        if (!rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &strands[i].comm), "split"))
            return;
    }
    rank_doing(rank, "a thread for each communicator");
    for (int i = 0; i < STRANDS; i++)
        rank_check(rank, pthread_create(&threads[i], NULL, run_strand, &strands[i]) == 0, "no thread");
    for (int i = 0; i < STRANDS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < STRANDS; i++)
        rank_ok(rank, plait_comm_destroy(strands[i].comm), "destroy");
}

/* Abort of one communicator ends that one on all ranks, and no other. */
static void run_abort_one(struct rank *rank)
{
    plait_comm *doomed = NULL, *other = NULL;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &doomed), "split");
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &other), "split");
    if (rank->number == 0) {
        sleep_ms(20);
        rank_ok(rank, plait_comm_abort(doomed, "the loss is not a number"), "abort");
        rank_status(rank, plait_barrier(doomed, NULL), PLAIT_ABORTED, "a barrier after one's own abort");
    } else {
        rank_doing(rank, "in a barrier that is aborted");
        rank_status(rank, plait_barrier(doomed, NULL), PLAIT_ABORTED, "a barrier that rank 0 aborts");
        rank_says(rank, "the loss is not a number");
        rank_says(rank, "rank 0");
        plait_fault fault = { .struct_size = sizeof fault };
        rank_ok(rank, plait_comm_fault(doomed, &fault), "asking for the fault");
        rank_check(rank,
                   fault.kind == PLAIT_FAULT_ABORTED && fault.culprit == 0 && fault.status == PLAIT_ABORTED,
                   "fault of kind %d, culprit %d", fault.kind, fault.culprit);
        rank_status(rank, plait_barrier(doomed, NULL), PLAIT_ABORTED, "a barrier after the abort");
    }
    comm_works(rank, other, "another communicator");
    comm_works(rank, rank->comm, "the world's own");
    rank_ok(rank, plait_comm_destroy(doomed), "destroying the aborted one");
    rank_ok(rank, plait_comm_destroy(other), "destroying the other");
    plait_fault none = { .struct_size = sizeof none };
    rank_ok(rank, plait_comm_fault(rank->comm, &none), "asking the world's own for a fault");
    rank_check(rank, none.kind == PLAIT_FAULT_NONE, "the world's own has a fault of kind %d", none.kind);
}

/* Reasons and names as nobody should give them. */
static void run_odd_texts(struct rank *rank)
{
    char text[6000];
    plait_comm *comm = NULL;
    memset(text, 'x', sizeof text);
    memcpy(text, "%s%n \xff\"\t", 8);
    text[sizeof text - 1] = '\0';
    plait_comm_options options = { .struct_size = sizeof options, .name = text };
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, &options, &comm), "split");
    if (rank->number == 0)
        rank_ok(rank, plait_comm_abort(comm, text), "abort");
    rank_status(rank, plait_barrier(comm, NULL), PLAIT_ABORTED, "a barrier on an aborted communicator");
    rank_says(rank, "%s%n");
    plait_fault fault = { .struct_size = sizeof fault };
    rank_ok(rank, plait_comm_fault(comm, &fault), "asking for the fault");
    rank_check(rank,
               memchr(fault.evidence, '\0', sizeof fault.evidence) != NULL &&
                   memchr(fault.host, '\0', sizeof fault.host) != NULL &&
                   memchr(fault.call, '\0', sizeof fault.call) != NULL,
               "a string of the fault has no end");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");

    comm = NULL;
    options.name = "";
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, &options, &comm), "split");
    if (rank->number == 0)
        rank_ok(rank, plait_comm_abort(comm, NULL), "abort without a reason");
    rank_status(rank, plait_barrier(comm, NULL), PLAIT_ABORTED, "a barrier on an aborted communicator");
    rank_says(rank, "rank 0");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");
    comm_works(rank, rank->comm, "the world's own");
}

/* A communicator's own deadline. */
static void run_own_deadline(struct rank *rank)
{
    plait_comm *comm = NULL;
    plait_comm_options options = { .struct_size = sizeof options, .timeout_ms = 150, .name = "evaluation" };
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, &options, &comm), "split");
    if (rank->number == 0) {
        const int64_t start = now_ns();
        rank_status(rank, plait_barrier(comm, NULL), PLAIT_TIMED_OUT, "a barrier alone");
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms >= 140 && took_ms < 2000, "a deadline of 150 ms took %lld ms",
                   (long long)took_ms);
        rank_says(rank, "evaluation");
        rank_says(rank, "rank 1");
    }
    rank_meet(rank);
    comm_works(rank, rank->comm, "the world's own");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");
}

static void run_facts(struct rank *rank)
{
    plait_world_facts facts = { .struct_size = sizeof facts };
    rank_ok(rank, plait_world_get_facts(rank->world, &facts), "asking for facts");
    rank_check(rank, facts.transport != NULL && facts.transport[0] != '\0', "no transport");
    rank_check(rank, facts.kernels != NULL && facts.kernels[0] != '\0', "no kernels");
    rank_check(rank, facts.cores >= 1 && facts.cores < 100000, "%d cores", facts.cores);
    rank_check(rank, facts.line_ns >= 0 && facts.line_ns < 1e8, "a line takes %g ns", facts.line_ns);
    rank_check(rank,
               plait_world_rank(rank->world) == rank->number && plait_world_size(rank->world) == rank->size,
               "rank %d of %d", plait_world_rank(rank->world), plait_world_size(rank->world));
    rank_check(rank,
               plait_world_local_size(rank->world) == rank->size &&
                   plait_world_local_rank(rank->world) == rank->number,
               "local rank %d of %d", plait_world_local_rank(rank->world),
               plait_world_local_size(rank->world));
    double line_ns = -1;
    rank_doing(rank, "measuring a line");
    rank_ok(rank, plait_comm_measure_line(rank->comm, &line_ns), "measuring a line");
    rank_check(rank, rank->size == 1 ? line_ns == 0 : line_ns >= 0 && line_ns < 1e8, "a line takes %g ns",
               line_ns);
    rank_check(rank, plait_world_comm(rank->world) == rank->comm, "the world's own is another one");
    rank_check(rank, plait_comm_last_plan(rank->comm) != NULL, "no last plan");
    comm_works(rank, rank->comm, "the world's own");
    rank_check(rank, plait_comm_last_plan(rank->comm)[0] != '\0', "no last plan after collectives");
}

#define BOTH(title, function, ranks)                                                                         \
    { title, function, { .way = RANKS_THREADS, .size = ranks }, NULL },                                      \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks }, NULL                                          \
    }

static const struct scenario scenarios[] = {
    BOTH("facts", run_facts, 1),
    BOTH("facts", run_facts, 3),
    BOTH("split", run_split, 1),
    BOTH("split", run_split, 2),
    BOTH("split", run_split, 7),
    BOTH("no colour", run_no_colour, 2),
    BOTH("no colour", run_no_colour, 5),
    BOTH("a colour each", run_alone, 4),
    BOTH("overlapping groups", run_groups, 3),
    BOTH("overlapping groups", run_groups, 6),
    BOTH("a group in its own order", run_group_order, 4),
    BOTH("nine hundred at a time", run_many, 2),
    BOTH("nine hundred at a time", run_many, 4),
    BOTH("one too many", run_too_many, 2),
    BOTH("destroyed at different times", run_destroyed_apart, 3),
    BOTH("a thread each", run_threads, 2),
    BOTH("a thread each", run_threads, 3),
    BOTH("abort of one", run_abort_one, 2),
    BOTH("abort of one", run_abort_one, 4),
    BOTH("odd names and reasons", run_odd_texts, 2),
    BOTH("odd names and reasons", run_odd_texts, 3),
    BOTH("a deadline of its own", run_own_deadline, 2),
};

int main(void)
{
    return scenarios_run("communicators", scenarios, LENGTH(scenarios));
}
