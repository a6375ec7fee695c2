/* Chains, through messages: root to next to next, or the other way for a reduce, chunk after chunk, so
 * that every link is busy. Each rank moves m bytes once each way, whatever p is, after p - 1 messages
 * to fill the chain; for large sizes and few ranks.
 *
 * After Pješivac-Grbović et al., "Performance analysis of MPI collective operations" (2007). */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/script.h"

static bool chain_serves(enum collective kind, int ranks)
{
    return ranks > 1 && (kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_BROADCAST);
}

static void chain_shape(struct plan *plan)
{
    bool reduces = plan->kind == COLLECTIVE_REDUCE;
    plan->stages = plan->ranks - 1 + reduces;
    plan->work_blocks = reduces;
}

/* The block arrives in the stage before the one in which it leaves. */
static void lay_broadcast(const struct plan *plan, int rank, int place, struct script *script)
{
    const struct place held = place_block(place == 0 ? BUFFER_INPUT : BUFFER_OUTPUT, 0);
    if (place > 0)
        script_recv(script, place - 1, (rank + plan->ranks - 1) % plan->ranks, held);
    if (place < plan->ranks - 1)
        script_send(script, place, (rank + 1) % plan->ranks, held);
}

/* From the far end to the root: the sum of all places from this one on leaves for the place before. */
static void lay_reduce(const struct plan *plan, int rank, int place, struct script *script)
{
    const struct place sum = place_block(BUFFER_WORK, 0);
    int leaves = plan->ranks - 1 - place, arrives = place < plan->ranks - 1 ? leaves - 1 : leaves;

    script_widen(script, arrives, sum, place_block(BUFFER_INPUT, 0));
    if (arrives < leaves)
        script_recv_reduce(script, arrives, (rank + 1) % plan->ranks, sum, false);
    if (place > 0)
        script_send(script, leaves, (rank + plan->ranks - 1) % plan->ranks, sum);
    else
        script_narrow(script, leaves, place_block(BUFFER_OUTPUT, 0), sum);
}

static void chain_lay(const struct plan *plan, int rank, struct script *script)
{
    int place = (rank + plan->ranks - plan->root) % plan->ranks;
    if (plan->kind == COLLECTIVE_REDUCE)
        lay_reduce(plan, rank, place, script);
    else
        lay_broadcast(plan, rank, place, script);
}

/* Filling the chain takes a chunk's time a link; then chunks arrive one after another, in and out at once. */
static double chain_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    enum { CHUNK = 1 << 18 };
    double m = (double)size, chunk = size < CHUNK ? m : CHUNK, links = plan->ranks - 1;
    double fold = plan->kind == COLLECTIVE_REDUCE ? 2 : 0;
    double each = cost_message(facts) + cost_carry(facts, chunk) + cost_fold(facts, fold * chunk);
    double rest = chunk > 0 ? (m - chunk) / chunk : 0;
    return links * each + rest * each;
}

/* Places are counted from the root on. */
static enum fold_order chain_folds(enum collective kind, int root)
{
    return collective_reduces(kind) && root == 0 ? FOLDS_NEIGHBOURS : FOLDS_ANYHOW;
}

const struct planner planner_chain = {
    .name = "chain",
    .serves = chain_serves,
    .folds = chain_folds,
    .shape = chain_shape,
    .lay = chain_lay,
    .cost_ns = chain_cost,
};
