/* Hierarchies of leaders: one rank speaks for each group. Inside, binomial trees to and from the leader, which is
 * the root in its group and else the first; between the leaders one of the plans that stand alone:
 *
 *   hierarchy-doubling  all-reduce by recursive doubling, barrier by dissemination: for small sizes;
 *                       2 log2(s) rounds inside and log2(g) between, for g groups of s ranks
 *   hierarchy-tree      reduce and broadcast by a binomial tree: log2(s) and log2(g) rounds
 *   hierarchy-chain     the same by a chain: each group sends and receives every byte once, chunk after chunk:
 *                       for large sizes
 *
 * After Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
 * performance" (2000).
 *
 * Order of folding: in a group, from the leader on round its places, as a tree brackets them; then the groups,
 * as the plan between them does. */
#include "collectives/hierarchy.h"

enum between { BETWEEN_TREE, BETWEEN_CHAIN };

static bool doubling_serves(enum collective kind, int ranks)
{
    return ranks > 2 && (kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_BARRIER);
}

static bool rooted_serves(enum collective kind, int ranks)
{
    return ranks > 2 && (kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_BROADCAST);
}

/* Stages of a tree inside the largest group. */
static int inside_stages(const struct plan *plan)
{
    return log_ceiling(plan->groups->most);
}

/* The leader's place in the group of `rank`. */
static int leader_of(const struct plan *plan, int rank)
{
    const struct grouping *groups = plan->groups;
    bool with_root = collective_has_root(plan->kind) && groups->group[rank] == groups->group[plan->root];
    return with_root ? groups->place[plan->root] : 0;
}

/* ------------------------------------------------------------------- doubling */

static void doubling_shape(struct plan *plan)
{
    if (plan->kind == COLLECTIVE_BARRIER) {
        plan->stages = 1 + log_ceiling(plan->groups->count) + 1;
    } else {
        plan->stages = 2 * inside_stages(plan) + doubling_stages(plan->groups->count);
        plan->work_blocks = 2;
    }
}

/* All of a group tell the leader at once, and it tells all. */
static void lay_barrier(const struct plan *plan, int rank, struct script *script)
{
    const struct place nothing = { .buffer = BUFFER_NONE };
    const struct team inside = team_inside(plan, rank), between = team_between(plan, rank, 0, -1);
    int last = plan->stages - 1;
    if (inside.place > 0) {
        script_send(script, 0, team_rank(&inside, 0), nothing);
        script_recv(script, last, team_rank(&inside, 0), nothing);
        return;
    }
    for (int place = 1; place < inside.size; place++)
        script_recv(script, 0, team_rank(&inside, place), nothing);
    doubling_lay_barrier(&between, 1, script);
    for (int place = 1; place < inside.size; place++)
        script_send(script, last, team_rank(&inside, place), nothing);
}

static void doubling_lay(const struct plan *plan, int rank, struct script *script)
{
    if (plan->kind == COLLECTIVE_BARRIER) {
        lay_barrier(plan, rank, script);
        return;
    }
    const struct place sum = place_block(BUFFER_WORK, 0);
    const struct team inside = team_inside(plan, rank), between = team_between(plan, rank, 0, -1);
    int up = inside_stages(plan), across = doubling_stages(plan->groups->count);

    script_widen(script, 0, sum, place_block(BUFFER_INPUT, 0));
    tree_lay_reduce(&inside, 0, 0, sum, script);
    if (inside.place == 0)
        doubling_lay_team(&between, up, script);
    tree_lay_broadcast(&inside, 0, up + across, place_block(BUFFER_OUTPUT, 0), script);
}

/* -------------------------------------------------------------- to, from a root */

static int between_stages(const struct plan *plan, enum between between)
{
    int count = plan->groups->count;
    return between == BETWEEN_CHAIN ? count - 1 : log_ceiling(count);
}

static void shape_rooted(struct plan *plan, enum between between)
{
    bool reduces = plan->kind == COLLECTIVE_REDUCE; /* finished in a stage of its own */
    plan->stages = inside_stages(plan) + between_stages(plan, between) + reduces;
    plan->work_blocks = reduces;
}

static void lay_rooted(const struct plan *plan, int rank, enum between how, struct script *script)
{
    const struct place sum = place_block(BUFFER_WORK, 0), output = place_block(BUFFER_OUTPUT, 0);
    const struct place input = place_block(BUFFER_INPUT, 0), held = rank == plan->root ? input : output;
    const struct team inside = team_inside(plan, rank), between = team_between(plan, rank, 0, plan->root);
    int lead = leader_of(plan, rank), root = plan->groups->group[plan->root];
    bool leads = inside.place == lead;

    if (plan->kind == COLLECTIVE_BROADCAST) {
        if (leads)
            (how == BETWEEN_CHAIN ? chain_lay_broadcast : tree_lay_broadcast)(&between, root, 0, held,
                                                                              script);
        tree_lay_broadcast(&inside, lead, between_stages(plan, how), held, script);
        return;
    }
    int up = inside_stages(plan);
    script_widen(script, 0, sum, input);
    tree_lay_reduce(&inside, lead, 0, sum, script);
    if (leads)
        (how == BETWEEN_CHAIN ? chain_lay_reduce : tree_lay_reduce)(&between, root, up, sum, script);
    if (rank == plan->root)
        script_narrow(script, plan->stages - 1, output, sum);
}

static void tree_shape(struct plan *plan)
{
    shape_rooted(plan, BETWEEN_TREE);
}

static void tree_lay(const struct plan *plan, int rank, struct script *script)
{
    lay_rooted(plan, rank, BETWEEN_TREE, script);
}

static void chain_shape(struct plan *plan)
{
    shape_rooted(plan, BETWEEN_CHAIN);
}

static void chain_lay(const struct plan *plan, int rank, struct script *script)
{
    lay_rooted(plan, rank, BETWEEN_CHAIN, script);
}

const struct planner planner_hierarchy_doubling = {
    .name = "hierarchy-doubling",
    .needs_groups = true,
    .serves = doubling_serves,
    .shape = doubling_shape,
    .lay = doubling_lay,
    .cost_ns = hierarchy_cost,
};

const struct planner planner_hierarchy_tree = {
    .name = "hierarchy-tree",
    .needs_groups = true,
    .serves = rooted_serves,
    .shape = tree_shape,
    .lay = tree_lay,
    .cost_ns = hierarchy_cost,
};

const struct planner planner_hierarchy_chain = {
    .name = "hierarchy-chain",
    .needs_groups = true,
    .serves = rooted_serves,
    .shape = chain_shape,
    .lay = chain_lay,
    .cost_ns = hierarchy_cost,
};
