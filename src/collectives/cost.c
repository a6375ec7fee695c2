#include "collectives/cost.h"

/* Nanoseconds per byte, measured on a Zen 4 host with two vCPUs whose place changes: near is one L3 (a
 * cache line takes 50 to 60 ns one way), far two L3s (250 ns). Put: ordinary stores at 45 GB/s near,
 * non-temporal ones at 20 GB/s far. Fetch: lines that the other core has just written, 43 and 18 GB/s.
 * Fold: what a further source costs once it is in cache; set so that one-shot beats two-phase up to 32
 * KiB with two ranks, as it does there both near and far. */
static const struct rates {
    double put, fetch, fold;
} near_rates = { 1.0 / 45, 1.0 / 43, 0.0032 }, far_rates = { 1.0 / 20, 1.0 / 18, 0.0092 };

enum { NEAR_LINE_NS = 55, FAR_FROM_NS = 120 };

/* Who looks at a line must first come to look: a call, a loop, some tests. */
enum { LOOK_NS = 50, LOOK_AGAIN_NS = 10 };

/* With more ranks than cores the others must be given the core first. */
enum { YIELD_NS = 1500 };

/* A message through shared memory: match, copy in, copy out, in pieces for which the sender needs room
 * again and again; so a window, where there is one, carries bytes twice as fast. Where there are no
 * windows there is a network: say 10 us and 5 GB/s, unless it was measured or told. */
enum { MATCH_NS = 300, MAIL_FACTOR = 2, NETWORK_MATCH_NS = 1000 };
static const struct network usual_network = { .latency_ns = 10000, .ns_per_byte = 0.2 };

static struct network network(const struct cost_facts *facts)
{
    return (struct network){
        .latency_ns = facts->network.latency_ns > 0 ? facts->network.latency_ns : usual_network.latency_ns,
        .ns_per_byte =
            facts->network.ns_per_byte > 0 ? facts->network.ns_per_byte : usual_network.ns_per_byte,
    };
}

static double line(const struct cost_facts *facts)
{
    return facts->line_ns > 0 ? facts->line_ns : NEAR_LINE_NS;
}

static const struct rates *rates(const struct cost_facts *facts)
{
    return line(facts) < FAR_FROM_NS ? &near_rates : &far_rates;
}

/* Ranks that share a core. */
static double crowd(const struct cost_facts *facts)
{
    if (facts->cores <= 0 || facts->ranks <= facts->cores)
        return 1;
    return (double)facts->ranks / facts->cores;
}

double cost_round(const struct cost_facts *facts)
{
    int others = facts->ranks > 1 ? facts->ranks - 1 : 0;
    return line(facts) + LOOK_NS + LOOK_AGAIN_NS * (others - 1) + YIELD_NS * (crowd(facts) - 1);
}

double cost_message(const struct cost_facts *facts)
{
    if (!facts->windows)
        return network(facts).latency_ns + YIELD_NS * (crowd(facts) - 1);
    return 2 * line(facts) + MATCH_NS + YIELD_NS * (crowd(facts) - 1);
}

double cost_further(const struct cost_facts *facts, int messages)
{
    return messages * (facts->windows ? MATCH_NS : NETWORK_MATCH_NS);
}

double cost_plan(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    size_t chunk;
    if (!facts->windows && facts->groups != NULL && plan->ranks > 1)
        return cost_messages(plan, facts, size, &chunk);
    double cost = plan->planner->cost_ns(plan, facts, size);
    if (facts->staging == 0 || plan->window_blocks == 0)
        return cost;
    double slots = (double)plan->window_blocks * (plan->stages + 1);
    double further = (double)size * slots / (double)facts->staging - 1;
    return further > 0 ? cost + further * cost_round(facts) : cost;
}

double cost_put(const struct cost_facts *facts, double size)
{
    return rates(facts)->put * crowd(facts) * size;
}

double cost_fetch(const struct cost_facts *facts, double size)
{
    return rates(facts)->fetch * crowd(facts) * size;
}

double cost_fold(const struct cost_facts *facts, double size)
{
    return rates(facts)->fold * crowd(facts) * size;
}

double cost_carry(const struct cost_facts *facts, double size)
{
    if (!facts->windows)
        return network(facts).ns_per_byte * size;
    return MAIL_FACTOR * (rates(facts)->put + rates(facts)->fetch) * crowd(facts) * size;
}
