/* All-reduce on rails, for large sizes: inside each group a reduce-scatter leaves a *shard* of the block with
 * each rank, the ranks at one place of all groups (a rail) all-reduce that shard between them, and an all-gather
 * inside ends it. There are as many rails as the smallest group has ranks; the ranks of larger groups that are on
 * no rail only give and get. Groups of one size have all ranks on rails; where one has a single
 * rank, there is one rail, of leaders.
 *
 *   hierarchy-ring     a ring on each rail: 2 (g - 1) rounds between g groups
 *   hierarchy-halving  recursive halving with doubling: 2 log2(g), and two more where g is no power of two
 *
 * A group sends and receives 2 m (g - 1) / g bytes whatever its size; in it, each rank moves 2 m (s - 1) / s in
 * s rounds. After Patarasuk and Yuan (2009) for clusters of multi-core nodes, and Rabenseifner (2004).
 *
 * Order of folding of shard r: in a group, from place r on down round its places, one after another; then the
 * groups, as the plan between them does. */
#include "collectives/hierarchy.h"

static bool ring_serves(enum collective kind, int ranks)
{
    return ranks > 2 && (kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_REDUCE_SCATTER ||
                         kind == COLLECTIVE_ALLGATHER);
}

static bool halving_serves(enum collective kind, int ranks)
{
    return ranks > 2 && kind == COLLECTIVE_ALLREDUCE;
}

/* How the rails work. */
struct rails {
    int count;
    int parts;  /* of each shard */
    int stages; /* between groups */
};

static struct rails rails_of(const struct plan *plan)
{
    const struct grouping *groups = plan->groups;
    bool halves = plan->planner == &planner_hierarchy_halving;
    return (struct rails){ .count = groups->least,
                           .parts = halves ? halving_parts(groups->count) : groups->count,
                           .stages = halves ? halving_stages(groups->count) : 2 * (groups->count - 1) };
}

static void rails_shape(struct plan *plan)
{
    struct rails rails = rails_of(plan);
    plan->parts = rails.count * rails.parts;
    plan->stages = plan->groups->most - 1 + rails.stages + 1;
    plan->work_blocks = 1;
}

/* In the round of distance d each rank gives the rank d places on that one's shard. */
static void lay_scatter(const struct team *inside, struct rails rails, struct script *script)
{
    for (int d = 1; d < inside->size; d++) {
        int to = (inside->place + d) % inside->size;
        if (inside->place < rails.count)
            script_recv_reduce(script, d - 1, team_rank(inside, inside->place - d),
                               place_parts(BUFFER_WORK, inside->place * rails.parts, rails.parts), false);
        if (to < rails.count)
            script_send(script, d - 1, team_rank(inside, to),
                        place_parts(BUFFER_WORK, to * rails.parts, rails.parts));
    }
}

static void lay_gather(const struct team *inside, struct rails rails, int stage, struct script *script)
{
    for (int d = 1; d < inside->size; d++) {
        int from = (inside->place + d) % inside->size;
        if (from < rails.count)
            script_recv(script, stage, team_rank(inside, from),
                        place_parts(BUFFER_OUTPUT, from * rails.parts, rails.parts));
    }
    for (int d = 1; d < inside->size && inside->place < rails.count; d++)
        script_send(script, stage, team_rank(inside, inside->place + d),
                    place_parts(BUFFER_OUTPUT, inside->place * rails.parts, rails.parts));
}

static void rails_lay(const struct plan *plan, int rank, struct script *script)
{
    const struct team inside = team_inside(plan, rank);
    const struct team between = team_between(plan, rank, inside.place, -1);
    struct rails rails = rails_of(plan);
    int across = plan->groups->most - 1, shard = inside.place * rails.parts;

    script_widen(script, 0, place_block(BUFFER_WORK, 0), place_block(BUFFER_INPUT, 0));
    lay_scatter(&inside, rails, script);
    if (inside.place < rails.count && plan->planner == &planner_hierarchy_halving)
        halving_lay_team(&between, across, shard, script);
    else if (inside.place < rails.count)
        ring_lay_team(&between, across, shard, false, script);
    lay_gather(&inside, rails, across + rails.stages, script);
}

static void ring_shape(struct plan *plan)
{
    if (plan->kind == COLLECTIVE_ALLREDUCE)
        rails_shape(plan);
    else
        hierarchy_blocks_shape(plan);
}

static void ring_lay(const struct plan *plan, int rank, struct script *script)
{
    if (plan->kind == COLLECTIVE_ALLREDUCE)
        rails_lay(plan, rank, script);
    else
        hierarchy_blocks_lay(plan, rank, script);
}

const struct planner planner_hierarchy_ring = {
    .name = "hierarchy-ring",
    .needs_groups = true,
    .serves = ring_serves,
    .shape = ring_shape,
    .lay = ring_lay,
    .cost_ns = hierarchy_cost,
};

const struct planner planner_hierarchy_halving = {
    .name = "hierarchy-halving",
    .needs_groups = true,
    .serves = halving_serves,
    .shape = rails_shape,
    .lay = rails_lay,
    .cost_ns = hierarchy_cost,
};
