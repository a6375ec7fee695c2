/* Ranks that make different calls: PLAIT_MISMATCH on all of them, a sentence that holds both calls, nothing
 * written anywhere, and the next matching call succeeds. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "calls.h"

enum { MOST = 40000 }; /* elements */

/* What the odd one does otherwise. */
enum deviation {
    DEVIATES_COUNT,
    DEVIATES_LESS,
    DEVIATES_TYPE,
    DEVIATES_OP,
    DEVIATES_ROOT,
    DEVIATES_KIND,
    DEVIATIONS
};

/* `call`, as the odd rank makes it; false if that kind can't deviate so. */
static bool deviate(struct call *call, enum deviation deviation, int ranks, uint64_t random)
{
    switch (deviation) {
    case DEVIATES_COUNT: call->count += 1; return call->kind != CALL_BARRIER;
    case DEVIATES_LESS: call->count = call->count > 100 ? 3 : 0; return call->kind != CALL_BARRIER;
    case DEVIATES_TYPE: /* of the same size */ call->type = PLAIT_I32; return call->kind != CALL_BARRIER;
    case DEVIATES_OP: call->op = PLAIT_MAX; return call_reduces(call->kind);
    case DEVIATES_ROOT: call->root = (call->root + 1) % ranks; return call_has_root(call->kind);
    default:
        call->kind = (enum call_kind)((call->kind + 1 + random % (CALL_KINDS - 1)) % CALL_KINDS);
        return true;
    }
}

/* The sentence has this call in it, as far as it is a fact of it. */
static void tells(struct rank *rank, const char *sentence, const struct call *call)
{
    char count[24];
    snprintf(count, sizeof count, "%zu", call->count);
    rank_check(rank, strstr(sentence, call_name(call->kind)) != NULL, "the sentence lacks \"%s\": %s",
               call_name(call->kind), sentence);
    if (call->kind == CALL_BARRIER)
        return;
    rank_check(rank, strstr(sentence, count) != NULL, "the sentence lacks the count %s: %s", count, sentence);
    rank_check(rank, strstr(sentence, plait_type_name(call->type)) != NULL, "the sentence lacks the type: %s",
               sentence);
    if (call_reduces(call->kind))
        rank_check(rank, strstr(sentence, plait_op_name(call->op)) != NULL,
                   "the sentence lacks the operation: %s", sentence);
}

static void judge(struct rank *rank, plait_status status, const struct call *usual,
                  const struct call *deviant, const char *what)
{
    char sentence[1000];
    if (!rank_status(rank, status, PLAIT_MISMATCH, what))
        return;
    snprintf(sentence, sizeof sentence, "%s", plait_last_error());
    tells(rank, sentence, usual);
    tells(rank, sentence, deviant);
    plait_fault fault = { .struct_size = sizeof fault };
    rank_ok(rank, plait_comm_fault(rank->comm, &fault), "asking for the fault");
    rank_check(rank,
               fault.kind == PLAIT_FAULT_MISMATCH && fault.status == PLAIT_MISMATCH && fault.culprit >= 0,
               "%s: fault of kind %d, %s, culprit %d", what, fault.kind, plait_status_name(fault.status),
               fault.culprit);
}

/* One mismatch of one rank, then a matching call. */
static bool mismatch(struct rank *rank, struct trial *trial, struct call usual, enum deviation deviation,
                     uint64_t random)
{
    const int odd = (int)(random >> 8 & 0xff) % rank->size;
    struct call deviant = usual;
    char text[120], other[120], why[300], what[400];
    if (!deviate(&deviant, deviation, rank->size, random >> 16))
        return true;
    const struct call *mine = rank->number == odd ? &deviant : &usual;
    struct layout layout = layout_drawn(mine->kind, mix(random));
    layout.in_place = false;
    layout.special = false;
    snprintf(what, sizeof what, "%s, where rank %d makes %s", call_text(&usual, text, sizeof text), odd,
             call_text(&deviant, other, sizeof other));
    rank_doing(rank, "%s", what);
    trial_prepare(trial, mine, &layout, random, rank->number, rank->size);

    plait_status status;
    if (random >> 40 & 1) {
        plait_work *work = NULL;
        status = trial_call(trial, rank->comm, &work);
        if (status == PLAIT_OK)
            status = plait_work_wait(work, -1);
        judge(rank, status, &usual, &deviant, what);
        plait_work_release(work);
    } else {
        status = trial_call(trial, rank->comm, NULL);
        judge(rank, status, &usual, &deviant, what);
    }
    rank_check(rank, trial_untouched(trial, why, sizeof why), "%s: %s", what, why);
    if (rank_failed(rank))
        return false;
    return trial_run(rank, trial, rank->comm, &usual, &layout, random + 1);
}

static void run_mismatches(struct rank *rank)
{
    static const size_t counts[] = { 1, 5, 1000, MOST - 1 };
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, MOST * 4, rank->size), "no memory"))
        return;
    for (int kind = 0; kind < CALL_KINDS && !rank_failed(rank); kind++)
        for (size_t i = 0; i < LENGTH(counts) && !rank_failed(rank); i++)
            for (int deviation = 0; deviation < DEVIATIONS && !rank_failed(rank); deviation++) {
                struct call usual = { (enum call_kind)kind, PLAIT_F32, PLAIT_SUM, (int)i % rank->size,
                                      counts[i] };
                const uint64_t random =
                    mix(test_settings()->seed * 77 + (uint64_t)(kind * 1000 + deviation * 10) + i);
                if (random >> 50 <= (UINT64_C(1) << 14) * (uint64_t)test_settings()->scale / 100)
                    mismatch(rank, &trial, usual, (enum deviation)deviation, random);
            }
    trial_close(&trial);
}

/* Every rank makes a call of its own. */
static void run_all_different(struct rank *rank)
{
    int32_t input[40] = { 0 }, output[40];
    memset(output, 0x5c, sizeof output);
    for (int turn = 0; turn < 20 && !rank_failed(rank); turn++) {
        const size_t count = (size_t)(rank->number + 1);
        rank_doing(rank, "turn %d", turn);
        rank_status(rank, plait_allreduce(rank->comm, input, output, count, PLAIT_I32, PLAIT_SUM, NULL),
                    PLAIT_MISMATCH, "counts that all differ");
        rank_says(rank, "all-reduce");
        rank_check(rank, output[0] == 0x5c5c5c5c, "the output was written");
    }
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
}

/* A mismatch in the midst of works: those before and after it are right. */
static void run_in_flight(struct rank *rank)
{
    enum { WORKS = 9 };
    int64_t values[WORKS], sums[WORKS];
    plait_work *works[WORKS] = { NULL };
    for (int i = 0; i < WORKS; i++) {
        const bool odd = i % 3 == 1 && rank->number == 0;
        values[i] = i;
        sums[i] = -5;
        rank_ok(rank,
                plait_allreduce(rank->comm, &values[i], &sums[i], 1, PLAIT_I64, odd ? PLAIT_MIN : PLAIT_SUM,
                                &works[i]),
                "all-reduce");
    }
    for (int i = 0; i < WORKS; i++) {
        const bool bad = i % 3 == 1;
        rank_doing(rank, "waiting for work %d", i);
        rank_status(rank, plait_work_wait(works[i], -1), bad ? PLAIT_MISMATCH : PLAIT_OK, "a work");
        rank_check(rank, sums[i] == (bad ? -5 : i * rank->size), "work %d gave %lld", i, (long long)sums[i]);
        plait_fault fault = { .struct_size = sizeof fault };
        rank_ok(rank, plait_work_fault(works[i], &fault), "asking for the work's fault");
        rank_check(rank, fault.kind == (bad ? PLAIT_FAULT_MISMATCH : PLAIT_FAULT_NONE), "fault of kind %d",
                   fault.kind);
        if (bad)
            rank_check(rank,
                       fault.operation_number == (uint64_t)i + 1 &&
                           strcmp(fault.operation, "all-reduce") == 0 &&
                           strstr(fault.call, rank->number == 0 ? "min" : "sum") != NULL,
                       "fault of operation %llu, %s, call \"%s\"", (unsigned long long)fault.operation_number,
                       fault.operation, fault.call);
        plait_work_release(works[i]);
    }
}

/* Calls that look alike but belong to the communicator's other operations do match by their turn only. */
static void run_split_against_call(struct rank *rank)
{
    plait_comm *comm = NULL;
    int value = 1, sum = -1;
    if (rank->number == 0)
        rank_status(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), PLAIT_MISMATCH,
                    "a split against an all-reduce");
    else
        rank_status(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL),
                    PLAIT_MISMATCH, "an all-reduce against a split");
    rank_check(rank, sum == -1 && comm == NULL, "something was written");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
}

#define ROW(title, function, ranks)                                                                          \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }
#define PLAN(name, ranks)                                                                                    \
    {                                                                                                        \
        "one differs, " name, run_mismatches, { .way = RANKS_THREADS, .size = ranks, .plan = name }, NULL    \
    }

static const struct scenario scenarios[] = {
    ROW("one differs", run_mismatches, 2),
    ROW("one differs", run_mismatches, 3),
    ROW("one differs", run_mismatches, 4),
    ROW("one differs", run_mismatches, 5),
    PLAN("doubling", 4),
    PLAN("ring", 3),
    PLAN("tree", 5),
    PLAN("chain", 3),
    PLAN("pairwise", 3),
    PLAN("direct-two-phase", 3),
    { "one differs", run_mismatches, { .way = RANKS_FILE, .size = 3 }, NULL },
    { "one differs, stacks of 64 KiB",
      run_mismatches,
      { .way = RANKS_THREADS, .size = 2, .stack_size = 65536 },
      NULL },
    ROW("all differ", run_all_different, 2),
    ROW("all differ", run_all_different, 5),
    ROW("one of many works differs", run_in_flight, 2),
    ROW("one of many works differs", run_in_flight, 4),
    ROW("a split against another call", run_split_against_call, 2),
    ROW("a split against another call", run_split_against_call, 3),
};

int main(void)
{
    return scenarios_run("mismatches", scenarios, LENGTH(scenarios));
}
