/* Binomial trees, through messages: ceil(log2 p) rounds of one block, root first or root last.
 * For small sizes. After Thakur, Rabenseifner and Gropp (2005).
 *
 * Ranks are numbered from the root on, round the ring ("places"): place v is the child of v without
 * its lowest bit, and what its subtree has is from a run of neighbouring places. All-reduce is a
 * reduce to rank 0 and a broadcast from there: twice the rounds of recursive doubling, but no
 * rank sends more than a few blocks. */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/team.h"

static bool tree_serves(enum collective kind, int ranks)
{
    return ranks > 1 &&
           (kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_BROADCAST);
}

static void tree_shape(struct plan *plan)
{
    int rounds = log_ceiling(plan->ranks);
    plan->work_blocks = plan->kind == COLLECTIVE_BROADCAST ? 0 : 1;
    if (plan->kind == COLLECTIVE_ALLREDUCE)
        plan->stages = 2 * rounds;
    else
        plan->stages = plan->kind == COLLECTIVE_REDUCE ? rounds + 1 : rounds;
}

/* Places from the root on. */
static int from_root(const struct team *team, int root)
{
    return (team->place + team->size - root) % team->size;
}

/* Leaves first. */
void tree_lay_reduce(const struct team *team, int root, int stage, struct place held, struct script *script)
{
    int place = from_root(team, root);
    for (int distance = 1; distance < team->size; distance *= 2, stage++) {
        if (place & distance) {
            script_send(script, stage, team_rank(team, team->place - distance), held);
            return;
        }
        if (place + distance < team->size)
            script_recv_reduce(script, stage, team_rank(team, team->place + distance), held, false);
    }
}

/* Root first; the farthest child first, which has most to pass on. */
void tree_lay_broadcast(const struct team *team, int root, int stage, struct place held,
                        struct script *script)
{
    int place = from_root(team, root);
    for (int distance = 1 << log_ceiling(team->size) >> 1; distance > 0; distance /= 2, stage++) {
        if (place % (2 * distance) == distance)
            script_recv(script, stage, team_rank(team, team->place - distance), held);
        else if (place % (2 * distance) == 0 && place + distance < team->size)
            script_send(script, stage, team_rank(team, team->place + distance), held);
    }
}

static void tree_lay(const struct plan *plan, int rank, struct script *script)
{
    const struct place output = place_block(BUFFER_OUTPUT, 0), input = place_block(BUFFER_INPUT, 0);
    const struct place sum = place_block(BUFFER_WORK, 0);
    const struct team all = team_of_all(plan, rank);
    int rounds = log_ceiling(plan->ranks);

    if (plan->kind == COLLECTIVE_BROADCAST) {
        tree_lay_broadcast(&all, plan->root, 0, rank == plan->root ? input : output, script);
        return;
    }
    script_widen(script, 0, sum, input);
    tree_lay_reduce(&all, plan->root, 0, sum, script);
    if (rank == plan->root)
        script_narrow(script, rounds, output, sum);
    if (plan->kind == COLLECTIVE_ALLREDUCE)
        tree_lay_broadcast(&all, plan->root, rounds, output, script);
}

/* A large block comes in chunks that follow each other, so that the bytes of the busiest rank count,
 * the root with a child a round. */
static double tree_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double m = (double)size, rounds = log_ceiling(plan->ranks);
    double way = rounds * (cost_message(facts) + cost_carry(facts, m));
    if (plan->kind == COLLECTIVE_BROADCAST)
        return way;
    double reduce = way + rounds * cost_fold(facts, 2 * m);
    return plan->kind == COLLECTIVE_REDUCE ? reduce : reduce + way;
}

/* Places are counted from the root on. */
static enum fold_order tree_folds(enum collective kind, int root)
{
    return collective_reduces(kind) && root == 0 ? FOLDS_NEIGHBOURS : FOLDS_ANYHOW;
}

const struct planner planner_tree = {
    .name = "tree",
    .serves = tree_serves,
    .folds = tree_folds,
    .shape = tree_shape,
    .lay = tree_lay,
    .cost_ns = tree_cost,
};
