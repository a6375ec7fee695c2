/* Reduce-scatter and all-gather of hierarchy-ring: blocks go round the groups in a ring, and each is spread, or
 * summed, inside the groups. Every group sends and receives each foreign block once, where a ring of ranks passes
 * all but one of p blocks over every link.
 *
 * Block k of a group (its k-th rank's) is carried by place k mod s of a group of s ranks. In a round, as many
 * blocks are under way as the smallest group has ranks (a *bunch*), so that no pair of ranks moves two at
 * a time; groups of one size need one bunch. With b bunches and g groups:
 *   all-gather      (g - 1) b + 1 stages
 *   reduce-scatter  g b + s stages, s ranks in the largest group
 *
 * Order of folding of a block of group h: the groups from h + 1 on round the ring to h; in each, from the carrier
 * on down round its places, one after another; what comes from the group before is the left operand. */
#include "collectives/hierarchy.h"

/* How the blocks travel; seen by one rank. */
struct route {
    const struct grouping *groups;
    int group, place, size; /* of the rank, of its group */
    int bunches;
};

static struct route route_of(const struct plan *plan, int rank)
{
    const struct grouping *groups = plan->groups;
    int group = groups->group[rank];
    return (struct route){ .groups = groups,
                           .group = group,
                           .place = groups->place[rank],
                           .size = grouping_size(groups, group),
                           .bunches = (groups->most + groups->least - 1) / groups->least };
}

/* A group further on round the ring; distance >= -count. */
static int group_along(const struct route *route, int distance)
{
    return (route->group + distance + route->groups->count) % route->groups->count;
}

/* Blocks of group `group` in a bunch: places first .. end - 1. */
struct bunch {
    int group, first, end;
};

static struct bunch bunch_of(const struct route *route, int group, int index)
{
    int least = route->groups->least, size = grouping_size(route->groups, group), first = index * least;
    return (struct bunch){ group, first, first + least < size ? first + least : size };
}

/* The block of the bunch that `carrier` of this rank's group carries, as its place in its own group; -1: none. */
static int carried(const struct route *route, struct bunch bunch, int carrier)
{
    for (int k = bunch.first; k < bunch.end; k++)
        if (k % route->size == carrier)
            return k;
    return -1;
}

/* Who carries block k in a neighbouring group. */
static int carrier_in(const struct route *route, int group, int k)
{
    return grouping_rank(route->groups, group, k % grouping_size(route->groups, group));
}

/* ----------------------------------------------------------------- all-gather */

/* The bunch that arrives in index 0, 1, ...: from the group before come its own, then what it was given. */
static struct bunch arriving(const struct route *route, int index)
{
    int lap = index / route->bunches;
    return bunch_of(route, group_along(route, -1 - lap), index % route->bunches);
}

/* What left for this rank in stage `index`, and what it passes on then. */
static void lay_pass(const struct route *route, int index, struct script *script)
{
    struct bunch in = arriving(route, index);
    int lap = index / route->bunches;
    struct bunch out = bunch_of(route, group_along(route, -lap), index % route->bunches);
    int next = group_along(route, 1), prev = group_along(route, -1);
    int k = carried(route, in, route->place);
    if (k >= 0)
        script_recv(script, index, carrier_in(route, prev, k),
                    place_block(BUFFER_OUTPUT, grouping_rank(route->groups, in.group, k)));
    k = carried(route, out, route->place);
    if (k >= 0)
        script_send(script, index, carrier_in(route, next, k),
                    place_block(BUFFER_OUTPUT, grouping_rank(route->groups, out.group, k)));
}

/* Carriers give the blocks of a bunch to all others of the group. */
static void lay_spread(const struct route *route, int stage, struct bunch bunch, struct script *script)
{
    for (int k = bunch.first; k < bunch.end; k++) {
        int carrier = k % route->size;
        const struct place block = place_block(BUFFER_OUTPUT, grouping_rank(route->groups, bunch.group, k));
        if (carrier != route->place)
            script_recv(script, stage, grouping_rank(route->groups, route->group, carrier), block);
        for (int d = 1; d < route->size && carrier == route->place; d++)
            script_send(script, stage,
                        grouping_rank(route->groups, route->group, (carrier + d) % route->size), block);
    }
}

static void lay_allgather(const struct plan *plan, int rank, struct script *script)
{
    struct route route = route_of(plan, rank);
    int last = plan->stages - 1;
    script_copy(script, 0, place_block(BUFFER_OUTPUT, rank), place_block(BUFFER_INPUT, 0));
    lay_spread(&route, 0, (struct bunch){ route.group, 0, route.size }, script);
    for (int stage = 0; stage <= last; stage++) {
        if (stage > 0)
            lay_spread(&route, stage, arriving(&route, stage - 1), script);
        if (stage < last)
            lay_pass(&route, stage, script);
    }
}

/* ------------------------------------------------------------- reduce-scatter */

/* Bunches are summed inside one after another, each in s - 1 stages of which the first is its index; from stage
 * `across` on they go round, when those that meet them have been summed. */
struct sums {
    struct route route;
    int indexes, across, slots; /* bunches; blocks of WORK that hold sums, in turns; further ones leave */
};

static struct sums sums_of(const struct plan *plan, int rank)
{
    struct sums sums = { .route = route_of(plan, rank) };
    sums.indexes = plan->groups->count * sums.route.bunches;
    sums.across = plan->groups->most + sums.route.bunches - 1;
    sums.slots = sums.across + 1;
    return sums;
}

/* The bunch of an index: first those of the group before, last this group's own. */
static struct bunch summed(const struct sums *sums, int index)
{
    return arriving(&sums->route, index);
}

/* The block of WORK where the bunch's block that this rank carries is summed; its buffer is NONE if it carries
 * none, or there is no such bunch. */
static struct place sum_place(const struct sums *sums, int index)
{
    struct bunch bunch = { 0 };
    int k = -1;
    if (index >= 0 && index < sums->indexes) {
        bunch = summed(sums, index);
        k = carried(&sums->route, bunch, sums->route.place);
    }
    if (k < 0)
        return (struct place){ .buffer = BUFFER_NONE };
    return place_work(index % sums->slots, grouping_rank(sums->route.groups, bunch.group, k));
}

/* Inside: what this rank gives the carrier `distance` places on, and what it is given from as far back. */
static void lay_sum(const struct sums *sums, int stage, int distance, struct script *script)
{
    const struct route *route = &sums->route;
    int index = stage - distance + 1, to = (route->place + distance) % route->size;
    int from = (route->place + route->size - distance) % route->size;
    if (index < 0 || index >= sums->indexes)
        return;
    struct bunch bunch = summed(sums, index);
    int k = carried(route, bunch, to);
    if (k >= 0) {
        int block = grouping_rank(route->groups, bunch.group, k);
        const struct place leaving = place_work(sums->slots + distance - 1, block);
        script_widen(script, stage, leaving, place_block(BUFFER_INPUT, block));
        script_send(script, stage, grouping_rank(route->groups, route->group, to), leaving);
    }
    const struct place sum = sum_place(sums, index);
    if (sum.buffer != BUFFER_NONE)
        script_recv_reduce(script, stage, grouping_rank(route->groups, route->group, from), sum, false);
}

/* Between: a sum leaves for the next group, and one comes for what is summed a lap later. */
static void lay_round(const struct sums *sums, int stage, struct script *script)
{
    const struct route *route = &sums->route;
    int index = stage - sums->across, met = index + route->bunches;
    if (index < 0 || met >= sums->indexes)
        return;
    const struct place leaving = sum_place(sums, index), meeting = sum_place(sums, met);
    if (meeting.buffer != BUFFER_NONE)
        script_recv_reduce(script, stage,
                           carrier_in(route, group_along(route, -1), route->groups->place[meeting.of]),
                           meeting, true);
    if (leaving.buffer != BUFFER_NONE)
        script_send(script, stage, carrier_in(route, group_along(route, 1), route->groups->place[leaving.of]),
                    leaving);
}

static void lay_reduce_scatter(const struct plan *plan, int rank, struct script *script)
{
    struct sums sums = sums_of(plan, rank);
    int own = sums.indexes - sums.route.bunches + sums.route.place / plan->groups->least;
    for (int stage = 0; stage < plan->stages; stage++) {
        const struct place sum = sum_place(&sums, stage);
        if (sum.buffer != BUFFER_NONE)
            script_widen(script, stage, sum, place_block(BUFFER_INPUT, sum.of));
        for (int distance = 1; distance < sums.route.size; distance++)
            lay_sum(&sums, stage, distance, script);
        lay_round(&sums, stage, script);
    }
    script_narrow(script, plan->stages - 1, place_block(BUFFER_OUTPUT, 0), sum_place(&sums, own));
}

void hierarchy_blocks_shape(struct plan *plan)
{
    struct sums sums = sums_of(plan, 0);
    int between = (plan->groups->count - 1) * sums.route.bunches;
    if (plan->kind == COLLECTIVE_ALLGATHER) {
        plan->stages = between + 1;
        return;
    }
    plan->stages = sums.across + between + 1;
    plan->work_blocks = sums.slots + plan->groups->most - 1;
}

void hierarchy_blocks_lay(const struct plan *plan, int rank, struct script *script)
{
    if (plan->kind == COLLECTIVE_ALLGATHER)
        lay_allgather(plan, rank, script);
    else
        lay_reduce_scatter(plan, rank, script);
}
