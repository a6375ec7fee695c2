/* Running results in windows: a scan in two phases, like the two-phase reduction. Part q of what all ranks give is
 * folded by rank q, which leaves the result after each rank in its window; each rank fetches its own results from
 * all. Two rounds; each rank puts m, reads m (p - 1) / p, folds and writes m, and fetches m, whatever p is, where
 * one-shot has the last rank read (p - 1) m. Best for large sizes and more than two ranks.
 *
 * The phases are Rabenseifner's (2004); that one rank folds a part for all, in the order of ranks, is what a
 * window allows. */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/script.h"

static bool running_serves(enum collective kind, int ranks)
{
    return ranks > 2 && (kind == COLLECTIVE_SCAN || kind == COLLECTIVE_EXSCAN);
}

/* Results that somebody wants: after rank 0, 1, ...; after the last one only where its own counts in. */
static int result_count(const struct plan *plan)
{
    return plan->kind == COLLECTIVE_SCAN ? plan->ranks : plan->ranks - 1;
}

enum { CONTRIBUTIONS, RESULTS }; /* blocks of the window; results go on to the end */

static void running_shape(struct plan *plan)
{
    plan->parts = plan->ranks;
    plan->stages = 3;
    plan->window_blocks = RESULTS + result_count(plan);
}

static void running_lay(const struct plan *plan, int rank, struct script *script)
{
    int mine = plan->kind == COLLECTIVE_SCAN ? rank : rank - 1; /* the result that this rank wants */
    /* Where the last rank's own counts for nobody, one put still makes sure of its slot. */
    int puts = rank < result_count(plan) ? plan->ranks - 1 : 1;

    for (int i = 1; i <= puts; i++) {
        int part = (rank + i) % plan->ranks;
        script_put(script, 0, place_of(BUFFER_WINDOW, CONTRIBUTIONS, part), place_of(BUFFER_INPUT, 0, part));
    }
    script_signal(script, 0);

    script_wait(script, 1, ALL_RANKS, 0);
    script_running(script, 1, place_of(BUFFER_WINDOW, RESULTS, rank), place_of(BUFFER_INPUT, 0, rank),
                   place_of(BUFFER_WINDOW, CONTRIBUTIONS, rank), result_count(plan));
    script_signal(script, 1);

    if (mine >= 0)
        script_wait(script, 2, ALL_RANKS, 1);
    for (int i = 0; mine >= 0 && i < plan->ranks; i++) {
        int peer = (rank + i) % plan->ranks;
        script_fetch(script, 2, place_of(BUFFER_OUTPUT, 0, peer), peer,
                     place_of(BUFFER_WINDOW, RESULTS + mine, peer));
    }
    script_signal(script, 2);
}

static double running_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    double m = (double)size, share = (double)(plan->ranks - 1) / plan->ranks;
    return 2 * cost_round(facts) + cost_put(facts, 2 * m) + cost_fetch(facts, (1 + share) * m) +
           cost_fold(facts, 2 * m);
}

static enum fold_order running_folds(enum collective kind, int root)
{
    (void)kind;
    (void)root;
    return FOLDS_LEFT;
}

const struct planner planner_direct_running = {
    .name = "direct-running",
    .needs_windows = true,
    .serves = running_serves,
    .folds = running_folds,
    .shape = running_shape,
    .lay = running_lay,
    .cost_ns = running_cost,
};
