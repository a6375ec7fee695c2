/* Direct plans: every rank leaves what others need in its window, signals, and
 * takes what it needs out of theirs. Nothing passes through a third rank and nothing
 * is copied twice, so inside a host these win at every size.
 *
 * `m` below is a block's bytes and p the ranks. Compare Graham and Shipman, "MPI support for multi-core
 * architectures" (2008), and Jain et al., "Framework for scalable intra-node collective operations
 * using shared memory" (SC 2018). */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/script.h"

static const struct place nowhere = { .buffer = BUFFER_NONE };

/* Every fold is one of all ranks at once. */
static enum fold_order always_left(enum collective kind, int root)
{
    (void)kind;
    (void)root;
    return FOLDS_LEFT;
}

/* The rank `distance` after `rank`. Each rank starts with another peer, so that they don't crowd at one. */
static int after(const struct plan *plan, int rank, int distance)
{
    return (rank + distance) % plan->ranks;
}

/* --------------------------------------------------------------- one-shot */

/* One-shot: one round, and each rank does its whole work by itself. All-reduce: puts
 * m, reads (p - 1) m, folds p m. Best when the round counts more than the bytes, and, without any
 * reduction, always. */
static bool one_shot_serves(enum collective kind, int ranks)
{
    (void)ranks;
    return kind != COLLECTIVES;
}

/* Blocks that go to one rank each, so that a window holds one for every rank. */
static bool addressed(enum collective kind)
{
    return kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_SCATTER || kind == COLLECTIVE_ALLTOALL;
}

static void one_shot_shape(struct plan *plan)
{
    bool moves = plan->ranks > 1 && plan->kind != COLLECTIVE_BARRIER;
    plan->stages = moves ? 2 : 1;
    plan->window_blocks = !moves ? 0 : addressed(plan->kind) ? plan->ranks : 1;
}

/* Does `rank` leave something for others? */
static bool gives(const struct plan *plan, int rank)
{
    if (plan->kind == COLLECTIVE_BROADCAST || plan->kind == COLLECTIVE_SCATTER)
        return rank == plan->root;
    if (plan->kind == COLLECTIVE_REDUCE || plan->kind == COLLECTIVE_GATHER)
        return rank != plan->root;
    if (collective_scans(plan->kind)) /* nobody comes after the last */
        return rank < plan->ranks - 1;
    return true;
}

static void lay_puts(const struct plan *plan, int rank, struct script *script)
{
    if (gives(plan, rank) && !addressed(plan->kind))
        script_put(script, 0, place_block(BUFFER_WINDOW, 0), place_block(BUFFER_INPUT, 0));
    if (gives(plan, rank) && addressed(plan->kind))
        for (int i = 1; i < plan->ranks; i++) {
            int block = after(plan, rank, i);
            script_put(script, 0, place_block(BUFFER_WINDOW, block), place_block(BUFFER_INPUT, block));
        }
    script_signal(script, 0);
}

/* Output block r out of rank r's window, for all others r. */
static void lay_fetches(const struct plan *plan, int rank, int block, struct script *script)
{
    for (int i = 1; i < plan->ranks; i++) {
        int peer = after(plan, rank, i);
        script_fetch(script, 1, place_block(BUFFER_OUTPUT, peer), peer, place_block(BUFFER_WINDOW, block));
    }
}

static void lay_takes(const struct plan *plan, int rank, struct script *script)
{
    const struct place input = place_block(BUFFER_INPUT, 0), output = place_block(BUFFER_OUTPUT, 0);
    const struct place shared = place_block(BUFFER_WINDOW, 0), mine = place_block(BUFFER_WINDOW, rank);
    bool at_root = rank == plan->root;
    bool root_takes = plan->kind == COLLECTIVE_REDUCE || plan->kind == COLLECTIVE_GATHER;

    switch (root_takes && !at_root ? COLLECTIVES : plan->kind) {
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_ALLREDUCE:
        script_wait(script, 1, ALL_RANKS, 0);
        script_reduce(script, 1, output, input, shared, nowhere);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        script_wait(script, 1, ALL_RANKS, 0);
        script_reduce(script, 1, output, place_block(BUFFER_INPUT, rank), mine, nowhere);
        break;
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN: {
        int ranks = plan->kind == COLLECTIVE_SCAN ? rank + 1 : rank;
        if (rank > 0)
            script_wait(script, 1, ALL_RANKS, 0);
        if (ranks > 0)
            script_reduce_first(script, 1, output, input, shared, ranks);
        break;
    }
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER:
        script_wait(script, 1, ALL_RANKS, 0);
        script_copy(script, 1, place_block(BUFFER_OUTPUT, rank), input);
        lay_fetches(plan, rank, 0, script);
        break;
    case COLLECTIVE_ALLTOALL:
        script_wait(script, 1, ALL_RANKS, 0);
        script_copy(script, 1, place_block(BUFFER_OUTPUT, rank), place_block(BUFFER_INPUT, rank));
        lay_fetches(plan, rank, rank, script);
        break;
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SCATTER:
        if (at_root && plan->kind == COLLECTIVE_SCATTER)
            script_copy(script, 1, output, place_block(BUFFER_INPUT, rank));
        if (at_root)
            break;
        script_wait(script, 1, plan->root, 0);
        script_fetch(script, 1, output, plan->root, addressed(plan->kind) ? mine : shared);
        break;
    case COLLECTIVE_BARRIER:
    case COLLECTIVES: break; /* nothing to take here */
    }
    script_signal(script, 1); /* on every rank: all must be known to be through before a slot is used again */
}

static void one_shot_lay(const struct plan *plan, int rank, struct script *script)
{
    if (plan->kind == COLLECTIVE_BARRIER && plan->ranks > 1) {
        script_signal(script, 0);
        script_wait(script, 0, ALL_RANKS, 0);
    } else if (plan->ranks > 1) {
        lay_puts(plan, rank, script);
        lay_takes(plan, rank, script);
    } else if (collective_output_blocks(plan->kind, 1, 0, 0) > 0 && plan->kind != COLLECTIVE_BROADCAST) {
        /* Alone: the one contribution is the result, and dividing by one rank changes nothing. */
        script_copy(script, 0, place_block(BUFFER_OUTPUT, 0), place_block(BUFFER_INPUT, 0));
    }
}

static double one_shot_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double m = (double)size, others = plan->ranks - 1;
    if (others < 1)
        return 0;
    double round = cost_round(facts);
    struct cost_facts alone = cost_alone(facts); /* where the root does most of the work */
    switch (plan->kind) {
    case COLLECTIVE_ALLREDUCE:
        return round + cost_put(facts, m) + cost_fetch(facts, others * m) +
               cost_fold(facts, (others + 1) * m);
    case COLLECTIVE_REDUCE:
        return round + cost_put(facts, m) + cost_fetch(&alone, others * m) +
               cost_fold(&alone, (others + 1) * m);
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN: { /* the last rank has most to do, unless it shares its core */
        double last = cost_fetch(&alone, others * m) + cost_fold(&alone, (others + 1) * m);
        double all = cost_fetch(facts, others * m / 2) + cost_fold(facts, (others + 1) * m / 2);
        return round + cost_put(facts, m) + (last > all ? last : all);
    }
    case COLLECTIVE_REDUCE_SCATTER:
        return round + cost_put(facts, others * m) + cost_fetch(facts, others * m) +
               cost_fold(facts, (others + 1) * m);
    case COLLECTIVE_ALLGATHER: return round + cost_put(facts, m) + cost_fetch(facts, others * m);
    case COLLECTIVE_GATHER: return round + cost_put(facts, m) + cost_fetch(&alone, others * m);
    case COLLECTIVE_ALLTOALL: return round + cost_put(facts, others * m) + cost_fetch(facts, others * m);
    case COLLECTIVE_SCATTER: return round + cost_put(&alone, others * m) + cost_fetch(facts, m);
    case COLLECTIVE_BROADCAST: return round + cost_put(&alone, m) + cost_fetch(facts, m);
    case COLLECTIVE_BARRIER:
    case COLLECTIVES: break;
    }
    return round;
}

const struct planner planner_direct_one_shot = {
    .name = "direct-one-shot",
    .needs_windows = true,
    .folds = always_left,
    .serves = one_shot_serves,
    .shape = one_shot_shape,
    .lay = one_shot_lay,
    .cost_ns = one_shot_cost,
};

/* -------------------------------------------------------------- two-phase */

/* Two-phase (reduce-scatter, then gather, after Rabenseifner 2004): part r is folded
 * by rank r, and fetched from there. Two rounds; each rank puts m, reads 2 m (p - 1) / p
 * and folds m, whatever p is. Best from some 32 KiB on with two ranks, earlier with more. */
static bool two_phase_serves(enum collective kind, int ranks)
{
    return ranks > 1 && (kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_REDUCE);
}

enum { CONTRIBUTIONS, RESULTS, TWO_PHASE_BLOCKS }; /* of the window */

static void two_phase_shape(struct plan *plan)
{
    plan->parts = plan->ranks;
    plan->stages = 3;
    plan->window_blocks = TWO_PHASE_BLOCKS;
}

static void two_phase_lay(const struct plan *plan, int rank, struct script *script)
{
    bool takes = plan->kind == COLLECTIVE_ALLREDUCE || rank == plan->root;
    /* The root of a reduce has its part where it belongs: nobody else wants it. */
    bool shares = plan->kind == COLLECTIVE_ALLREDUCE || rank != plan->root;
    const struct place output = place_of(BUFFER_OUTPUT, 0, rank);
    const struct place result = place_of(BUFFER_WINDOW, RESULTS, rank);

    for (int i = 1; i < plan->ranks; i++) {
        int part = after(plan, rank, i);
        script_put(script, 0, place_of(BUFFER_WINDOW, CONTRIBUTIONS, part), place_of(BUFFER_INPUT, 0, part));
    }
    script_signal(script, 0);

    script_wait(script, 1, ALL_RANKS, 0);
    script_reduce(script, 1, takes ? output : result, place_of(BUFFER_INPUT, 0, rank),
                  place_of(BUFFER_WINDOW, CONTRIBUTIONS, rank), takes && shares ? result : nowhere);
    script_signal(script, 1);

    if (takes)
        script_wait(script, 2, ALL_RANKS, 1);
    for (int i = 1; takes && i < plan->ranks; i++) {
        int peer = after(plan, rank, i);
        script_fetch(script, 2, place_of(BUFFER_OUTPUT, 0, peer), peer,
                     place_of(BUFFER_WINDOW, RESULTS, peer));
    }
    script_signal(script, 2);
}

static double two_phase_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double m = (double)size, share = (double)(plan->ranks - 1) / plan->ranks;
    struct cost_facts alone = cost_alone(facts);
    double collect = cost_fetch(plan->kind == COLLECTIVE_REDUCE ? &alone : facts, share * m);
    return 2 * cost_round(facts) + cost_put(facts, m) + cost_fetch(facts, share * m) + cost_fold(facts, m) +
           collect;
}

const struct planner planner_direct_two_phase = {
    .name = "direct-two-phase",
    .needs_windows = true,
    .folds = always_left,
    .serves = two_phase_serves,
    .shape = two_phase_shape,
    .lay = two_phase_lay,
    .cost_ns = two_phase_cost,
};
