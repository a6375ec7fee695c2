/* The v-forms: ranks 1..9 x planners x lengths with zeros and primes x gaps x in place x works, over threads and
 * processes, against a plain reference; counts that ranks disagree on; bad counts. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "uneven.h"

enum { MOST = 3001 };

static struct uneven_call drawn_call(uint64_t random, int ranks, size_t most)
{
    struct uneven_call call = {
        .kind = (enum uneven_kind)(random % UNEVEN_KINDS),
        .root = (int)(random >> 24 & 0xff) % ranks,
        .most = (random >> 32 & 3) == 0   ? 5
                : (random >> 32 & 3) == 1 ? 40
                                          : most,
        .in_place = random >> 40 & 1,
        .gaps = random >> 41 & 1,
        .seed = mix(random),
    };
    data_choose(random, call.kind == UNEVEN_REDUCE_SCATTER, &call.type, &call.op);
    return call;
}

/* Drawn calls, small ones and such of many chunks' length among them; now and then an even call in between. */
static void run_drawn(struct rank *rank)
{
    struct uneven_trial trial;
    struct trial even;
    if (!rank_check(rank,
                    uneven_open(&trial, MOST * DATA_MOST_SIZE, rank->size) &&
                        trial_open(&even, 800, rank->size),
                    "no memory"))
        return;
    bool good = true;
    const int calls = (rank->size > 9 ? 1 : 6) * test_settings()->scale;
    for (int i = 0; i < calls && good; i++) {
        const uint64_t random = mix(test_settings()->seed * 7919 + (uint64_t)(i * RANKS_MOST + rank->size));
        struct uneven_call call = drawn_call(random, rank->size, MOST);
        good = uneven_run(rank, &trial, &call, random >> 42 & 1);
        if (good && random >> 43 & 1) {
            struct call plain = { (enum call_kind)((random >> 44) % CALL_KINDS), PLAIT_I32, PLAIT_SUM, 0,
                                  (random >> 50) % 100 };
            struct layout layout = { .in_place = false };
            good = trial_run(rank, &even, rank->comm, &plain, &layout, random);
        }
    }
    uneven_close(&trial);
    trial_close(&even);
}

/* Blocks of many chunks beside empty ones. */
static void run_large(struct rank *rank)
{
    enum { LARGE = 700001 };
    struct uneven_trial trial;
    if (!rank_check(rank, uneven_open(&trial, LARGE * 4, rank->size), "no memory"))
        return;
    for (int kind = 0; kind < UNEVEN_KINDS * 2 && !rank_failed(rank); kind++) {
        const bool in_place = kind >= UNEVEN_KINDS;
        struct uneven_call call = { .kind = (enum uneven_kind)(kind % UNEVEN_KINDS),
                                    .type = PLAIT_F32,
                                    .op = PLAIT_SUM,
                                    .root = rank->size - 1,
                                    .most = ranks_slowness() > 1 ? LARGE / 5 : LARGE,
                                    .in_place = in_place,
                                    .gaps = in_place,
                                    .seed = mix((uint64_t)kind) };
        uneven_run(rank, &trial, &call, false);
    }
    uneven_close(&trial);
}

/* Works of v-forms in flight together keep their own counts. */
static void run_in_flight(struct rank *rank)
{
    enum { WORKS = 12 };
    struct uneven_trial trials[WORKS];
    plait_work *works[WORKS] = { NULL };
    char why[300];
    for (int i = 0; i < WORKS; i++) {
        struct uneven_call call = drawn_call(mix((uint64_t)(i + 100)), rank->size, 500);
        if (!rank_check(rank, uneven_open(&trials[i], 500 * DATA_MOST_SIZE, rank->size), "no memory"))
            return;
        uneven_prepare(&trials[i], &call, rank->number, rank->size);
        rank_ok(rank, uneven_make(&trials[i], rank->comm, &works[i]), uneven_name(call.kind));
    }
    for (int i = 0; i < WORKS; i++) {
        rank_doing(rank, "waiting for work %d", i);
        rank_ok(rank, plait_work_wait(works[i], -1), "a work");
        rank_check(rank, uneven_right(&trials[i], why, sizeof why), "work %d: %s", i, why);
        plait_work_release(works[i]);
        uneven_close(&trials[i]);
    }
}

/* --------------------------------------------------------------- disagreement */

/* One rank's own count, or one of the counts that it has of others, is another. */
static void disagree(struct rank *rank, struct uneven_trial *trial, struct uneven_call call, int odd,
                     int turn)
{
    char why[300];
    const int root = call.root, victim = (odd + 1) % rank->size;
    uneven_prepare(trial, &call, rank->number, rank->size);
    if (rank->number == odd) {
        if (call.kind == UNEVEN_ALLGATHER || (call.kind == UNEVEN_GATHER && odd == root))
            trial->output_counts[victim] += 1;
        else if (call.kind == UNEVEN_GATHER)
            trial->input_counts[0] += 1;
        else if (call.kind == UNEVEN_SCATTER && odd != root)
            trial->output_counts[0] += 1;
        else
            trial->input_counts[victim] += 1;
        trial->input = trial->input_room.room; /* room enough for a wrong count */
        trial->output = trial->output_room.room;
        trial->input_size = trial->output_size = 1;
    }
    rank_doing(rank, "%s in which rank %d has another count, turn %d", uneven_name(call.kind), odd, turn);
    plait_status status;
    plait_work *work = NULL;
    if (turn % 2 == 0) {
        status = uneven_make(trial, rank->comm, NULL);
    } else {
        status = uneven_make(trial, rank->comm, &work);
        if (status == PLAIT_OK)
            status = plait_work_wait(work, -1);
    }
    if (rank_status(rank, status, PLAIT_MISMATCH, uneven_name(call.kind))) {
        rank_says(rank, uneven_name(call.kind));
        rank_says(rank, call.kind <= UNEVEN_REDUCE_SCATTER ? "differ first at counts[" : "which expects");
        rank_says(rank, "no output was touched");
    }
    plait_work_release(work);
    plait_fault fault = { .struct_size = sizeof fault };
    rank_ok(rank, plait_comm_fault(rank->comm, &fault), "asking for the fault");
    rank_check(rank,
               fault.kind == PLAIT_FAULT_MISMATCH && fault.culprit >= 0 &&
                   strcmp(fault.operation, uneven_name(call.kind)) == 0,
               "a fault of kind %d, culprit %d, operation %s", fault.kind, fault.culprit, fault.operation);
    if (rank->number != odd)
        rank_check(rank, uneven_untouched(trial, why, sizeof why), "%s: %s", uneven_name(call.kind), why);
}

static void run_disagreements(struct rank *rank)
{
    static const size_t lengths[] = { 4, 2000 };
    struct uneven_trial trial;
    if (!rank_check(rank, uneven_open(&trial, MOST * DATA_MOST_SIZE, rank->size), "no memory"))
        return;
    for (int turn = 0; turn < UNEVEN_KINDS * 8 && !rank_failed(rank); turn++) {
        struct uneven_call call = drawn_call(mix((uint64_t)turn), rank->size, MOST);
        call.kind = (enum uneven_kind)(turn % UNEVEN_KINDS);
        call.type = PLAIT_I32;
        call.most = lengths[turn / UNEVEN_KINDS % 2];
        call.in_place = false;
        call.gaps = false;
        disagree(rank, &trial, call, turn / 3 % rank->size, turn);
        if (!rank_failed(rank))
            uneven_run(rank, &trial, &call, false);
    }
    uneven_close(&trial);
}

/* The sentence names both ranks and both numbers; operations are counted as a caller makes them. */
static void run_sentence(struct rank *rank)
{
    int32_t input[8] = { 0 }, output[16];
    const size_t ones[2] = { 1, 1 }, own = rank->number == 1 ? 7 : 1, counts[2] = { 1, 8 };
    for (int i = 0; i < 3; i++)
        rank_ok(rank, plait_alltoallv(rank->comm, input, ones, NULL, output, ones, NULL, PLAIT_I32, NULL),
                "all-to-allv");
    rank_status(rank, plait_gatherv(rank->comm, input, own, output, counts, NULL, PLAIT_I32, 0, NULL),
                PLAIT_MISMATCH, "gatherv");
    rank_says(rank, "operation 4, gatherv of i32");
    rank_says(rank, "rank 1 sends 7 elements to rank 0, which expects 8");
    rank_status(rank,
                plait_allgatherv(rank->comm, input, 1, output, rank->number == 1 ? (size_t[]){ 2, 1 } : ones,
                                 NULL, PLAIT_I32, NULL),
                PLAIT_MISMATCH, "all-gatherv");
    rank_says(rank, "operation 5");
    rank_says(rank, "all-gatherv of 3 i32");
    rank_says(rank, "all-gatherv of 2 i32");
    rank_says(rank, "whose counts differ first at counts[0]");
    if (rank->number == 0)
        rank_status(rank, plait_allgather(rank->comm, input, output, 1, PLAIT_I32, NULL), PLAIT_MISMATCH,
                    "an all-gather against an all-gatherv");
    else
        rank_status(rank, plait_allgatherv(rank->comm, input, 1, output, ones, NULL, PLAIT_I32, NULL),
                    PLAIT_MISMATCH, "an all-gatherv against an all-gather");
    rank_status(rank,
                rank->number == 0
                    ? plait_barrier(rank->comm, NULL)
                    : plait_alltoallv(rank->comm, input, ones, NULL, output, ones, NULL, PLAIT_I32, NULL),
                PLAIT_MISMATCH, "an all-to-allv against a barrier");
    rank_says(rank, "all-to-allv of 2 i32");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
}

/* -------------------------------------------------------------------- bad input */

static void refused(struct rank *rank, plait_status status, const char *piece)
{
    rank_doing(rank, "a call that should fail by \"%s\"", piece);
    if (rank_status(rank, status, PLAIT_INVALID_ARGUMENT, piece))
        rank_says(rank, piece);
}

static void run_bad_input(struct rank *rank)
{
    plait_comm *comm = rank->comm;
    int32_t room[64] = { 0 }, other[64] = { 0 };
    const size_t me = (size_t)rank->number, two[2] = { 2, 2 }, three[2] = { 3, 3 };
    size_t bad[2] = { 2, 2 };
    const size_t far = PTRDIFF_MAX / 4;

    bad[1 - me] = (size_t)-1;
    refused(rank, plait_allgatherv(comm, room, 2, other, bad, NULL, PLAIT_I32, NULL),
            me == 0 ? "counts[1] is -1" : "counts[0] is -1");
    refused(rank, plait_alltoallv(comm, room, two, bad, other, two, NULL, PLAIT_I32, NULL),
            me == 0 ? "input_displacements[1] is -1" : "input_displacements[0] is -1");
    bad[1 - me] = far + 1;
    refused(rank, plait_allgatherv(comm, room, 2, other, bad, NULL, PLAIT_I32, NULL), "can be addressed");
    bad[1 - me] = far - 1;
    refused(rank, plait_reduce_scatterv(comm, room, other, bad, PLAIT_I32, PLAIT_SUM, NULL),
            "sum to more than");
    refused(rank, plait_alltoallv(comm, room, two, NULL, other, two, bad, PLAIT_I32, NULL),
            "together that is more than");
    refused(rank, plait_allgatherv(comm, room, 2, other, NULL, NULL, PLAIT_I32, NULL), "counts is NULL");
    refused(rank, plait_reduce_scatterv(comm, room, other, NULL, PLAIT_I32, PLAIT_SUM, NULL),
            "counts is NULL");
    refused(rank, plait_alltoallv(comm, room, NULL, NULL, other, two, NULL, PLAIT_I32, NULL),
            "input_counts is NULL");
    refused(rank, plait_alltoallv(comm, room, two, NULL, other, NULL, NULL, PLAIT_I32, NULL),
            "output_counts is NULL");
    refused(rank, plait_allgatherv(comm, room, 3, other, two, NULL, PLAIT_I32, NULL),
            "count is 3 and counts[");
    refused(rank, plait_alltoallv(comm, room, two, NULL, other, three, NULL, PLAIT_I32, NULL),
            "sends itself 2");
    refused(rank, plait_gatherv(comm, room, 3, other, two, NULL, PLAIT_I32, (int)me, NULL), "count is 3");
    refused(rank, plait_scatterv(comm, room, two, NULL, other, 1, PLAIT_I32, (int)me, NULL), "count is 1");
    refused(rank, plait_allgatherv(comm, room, 2, other, two, (size_t[]){ 3, 2 }, PLAIT_I32, NULL),
            "overlap");
    refused(rank, plait_allgatherv(comm, NULL, 2, other, two, NULL, PLAIT_I32, NULL), "input is NULL");
    refused(rank, plait_allgatherv(comm, room, 2, NULL, two, NULL, PLAIT_I32, NULL), "output is NULL");
    refused(rank, plait_allgatherv(comm, room + 1, 2, room, two, NULL, PLAIT_I32, NULL), "overlap");
    refused(rank, plait_reduce_scatterv(comm, room, room + 1, two, PLAIT_I32, PLAIT_SUM, NULL), "overlap");
    refused(rank, plait_alltoallv(comm, room, two, NULL, room, two, (size_t[]){ 2, 0 }, PLAIT_I32, NULL),
            "overlap");
    refused(rank, plait_allgatherv(comm, room, 2, other, two, NULL, (plait_type)99, NULL), "type is 99");
    refused(rank, plait_gatherv(comm, room, 2, other, two, NULL, PLAIT_I32, 2, NULL), "root is 2");
    refused(rank, plait_reduce_scatterv(comm, room, other, two, PLAIT_I32, (plait_op)77, NULL), "op is 77");
    rank_status(rank, plait_allgatherv(NULL, room, 2, other, two, NULL, PLAIT_I32, NULL),
                PLAIT_INVALID_ARGUMENT, "no communicator");
    rank_ok(rank, plait_allgatherv(comm, room, 2, other, two, (size_t[]){ 5, 2 }, PLAIT_I32, NULL),
            "an all-gatherv after the bad ones");
}

/* Nothing at all is fine, with displacements that mean nothing. */
static void run_nothing(struct rank *rank)
{
    const size_t none[RANKS_MOST] = { 0 };
    size_t wild[RANKS_MOST];
    memset(wild, 0xff, sizeof wild);
    rank_ok(rank, plait_allgatherv(rank->comm, NULL, 0, NULL, none, wild, PLAIT_F64, NULL), "all-gatherv");
    rank_ok(rank, plait_reduce_scatterv(rank->comm, NULL, NULL, none, PLAIT_F64, PLAIT_SUM, NULL),
            "reduce-scatterv");
    rank_ok(rank, plait_gatherv(rank->comm, NULL, 0, NULL, none, wild, PLAIT_F64, 0, NULL), "gatherv");
    rank_ok(rank, plait_scatterv(rank->comm, NULL, none, wild, NULL, 0, PLAIT_F64, 0, NULL), "scatterv");
    rank_ok(rank, plait_alltoallv(rank->comm, NULL, none, wild, NULL, none, wild, PLAIT_F64, NULL),
            "all-to-allv");
}

#define ROW(title, function, ranks)                                                                          \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }
#define PLAN(name, ranks)                                                                                    \
    {                                                                                                        \
        "drawn, " name, run_drawn, { .way = RANKS_THREADS, .size = ranks, .plan = name }, NULL               \
    }

static const struct scenario scenarios[] = {
    ROW("nothing", run_nothing, 1),
    ROW("nothing", run_nothing, 3),
    ROW("drawn", run_drawn, 1),
    ROW("drawn", run_drawn, 2),
    ROW("drawn", run_drawn, 3),
    ROW("drawn", run_drawn, 4),
    ROW("drawn", run_drawn, 5),
    ROW("drawn", run_drawn, 6),
    ROW("drawn", run_drawn, 7),
    ROW("drawn", run_drawn, 8),
    ROW("drawn", run_drawn, 9),
    PLAN("direct", 3),
    PLAN("ring", 2),
    PLAN("ring", 5),
    PLAN("pairwise", 2),
    PLAN("pairwise", 5),
    { "drawn, more ranks than a notice has counts for",
      run_drawn,
      { .way = RANKS_THREADS, .size = 37, .limit_s = 300 },
      NULL },
    { "drawn", run_drawn, { .way = RANKS_FILE, .size = 2 }, NULL },
    { "drawn", run_drawn, { .way = RANKS_FILE, .size = 5 }, NULL },
    ROW("large", run_large, 1),
    ROW("large", run_large, 2),
    ROW("large", run_large, 3),
    ROW("works in flight", run_in_flight, 2),
    ROW("works in flight", run_in_flight, 5),
    ROW("counts that differ", run_disagreements, 2),
    ROW("counts that differ", run_disagreements, 3),
    ROW("counts that differ", run_disagreements, 6),
    { "counts that differ", run_disagreements, { .way = RANKS_FILE, .size = 3 }, NULL },
    ROW("the sentence", run_sentence, 2),
    ROW("bad input", run_bad_input, 2),
};

int main(void)
{
    return scenarios_run("v-forms", scenarios, LENGTH(scenarios));
}
