/* What joins the hosts, measured when a world starts: rank 0 and the first rank elsewhere pass a small message to and
 * fro, then larger ones. Plans are chosen by what comes of it, so all ranks take what rank 0 found, and it is
 * rounded: two runs on the same machines should choose alike. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "calls.h"
#include "messages.h"
#include "world.h"

enum {
    SMALL_TRIPS = 12, /* of the small message; the quickest counts */
    LARGE_TRIPS = 3,
    FIRST_SIZE = 32 << 10, /* bytes of the first larger message; each next one has 8 times as many... */
    LAST_SIZE = 2 << 20,   /* ...up to these, which outlast what a shaper lets through at once, */
    ENOUGH_NS = 10000000,  /* or until one took so long that nothing but its bytes can have mattered */
    TAG = 1,
};

/* The first rank that is on another host than rank 0; where all were told to use the network, rank 1. */
static int partner_of(const struct world *world)
{
    int rank = 1;
    while (rank < world->size && world->members[rank].first == world->members[0].first)
        rank++;
    return rank < world->size ? rank : 1;
}

/* One way and a word back; *took_ns on rank 0. */
static plait_status travel(struct comm *comm, int partner, unsigned char *bytes, size_t size,
                           int64_t *took_ns)
{
    int64_t start = clock_ns();
    bool leads = comm->group.rank == 0;
    plait_status status = leads ? message_send(comm, CONTEXT_GROUPS, bytes, size, partner, TAG)
                                : message_recv(comm, CONTEXT_GROUPS, bytes, size, 0, TAG);
    if (status == PLAIT_OK)
        status = leads ? message_recv(comm, CONTEXT_GROUPS, bytes, 1, partner, TAG)
                       : message_send(comm, CONTEXT_GROUPS, bytes, 1, 0, TAG);
    *took_ns = clock_ns() - start;
    return status;
}

/* The quickest of some. */
static plait_status time_size(struct comm *comm, int partner, unsigned char *bytes, size_t size, int trips,
                              double *took_ns)
{
    *took_ns = INFINITY;
    for (int trip = 0; trip < trips; trip++) {
        int64_t took;
        plait_status status = travel(comm, partner, bytes, size, &took);
        if (status != PLAIT_OK)
            return status;
        *took_ns = (double)took < *took_ns ? (double)took : *took_ns;
    }
    return PLAIT_OK;
}

static plait_status measure(struct comm *comm, int partner, unsigned char *bytes, struct network *network)
{
    double small, took;
    plait_status status = time_size(comm, partner, bytes, 1, SMALL_TRIPS, &small);
    network->latency_ns = small / 2;
    bool more = true;
    for (size_t size = FIRST_SIZE; status == PLAIT_OK && more; size *= 8) {
        status = time_size(comm, partner, bytes, size, LARGE_TRIPS, &took);
        network->ns_per_byte = (took > small ? took - small : 1) / (double)size;
        bytes[0] = took < ENOUGH_NS && size < LAST_SIZE; /* rank 0's word counts */
        if (status == PLAIT_OK)
            status = time_size(comm, partner, bytes, 1, 1, &took);
        more = bytes[0] != 0;
    }
    return status;
}

static plait_status measure_with(struct world *world, struct comm *comm, struct network *network)
{
    int partner = partner_of(world);
    if (world->rank != 0 && world->rank != partner)
        return PLAIT_OK;
    unsigned char *bytes = calloc(1, LAST_SIZE);
    if (bytes == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to measure the network");
    plait_status status = measure(comm, partner, bytes, network);
    free(bytes);
    return status;
}

static plait_status share(struct comm *comm, struct network *network)
{
    struct call call = { .kind = COLLECTIVE_BROADCAST,
                         .type = PLAIT_F64,
                         .count = sizeof *network / sizeof(double),
                         .input = comm->group.rank == 0 ? network : NULL,
                         .output = network };
    return calls_run(comm, &call);
}

/* The nearest power of the root of two. */
static double round_off(double value)
{
    return exp2(round(2 * log2(value)) / 2);
}

plait_status world_measure_network(struct world *world)
{
    struct comm *comm = world->comms;
    if (comm->group.board != NULL || world->size < 2)
        return PLAIT_OK;
    struct network told = { world->settings.network_latency_ns, world->settings.network_ns_per_byte }, found;
    plait_status status = share(comm, &told);
    found = told;
    if (status == PLAIT_OK && (told.latency_ns <= 0 || told.ns_per_byte <= 0)) {
        status = measure_with(world, comm, &found);
        found.latency_ns = told.latency_ns > 0 ? told.latency_ns : round_off(found.latency_ns);
        found.ns_per_byte = told.ns_per_byte > 0 ? told.ns_per_byte : round_off(found.ns_per_byte);
        if (status == PLAIT_OK)
            status = share(comm, &found);
    }
    if (status != PLAIT_OK)
        return status;
    if (world->rank == 0)
        log_info("between hosts a message takes %.1f us and %.4g Gbit/s pass%s", found.latency_ns / 1e3,
                 8 / found.ns_per_byte,
                 told.latency_ns > 0 && told.ns_per_byte > 0 ? ", as the settings say" : "");
    world->network = comm->group.facts.network = found;
    group_forget_plans(&comm->group);
    return PLAIT_OK;
}
