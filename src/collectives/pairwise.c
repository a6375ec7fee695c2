/* Pairwise, through messages: each block goes straight from the rank that has it to the one
 * that wants it. The fewest bytes; p - 1 messages at the busiest rank.
 *
 * All-to-all after Thakur, Rabenseifner and Gropp (2005), in pairs: in round i ranks whose sum is i (mod p)
 * exchange their blocks, so nobody is crowded; m (p - 1) bytes in p rounds, in one of which a rank has no
 * partner. What leaves goes from a copy, so that what comes may take its place: the call may be in place, on some
 * ranks or on all. Gather and scatter: all p - 1 messages in one round. A binomial tree would need fewer
 * messages at the root, but messages of many blocks, which a step does not have, and would pass
 * most bytes on twice. */
#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/script.h"

static bool pairwise_serves(enum collective kind, int ranks)
{
    return ranks > 1 &&
           (kind == COLLECTIVE_ALLTOALL || kind == COLLECTIVE_GATHER || kind == COLLECTIVE_SCATTER);
}

static void pairwise_shape(struct plan *plan)
{
    bool exchanges = plan->kind == COLLECTIVE_ALLTOALL;
    plan->stages = exchanges ? plan->ranks : 1;
    plan->work_blocks = exchanges ? 1 : 0;
}

static void lay_alltoall(const struct plan *plan, int rank, struct script *script)
{
    script_copy(script, 0, place_block(BUFFER_OUTPUT, rank), place_block(BUFFER_INPUT, rank));
    for (int stage = 0; stage < plan->ranks; stage++) {
        int peer = (stage + plan->ranks - rank) % plan->ranks;
        if (peer == rank)
            continue;
        script_copy(script, stage, place_work(0, peer), place_block(BUFFER_INPUT, peer));
        script_recv(script, stage, peer, place_block(BUFFER_OUTPUT, peer));
        script_send(script, stage, peer, place_work(0, peer));
    }
}

static void lay_gather(const struct plan *plan, int rank, struct script *script)
{
    if (rank != plan->root) {
        script_send(script, 0, plan->root, place_block(BUFFER_INPUT, 0));
        return;
    }
    script_copy(script, 0, place_block(BUFFER_OUTPUT, rank), place_block(BUFFER_INPUT, 0));
    for (int i = 1; i < plan->ranks; i++) {
        int from = (rank + i) % plan->ranks;
        script_recv(script, 0, from, place_block(BUFFER_OUTPUT, from));
    }
}

static void lay_scatter(const struct plan *plan, int rank, struct script *script)
{
    if (rank != plan->root) {
        script_recv(script, 0, plan->root, place_block(BUFFER_OUTPUT, 0));
        return;
    }
    script_copy(script, 0, place_block(BUFFER_OUTPUT, 0), place_block(BUFFER_INPUT, rank));
    for (int i = 1; i < plan->ranks; i++) {
        int to = (rank + i) % plan->ranks;
        script_send(script, 0, to, place_block(BUFFER_INPUT, to));
    }
}

static void pairwise_lay(const struct plan *plan, int rank, struct script *script)
{
    if (plan->kind == COLLECTIVE_ALLTOALL)
        lay_alltoall(plan, rank, script);
    else if (plan->kind == COLLECTIVE_GATHER)
        lay_gather(plan, rank, script);
    else
        lay_scatter(plan, rank, script);
}

static double pairwise_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    return (plan->ranks - 1) * (cost_message(facts) + cost_carry(facts, (double)size));
}

const struct planner planner_pairwise = {
    .name = "pairwise",
    .serves = pairwise_serves,
    .shape = pairwise_shape,
    .lay = pairwise_lay,
    .cost_ns = pairwise_cost,
};
