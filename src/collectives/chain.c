/* Chains, through messages: root to next to next, or the other way for a reduce, chunk after chunk, so
 * that every link is busy. Each rank moves m bytes once each way, whatever p is, after p - 1 messages
 * to fill the chain; for large sizes and few ranks.
 *
 * A scan goes down the chain of ranks: each adds its own to what the rank before it has, and passes that on. An
 * exclusive scan passes it on twice, to be kept as it is and to be added to, since a message goes to one place.
 *
 * After Pješivac-Grbović et al., "Performance analysis of MPI collective operations" (2007). */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/team.h"

static bool chain_serves(enum collective kind, int ranks)
{
    return ranks > 1 && (kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_BROADCAST || collective_scans(kind));
}

static void chain_shape(struct plan *plan)
{
    bool reduces = collective_reduces(plan->kind), twice = plan->kind == COLLECTIVE_EXSCAN;
    plan->stages = twice ? 2 * (plan->ranks - 1) : plan->ranks - 1 + reduces;
    plan->work_blocks = twice ? 2 : reduces;
}

/* The block arrives in the stage before the one in which it leaves. */
void chain_lay_broadcast(const struct team *team, int root, int stage, struct place held,
                         struct script *script)
{
    int place = (team->place + team->size - root) % team->size;
    if (place > 0)
        script_recv(script, stage + place - 1, team_rank(team, team->place - 1), held);
    if (place < team->size - 1)
        script_send(script, stage + place, team_rank(team, team->place + 1), held);
}

/* From the far end to the root: the sum of all places from this one on leaves for the place before. */
void chain_lay_reduce(const struct team *team, int root, int stage, struct place held, struct script *script)
{
    int place = (team->place + team->size - root) % team->size, leaves = stage + team->size - 1 - place;
    if (place < team->size - 1)
        script_recv_reduce(script, leaves - 1, team_rank(team, team->place + 1), held, false);
    if (place > 0)
        script_send(script, leaves, team_rank(team, team->place - 1), held);
}

/* Widened no sooner than needed. */
static void lay_reduce(const struct plan *plan, int rank, int place, struct script *script)
{
    const struct place sum = place_block(BUFFER_WORK, 0);
    const struct team all = team_of_all(plan, rank);
    int last = plan->ranks - 1, leaves = last - place;

    script_widen(script, place < last ? leaves - 1 : leaves, sum, place_block(BUFFER_INPUT, 0));
    chain_lay_reduce(&all, plan->root, 0, sum, script);
    if (place == 0)
        script_narrow(script, last, place_block(BUFFER_OUTPUT, 0), sum);
}

static void lay_scan(const struct plan *plan, int rank, struct script *script)
{
    const struct place sum = place_block(BUFFER_WORK, 0);
    script_widen(script, rank > 0 ? rank - 1 : 0, sum, place_block(BUFFER_INPUT, 0));
    if (rank > 0)
        script_recv_reduce(script, rank - 1, rank - 1, sum, true);
    script_narrow(script, rank, place_block(BUFFER_OUTPUT, 0), sum);
    if (rank < plan->ranks - 1)
        script_send(script, rank, rank + 1, sum);
}

/* Stages 2 r and 2 r + 1 are those between ranks r and r + 1: what r has, to be kept, then to be added to. */
static void lay_exscan(const struct plan *plan, int rank, struct script *script)
{
    const struct place sum = place_block(BUFFER_WORK, 0), before = place_block(BUFFER_WORK, 1);
    int arrives = 2 * (rank - 1), leaves = 2 * rank;
    bool passes = rank < plan->ranks - 1;

    if (passes)
        script_widen(script, rank > 0 ? arrives : leaves, sum, place_block(BUFFER_INPUT, 0));
    if (rank > 0)
        script_recv(script, arrives, rank - 1, before);
    if (rank > 0 && passes)
        script_recv_reduce(script, arrives + 1, rank - 1, sum, true);
    if (rank > 0)
        script_narrow(script, arrives + 1, place_block(BUFFER_OUTPUT, 0), before);
    if (passes)
        script_send(script, leaves, rank + 1, sum);
    if (rank + 1 < plan->ranks - 1)
        script_send(script, leaves + 1, rank + 1, sum);
}

static void chain_lay(const struct plan *plan, int rank, struct script *script)
{
    int place = (rank + plan->ranks - plan->root) % plan->ranks;
    const struct team all = team_of_all(plan, rank);
    if (plan->kind == COLLECTIVE_REDUCE)
        lay_reduce(plan, rank, place, script);
    else if (plan->kind == COLLECTIVE_SCAN)
        lay_scan(plan, rank, script);
    else if (plan->kind == COLLECTIVE_EXSCAN)
        lay_exscan(plan, rank, script);
    else
        chain_lay_broadcast(&all, plan->root, 0, place_block(place == 0 ? BUFFER_INPUT : BUFFER_OUTPUT, 0),
                            script);
}

/* Filling the chain takes a chunk's time a link; then chunks arrive one after another, in and out at once. */
static double chain_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    enum { CHUNK = 1 << 18 };
    double m = (double)size, chunk = size < CHUNK ? m : CHUNK, links = plan->ranks - 1;
    double fold = collective_reduces(plan->kind) ? 2 : 0, times = plan->kind == COLLECTIVE_EXSCAN ? 2 : 1;
    double each = times * (cost_message(facts) + cost_carry(facts, chunk)) + cost_fold(facts, fold * chunk);
    double rest = chunk > 0 ? (m - chunk) / chunk : 0;
    return links * each + rest * each;
}

/* Places are counted from the root on. */
static enum fold_order chain_folds(enum collective kind, int root)
{
    if (collective_scans(kind))
        return FOLDS_LEFT;
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
