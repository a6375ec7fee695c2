/* Recursive doubling, through messages: after round i everybody knows what 2^i
 * ranks have, so log2(p) rounds do. For small sizes: each round moves the whole block.
 *
 * All-reduce after Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
 * Operations in MPICH" (2005): ceil(log2 p) rounds, each of m bytes a rank; two rounds more
 * where p is no power of two. Barrier by dissemination, after Hensgen, Finkel and Manber,
 * "Two algorithms for barrier synchronization" (1988): ceil(log2 p) rounds of empty messages, any p. */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/team.h"

static bool doubling_serves(enum collective kind, int ranks)
{
    return ranks > 1 && (kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_BARRIER);
}

int doubling_stages(int size)
{
    struct fold fold = fold_of(size);
    return (fold.extra > 0) + fold.rounds + 1;
}

static void doubling_shape(struct plan *plan)
{
    if (plan->kind == COLLECTIVE_BARRIER) {
        plan->stages = log_ceiling(plan->ranks);
    } else {
        plan->stages = doubling_stages(plan->ranks);
        plan->work_blocks = 2;
    }
}

void doubling_lay_barrier(const struct team *team, int stage, struct script *script)
{
    const struct place nothing = { .buffer = BUFFER_NONE };
    for (int distance = 1; distance < team->size; distance *= 2, stage++) {
        script_recv(script, stage, team_rank(team, team->place - distance), nothing);
        script_send(script, stage, team_rank(team, team->place + distance), nothing);
    }
}

void doubling_lay_team(const struct team *team, int stage, struct script *script)
{
    /* What is sent must not change under way, so the sum goes on in one block and leaves from a copy. */
    const struct place sum = place_block(BUFFER_WORK, 0), copy = place_block(BUFFER_WORK, 1);
    const struct place output = place_block(BUFFER_OUTPUT, 0);
    struct fold fold = fold_of(team->size);
    int place = fold_place(fold, team->place), last = stage + doubling_stages(team->size) - 1;
    bool hosts = place >= 0 && place < fold.extra;

    if (place < 0) { /* it hands its value on, and gets the result */
        script_send(script, stage, team_rank(team, team->place + 1), sum);
        script_recv(script, last, team_rank(team, team->place + 1), output);
        return;
    }
    if (hosts)
        script_recv_reduce(script, stage, team_rank(team, team->place - 1), sum, true);
    stage += fold.extra > 0;
    for (int i = 0; i < fold.rounds; i++, stage++) {
        int other = place ^ 1 << i, peer = team_rank(team, fold_rank(fold, other));
        script_copy(script, stage, copy, sum);
        script_recv_reduce(script, stage, peer, sum, other < place);
        script_send(script, stage, peer, copy);
    }
    script_narrow(script, last, output, sum);
    if (hosts)
        script_send(script, last, team_rank(team, team->place - 1), output);
}

static void doubling_lay(const struct plan *plan, int rank, struct script *script)
{
    const struct team all = team_of_all(plan, rank);
    if (plan->kind == COLLECTIVE_BARRIER) {
        doubling_lay_barrier(&all, 0, script);
        return;
    }
    script_widen(script, 0, place_block(BUFFER_WORK, 0), place_block(BUFFER_INPUT, 0));
    doubling_lay_team(&all, 0, script);
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
