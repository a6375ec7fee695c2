/* Rings, through messages: each rank passes on to the next what came from the one before. As few bytes
 * as can be, p - 1 rounds a lap; for large sizes, any number of ranks.
 *
 * After Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations" (2009). Each rank sends, and receives:
 *   all-reduce      2 m (p - 1) / p bytes in 2 (p - 1) rounds
 *   reduce-scatter  m (p - 1) in p - 1, m being one rank's block
 *   all-gather      likewise */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/team.h"

static bool ring_serves(enum collective kind, int ranks)
{
    return ranks > 1 && (kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_REDUCE_SCATTER ||
                         kind == COLLECTIVE_ALLGATHER);
}

static void ring_shape(struct plan *plan)
{
    int lap = plan->ranks - 1;
    switch (plan->kind) {
    case COLLECTIVE_ALLREDUCE:
        plan->parts = plan->ranks;
        plan->stages = 2 * lap;
        plan->work_blocks = 1;
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        plan->stages = lap + 1;
        plan->work_blocks = 2;
        break;
    default: plan->stages = lap; break;
    }
}

/* `rank` - `back` round the ring; back may be up to 2 p. */
static int before(const struct plan *plan, int rank, int back)
{
    return (rank + 2 * plan->ranks - back) % plan->ranks;
}

/* What the rank is handed in round `round` of reducing: in round p - 2 its own. What it passes on is
 * what it was handed in the round before; in round 0 it starts one. */
static int handed(const struct plan *plan, int rank, int round)
{
    return before(plan, rank, round + 2);
}

/* The part that the team's member at place - `back` ends with; back may be up to 2 p. */
static int part_before(const struct team *team, int first, int back)
{
    return first + (team->place + 2 * team->size - back) % team->size;
}

/* Sums go round in the order of the ring, each ending with the rank it belongs to; then the finished parts go
 * round. */
void ring_lay_team(const struct team *team, int stage, int first, bool fresh, struct script *script)
{
    int next = team_rank(team, team->place + 1), prev = team_rank(team, team->place - 1);
    int lap = team->size - 1, mine = first + team->place;

    for (int i = 0; i < lap; i++) {
        int passed = part_before(team, first, i + 1), part = part_before(team, first, i + 2);
        if (fresh && i == 0)
            script_widen(script, stage, place_of(BUFFER_WORK, 0, passed), place_of(BUFFER_INPUT, 0, passed));
        if (fresh)
            script_widen(script, stage + i, place_of(BUFFER_WORK, 0, part), place_of(BUFFER_INPUT, 0, part));
        script_recv_reduce(script, stage + i, prev, place_of(BUFFER_WORK, 0, part), true);
        script_send(script, stage + i, next, place_of(BUFFER_WORK, 0, passed));
    }
    stage += lap;
    script_narrow(script, stage, place_of(BUFFER_OUTPUT, 0, mine), place_of(BUFFER_WORK, 0, mine));
    for (int i = 0; i < lap; i++) {
        int passed = part_before(team, first, i), part = part_before(team, first, i + 1);
        script_recv(script, stage + i, prev, place_of(BUFFER_OUTPUT, 0, part));
        script_send(script, stage + i, next, place_of(BUFFER_OUTPUT, 0, passed));
    }
}

/* The first lap with blocks for parts; a block is needed in two rounds, so two blocks of WORK take turns. */
static void lay_reduce_scatter(const struct plan *plan, int rank, struct script *script)
{
    int next = before(plan, rank, -1), prev = before(plan, rank, 1), lap = plan->ranks - 1;

    int passed = handed(plan, rank, -1);
    script_widen(script, 0, place_work(1, passed), place_block(BUFFER_INPUT, passed));
    for (int stage = 0; stage < lap; stage++) {
        int block = handed(plan, rank, stage);
        script_widen(script, stage, place_work(stage % 2, block), place_block(BUFFER_INPUT, block));
        script_recv_reduce(script, stage, prev, place_work(stage % 2, block), true);
        script_send(script, stage, next, place_work((stage + 1) % 2, passed));
        passed = block;
    }
    script_narrow(script, lap, place_block(BUFFER_OUTPUT, 0), place_work((lap - 1) % 2, rank));
}

static void lay_allgather(const struct plan *plan, int rank, struct script *script)
{
    int next = before(plan, rank, -1), prev = before(plan, rank, 1);

    script_copy(script, 0, place_block(BUFFER_OUTPUT, rank), place_block(BUFFER_INPUT, 0));
    for (int stage = 0; stage < plan->stages; stage++) {
        script_recv(script, stage, prev, place_block(BUFFER_OUTPUT, before(plan, rank, stage + 1)));
        script_send(script, stage, next, place_block(BUFFER_OUTPUT, before(plan, rank, stage)));
    }
}

static void ring_lay(const struct plan *plan, int rank, struct script *script)
{
    const struct team all = team_of_all(plan, rank);
    if (plan->kind == COLLECTIVE_ALLREDUCE)
        ring_lay_team(&all, 0, 0, true, script);
    else if (plan->kind == COLLECTIVE_REDUCE_SCATTER)
        lay_reduce_scatter(plan, rank, script);
    else
        lay_allgather(plan, rank, script);
}

static double ring_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double lap = plan->ranks - 1, m = (double)size, part = m / plan->ranks;
    switch (plan->kind) {
    case COLLECTIVE_ALLREDUCE:
        return lap * (2 * cost_message(facts) + cost_carry(facts, 2 * part) + cost_fold(facts, 2 * part));
    case COLLECTIVE_REDUCE_SCATTER:
        return lap * (cost_message(facts) + cost_carry(facts, m) + cost_fold(facts, 2 * m));
    default: return lap * (cost_message(facts) + cost_carry(facts, m));
    }
}

const struct planner planner_ring = {
    .name = "ring",
    .serves = ring_serves,
    .shape = ring_shape,
    .lay = ring_lay,
    .cost_ns = ring_cost,
};
