/* Recursive halving with doubling, through messages: an all-reduce that halves what each rank sums in every round,
 * then doubles what each one has. As few bytes as a ring in log2(p) rounds there and back; for sizes between
 * those of recursive doubling and of rings.
 *
 * After Rabenseifner, "Optimization of collective reduction operations" (2004). 2 m (p - 1) / p bytes a rank in
 * 2 log2(p) rounds; where p is no power of two some ranks hand theirs to a neighbour first (doubling.c has the
 * same), which costs two rounds and 2 m more. Neighbours meet first, with the larger halves: where ranks of a
 * host follow each other, most bytes stay inside; and what is summed comes from a run of neighbours. */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/team.h"

static bool halving_serves(enum collective kind, int ranks)
{
    return ranks > 2 && kind == COLLECTIVE_ALLREDUCE; /* two ranks have a ring of as many rounds */
}

int halving_parts(int size)
{
    return 1 << log_floor(size);
}

int halving_stages(int size)
{
    bool extra = size > halving_parts(size);
    return 2 * log_floor(size) + 2 * extra;
}

static void halving_shape(struct plan *plan)
{
    plan->parts = halving_parts(plan->ranks);
    plan->stages = halving_stages(plan->ranks);
    plan->work_blocks = 1;
}

/* The first of the parts that a member is left with after `rounds` rounds: each round's bit of its place tells
 * which half it keeps. */
static int part_after(int parts, int place, int rounds)
{
    int first = 0;
    for (int i = 0; i < rounds; i++) {
        parts /= 2;
        first += (place >> i & 1) * parts;
    }
    return first;
}

void halving_lay_team(const struct team *team, int stage, int first, struct script *script)
{
    struct fold fold = fold_of(team->size);
    int parts = 1 << fold.rounds, place = fold_place(fold, team->place);
    int last = stage + halving_stages(team->size) - 1;
    const struct place sum = place_parts(BUFFER_WORK, first, parts);
    const struct place output = place_parts(BUFFER_OUTPUT, first, parts);

    if (place < 0) {
        script_send(script, stage, team_rank(team, team->place + 1), sum);
        script_recv(script, last, team_rank(team, team->place + 1), output);
        return;
    }
    if (place < fold.extra)
        script_recv_reduce(script, stage, team_rank(team, team->place - 1), sum, true);
    stage += fold.extra > 0;
    for (int i = 0; i < fold.rounds; i++, stage++) {
        int other = place ^ 1 << i, peer = team_rank(team, fold_rank(fold, other)), half = parts >> (i + 1);
        int kept = first + part_after(parts, place, i + 1), sent = first + part_after(parts, other, i + 1);
        script_recv_reduce(script, stage, peer, place_parts(BUFFER_WORK, kept, half), other < place);
        script_send(script, stage, peer, place_parts(BUFFER_WORK, sent, half));
    }
    int mine = first + part_after(parts, place, fold.rounds);
    script_narrow(script, stage, place_of(BUFFER_OUTPUT, 0, mine), place_of(BUFFER_WORK, 0, mine));
    for (int i = fold.rounds - 1; i >= 0; i--, stage++) {
        int other = place ^ 1 << i, peer = team_rank(team, fold_rank(fold, other)), half = parts >> (i + 1);
        int held = first + part_after(parts, place, i + 1), had = first + part_after(parts, other, i + 1);
        script_recv(script, stage, peer, place_parts(BUFFER_OUTPUT, had, half));
        script_send(script, stage, peer, place_parts(BUFFER_OUTPUT, held, half));
    }
    if (place < fold.extra)
        script_send(script, last, team_rank(team, team->place - 1), output);
}

static void halving_lay(const struct plan *plan, int rank, struct script *script)
{
    const struct team all = team_of_all(plan, rank);
    script_widen(script, 0, place_block(BUFFER_WORK, 0), place_block(BUFFER_INPUT, 0));
    halving_lay_team(&all, 0, 0, script);
}

static double halving_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double m = (double)size, moved = m * (1 - 1.0 / plan->parts);
    double cost =
        plan->stages * cost_message(facts) + cost_carry(facts, 2 * moved) + cost_fold(facts, 2 * moved + m);
    if (plan->ranks > plan->parts)
        cost += cost_carry(facts, 2 * m) + cost_fold(facts, 2 * m);
    return cost;
}

/* What a place sums is from a run of neighbouring ranks, and places meet in their order. */
static enum fold_order halving_folds(enum collective kind, int root)
{
    (void)kind;
    (void)root;
    return FOLDS_NEIGHBOURS;
}

const struct planner planner_halving = {
    .name = "halving",
    .serves = halving_serves,
    .folds = halving_folds,
    .shape = halving_shape,
    .lay = halving_lay,
    .cost_ns = halving_cost,
};
