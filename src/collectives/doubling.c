/* Recursive doubling, through messages: after round i everybody knows what 2^i
 * ranks have, so log2(p) rounds do. For small sizes: each round moves the whole block.
 *
 * All-reduce after Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
 * Operations in MPICH" (2005): ceil(log2 p) rounds, each of m bytes a rank; two rounds more
 * where p is no power of two. Barrier by dissemination, after Hensgen, Finkel and Manber,
 * "Two algorithms for barrier synchronization" (1988): ceil(log2 p) rounds of empty messages, any p. */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/script.h"

static bool doubling_serves(enum collective kind, int ranks)
{
    return ranks > 1 && (kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_BARRIER);
}

/* How `ranks` become a power of two: of the first 2 * extra ranks each even one hands its
 * value to the odd one after it, which takes part for both. Places are numbered in the
 * order of ranks, so what a place has is always from a run of neighbouring ranks. */
struct fold {
    int rounds, extra;
};

static struct fold fold_of(int ranks)
{
    int rounds = log_floor(ranks);
    return (struct fold){ .rounds = rounds, .extra = ranks - (1 << rounds) };
}

static int rank_at(struct fold fold, int place)
{
    return place < fold.extra ? 2 * place + 1 : place + fold.extra;
}

/* -1 for a rank that has handed its value on. */
static int place_at(struct fold fold, int rank)
{
    if (rank >= 2 * fold.extra)
        return rank - fold.extra;
    return rank % 2 ? rank / 2 : -1;
}

static void doubling_shape(struct plan *plan)
{
    struct fold fold = fold_of(plan->ranks);
    if (plan->kind == COLLECTIVE_BARRIER) {
        plan->stages = log_ceiling(plan->ranks);
    } else {
        plan->stages = (fold.extra > 0) + fold.rounds + 1;
        plan->work_blocks = 2;
    }
}

static void lay_barrier(const struct plan *plan, int rank, struct script *script)
{
    const struct place nothing = { .buffer = BUFFER_NONE };
    for (int stage = 0; stage < plan->stages; stage++) {
        int distance = 1 << stage;
        script_recv(script, stage, (rank - distance + plan->ranks) % plan->ranks, nothing);
        script_send(script, stage, (rank + distance) % plan->ranks, nothing);
    }
}

/* The even rank of a pair: it hands its value on, and gets the result. */
static void lay_guest(int rank, int last, struct script *script)
{
    script_widen(script, 0, place_block(BUFFER_WORK, 0), place_block(BUFFER_INPUT, 0));
    script_send(script, 0, rank + 1, place_block(BUFFER_WORK, 0));
    script_recv(script, last, rank + 1, place_block(BUFFER_OUTPUT, 0));
}

static void doubling_lay(const struct plan *plan, int rank, struct script *script)
{
    /* What is sent must not change under way, so the sum goes on in one block and leaves from a copy. */
    const struct place sum = place_block(BUFFER_WORK, 0), copy = place_block(BUFFER_WORK, 1);
    const struct place output = place_block(BUFFER_OUTPUT, 0);
    struct fold fold = fold_of(plan->ranks);
    int place = place_at(fold, rank), stage = 0, last = plan->stages - 1;
    bool hosts = place >= 0 && place < fold.extra;

    if (plan->kind == COLLECTIVE_BARRIER) {
        lay_barrier(plan, rank, script);
        return;
    }
    if (place < 0) {
        lay_guest(rank, last, script);
        return;
    }

    script_widen(script, 0, sum, place_block(BUFFER_INPUT, 0));
    if (hosts)
        script_recv_reduce(script, 0, rank - 1, sum, true);
    stage = fold.extra > 0;
    for (int i = 0; i < fold.rounds; i++, stage++) {
        int other = place ^ 1 << i, peer = rank_at(fold, other);
        script_copy(script, stage, copy, sum);
        script_recv_reduce(script, stage, peer, sum, other < place);
        script_send(script, stage, peer, copy);
    }
    script_narrow(script, last, output, sum);
    if (hosts)
        script_send(script, last, rank - 1, output);
}

static double doubling_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double m = (double)size;
    struct fold fold = fold_of(plan->ranks);
    if (plan->kind == COLLECTIVE_BARRIER)
        return plan->stages * cost_message(facts);
    int rounds = fold.rounds + (fold.extra > 0 ? 2 : 0);
    return rounds * (cost_message(facts) + cost_carry(facts, m) + cost_fold(facts, 3 * m));
}

/* What a place has is from a run of neighbouring ranks, and places meet in their order. */
static enum fold_order doubling_folds(enum collective kind, int root)
{
    (void)root;
    return kind == COLLECTIVE_ALLREDUCE ? FOLDS_NEIGHBOURS : FOLDS_ANYHOW;
}

const struct planner planner_doubling = {
    .name = "doubling",
    .serves = doubling_serves,
    .folds = doubling_folds,
    .shape = doubling_shape,
    .lay = doubling_lay,
    .cost_ns = doubling_cost,
};
