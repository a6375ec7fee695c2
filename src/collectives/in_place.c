/* In-place plans: peers read each other's buffers where they lie, in memory that the ranks allocated or
 * registered for it (heap.h). Nothing is staged, so each byte crosses once; the price is a round at the end,
 * for nobody may give its buffers back to the caller while a peer reads them.
 *
 * All of them only read what is another rank's: a rank that gave an operation up may get a peer's late read, which
 * harms nobody, and never a late write. `m` below is a block's bytes and p the ranks. */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/script.h"

static const struct place nowhere = { .buffer = BUFFER_NONE };

static int after(const struct plan *plan, int rank, int distance)
{
    return (rank + distance) % plan->ranks;
}

/* --------------------------------------------------------------- one-shot */

/* Each rank takes what it needs out of the others' inputs. One round, and one at the end. */
static bool one_shot_serves(enum collective kind, int ranks)
{
    return ranks > 1 && kind != COLLECTIVE_BARRIER && kind != COLLECTIVE_ALLREDUCE && kind != COLLECTIVES &&
           !collective_scans(kind);
}

static bool root_gives(enum collective kind)
{
    return kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_SCATTER;
}

static bool root_takes(enum collective kind)
{
    return kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_GATHER;
}

static bool one_shot_shows(const struct plan *plan, int rank, enum buffer buffer)
{
    if (buffer != BUFFER_INPUT)
        return false;
    if (root_gives(plan->kind))
        return rank == plan->root;
    return !root_takes(plan->kind) || rank != plan->root;
}

static void one_shot_shape(struct plan *plan)
{
    plan->stages = 2;
}

/* Output block r out of rank r's input block `block`, and this rank's own. */
static void lay_fetches(const struct plan *plan, int rank, int block, struct script *script)
{
    script_copy(script, 0, place_block(BUFFER_OUTPUT, rank), place_block(BUFFER_INPUT, block));
    for (int i = 1; i < plan->ranks; i++) {
        int peer = after(plan, rank, i);
        script_fetch(script, 0, place_block(BUFFER_OUTPUT, peer), peer, place_block(BUFFER_INPUT, block));
    }
}

static void lay_takes(const struct plan *plan, int rank, struct script *script)
{
    const struct place input = place_block(BUFFER_INPUT, 0), output = place_block(BUFFER_OUTPUT, 0);
    const struct place mine = place_block(BUFFER_INPUT, rank);
    switch (plan->kind) {
    case COLLECTIVE_REDUCE: script_reduce(script, 0, output, input, input, nowhere); break;
    case COLLECTIVE_REDUCE_SCATTER: script_reduce(script, 0, output, mine, mine, nowhere); break;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: lay_fetches(plan, rank, 0, script); break;
    case COLLECTIVE_ALLTOALL: lay_fetches(plan, rank, rank, script); break;
    case COLLECTIVE_BROADCAST: script_fetch(script, 0, output, plan->root, input); break;
    case COLLECTIVE_SCATTER: script_fetch(script, 0, output, plan->root, mine); break;
    default: break;
    }
}

static void one_shot_lay(const struct plan *plan, int rank, struct script *script)
{
    bool at_root = rank == plan->root;
    if (root_takes(plan->kind) && !at_root) {
        script_wait(script, 1, plan->root, 0);
        return;
    }
    if (!root_gives(plan->kind) || !at_root)
        lay_takes(plan, rank, script);
    else if (plan->kind == COLLECTIVE_SCATTER)
        script_copy(script, 0, place_block(BUFFER_OUTPUT, 0), place_block(BUFFER_INPUT, rank));
    script_signal(script, 0);
    bool is_read = one_shot_shows(plan, rank, BUFFER_INPUT);
    if (is_read)
        script_wait(script, 1, ALL_RANKS, 0);
}

static double one_shot_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double m = (double)size, others = plan->ranks - 1, rounds = 2 * cost_round(facts);
    struct cost_facts alone = cost_alone(facts); /* where the root does all of the work */
    switch (plan->kind) {
    case COLLECTIVE_REDUCE:
        return rounds + cost_fetch(&alone, others * m) + cost_fold(&alone, (others + 1) * m);
    case COLLECTIVE_REDUCE_SCATTER:
        return rounds + cost_fetch(facts, others * m) + cost_fold(facts, (others + 1) * m);
    case COLLECTIVE_GATHER: return rounds + cost_fetch(&alone, others * m);
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL: return rounds + cost_fetch(facts, others * m);
    default: return rounds + cost_fetch(facts, m);
    }
}

const struct planner planner_in_place_one_shot = {
    .name = "in-place-one-shot",
    .needs_windows = true,
    .shows = one_shot_shows,
    .serves = one_shot_serves,
    .shape = one_shot_shape,
    .lay = one_shot_lay,
    .cost_ns = one_shot_cost,
};

/* -------------------------------------------------------------- two-phase */

/* Part r is folded by rank r out of all inputs, and fetched from its output. Two rounds, and one at the
 * end; each rank reads 2 m (p - 1) / p of others' and folds m. */
static bool two_phase_serves(enum collective kind, int ranks)
{
    return ranks > 1 && kind == COLLECTIVE_ALLREDUCE;
}

static bool two_phase_shows(const struct plan *plan, int rank, enum buffer buffer)
{
    (void)plan;
    (void)rank;
    return buffer == BUFFER_INPUT || buffer == BUFFER_OUTPUT;
}

static void two_phase_shape(struct plan *plan)
{
    plan->parts = plan->ranks;
    plan->stages = 3;
}

static void two_phase_lay(const struct plan *plan, int rank, struct script *script)
{
    const struct place mine = place_of(BUFFER_INPUT, 0, rank);
    script_reduce(script, 0, place_of(BUFFER_OUTPUT, 0, rank), mine, mine, nowhere);
    script_signal(script, 0);
    script_wait(script, 1, ALL_RANKS, 0);
    for (int i = 1; i < plan->ranks; i++) {
        int peer = after(plan, rank, i);
        const struct place result = place_of(BUFFER_OUTPUT, 0, peer);
        script_fetch(script, 1, result, peer, result);
    }
    script_signal(script, 1);
    script_wait(script, 2, ALL_RANKS, 1);
}

static double two_phase_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double m = (double)size, share = (double)(plan->ranks - 1) / plan->ranks;
    return 3 * cost_round(facts) + cost_fetch(facts, 2 * share * m) + cost_fold(facts, m);
}

const struct planner planner_in_place_two_phase = {
    .name = "in-place-two-phase",
    .needs_windows = true,
    .shows = two_phase_shows,
    .serves = two_phase_serves,
    .shape = two_phase_shape,
    .lay = two_phase_lay,
    .cost_ns = two_phase_cost,
};
