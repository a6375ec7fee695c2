#include "start.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "collectives/staging.h"
#include "device/reduce.h"
#include "memory.h"
#include "transport/route.h"
#include "world.h"

/* ---------------------------------------------------------------------- cards */

/* What a rank tells the others of itself. Authenticated by the bootstrap, so
 * it comes from a Plait of this job; lengths are checked all the same. */
struct card_body {
    char version[16]; /* first, and the size next, so that every version can read them in another's card */
    uint32_t size;    /* of this struct */
    int64_t pid;
    uint64_t staging_size;
    uint64_t cores[MACHINE_CORE_WORDS]; /* it may use */
    int32_t quota;                      /* cores' worth of time its cgroup allows; 0: no limit */
    char transport[16], plan[20];
    char host_id[HOST_ID_BYTES];
    char host_name[HOST_NAME_BYTES];
    unsigned char blob[TRANSPORT_BLOB_BYTES];
};
_Static_assert(sizeof(struct card_body) <= CARD_BYTES, "a card holds what a rank says");

static void write_card(const struct world *world, size_t staging_size,
                       const unsigned char blob[TRANSPORT_BLOB_BYTES], struct card *card)
{
    struct card_body body = {
        .size = sizeof body, .pid = getpid(), .staging_size = staging_size, .quota = world->machine.quota
    };
    snprintf(body.version, sizeof body.version, "%s", plait_version());
    memcpy(body.cores, world->machine.cores, sizeof body.cores);
    snprintf(body.plan, sizeof body.plan, "%s", world->settings.plan);
    snprintf(body.transport, sizeof body.transport, "%s", world->transport->name);
    memcpy(body.host_id, world->machine.host_id, sizeof body.host_id);
    memcpy(body.host_name, world->machine.host_name, sizeof body.host_name);
    memcpy(body.blob, blob, sizeof body.blob);
    memset(card, 0, sizeof *card);
    memcpy(card->bytes, &body, sizeof body);
}

static struct card_body read_card(const struct card *card)
{
    struct card_body body;
    memcpy(&body, card->bytes, sizeof body);
    body.version[sizeof body.version - 1] = '\0';
    body.transport[sizeof body.transport - 1] = '\0';
    body.plan[sizeof body.plan - 1] = '\0';
    body.host_id[sizeof body.host_id - 1] = '\0';
    body.host_name[sizeof body.host_name - 1] = '\0';
    return body;
}

/* ------------------------------------------------------------ coming together */

static plait_status choose_transport(struct world *world)
{
    const struct settings *settings = &world->settings;
    bool alone = world->size == 1, threads = settings->threads != NULL;
    if (strcmp(settings->transport, "inproc") == 0) {
        if (!threads && !alone)
            return failure(
                PLAIT_INVALID_SETTING,
                "transport inproc joins threads of one process, and options.threads is not set; use shm or "
                "auto for ranks that are processes");
        world->transport = &transport_inproc;
    } else if (strcmp(settings->transport, "shm") == 0) {
        world->transport = &transport_shm;
    } else if (strcmp(settings->transport, "ofi") == 0) {
        world->transport = &transport_ofi;
    } else {
        world->transport = threads || alone ? &transport_inproc : &transport_shm;
    }
    return PLAIT_OK;
}

/* Bytes of the world's staging lane: longer than the readers' second-level cache, so
 * that a slot is out of it before it is written again (twice 2 MiB served as well as four times in
 * measurement, a quarter was a fourth slower); shorter where many ranks share a host. */
size_t world_lane_size(const struct world *world)
{
    if (world->settings.staging_size > 0)
        return world->settings.staging_size;
    size_t lane = 4 * world->machine.l2_bytes;
    size_t most = ((size_t)64 << 20) / (size_t)world->size;
    if (most > (size_t)4 << 20)
        most = (size_t)4 << 20;
    if (lane > most)
        lane = most;
    if (lane < (size_t)256 << 10)
        lane = (size_t)256 << 10;
    return lane;
}

static plait_status exchange(const struct world *world, const struct card *mine, struct card *cards,
                             struct bootstrap_result *result, int64_t deadline)
{
    const struct settings *settings = &world->settings;
    if (world->size == 1) {
        cards[0] = *mine;
        memset(result, 0, sizeof *result);
        return PLAIT_OK;
    }
    struct bootstrap_options options = { .rank = world->rank,
                                         .size = world->size,
                                         .threads = settings->threads,
                                         .store = settings->store,
                                         .file = settings->file,
                                         .address = settings->address,
                                         .port = settings->port,
                                         .launcher = settings->launcher,
                                         .launcher_asked = settings->launcher_asked,
                                         .interface = settings->interface,
                                         .job = settings->job,
                                         .job_key = settings->job_key,
                                         .job_key_size = settings->job_key_size,
                                         .deadline = deadline };
    return bootstrap_exchange(&options, mine, cards, result);
}

/* Can `rank` take part in this world, by its card? */
static plait_status check_card(const struct world *world, int rank, const struct card_body *body,
                               size_t own_staging)
{
    if (strcmp(body->version, plait_version()) != 0 || body->size != sizeof *body)
        return failure(PLAIT_START_FAILED,
                       "rank %d runs Plait %s%s and rank %d Plait %s; install one and the same on all hosts",
                       rank, body->version, body->size != sizeof *body ? " of another build" : "",
                       world->rank, plait_version());
    if (strcmp(body->transport, world->transport->name) != 0)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d uses transport %s and rank %d %s; set PLAIT_TRANSPORT alike on all ranks",
                       world->rank, world->transport->name, rank, body->transport);
    if (body->staging_size != own_staging)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d stages through %zu bytes and rank %d through %llu; set PLAIT_STAGING_SIZE "
                       "alike on all ranks",
                       world->rank, own_staging, rank, (unsigned long long)body->staging_size);
    if (strcmp(body->plan, world->settings.plan) != 0)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d asks for plan %s and rank %d for %s; set PLAIT_PLAN alike on all ranks",
                       world->rank, world->settings.plan, rank, body->plan);
    return PLAIT_OK;
}

/* Keeps what the cards say, and finds out who is on this host. */
static plait_status read_cards(struct world *world, const struct card *cards, size_t own_staging)
{
    world->members = calloc((size_t)world->size, sizeof *world->members);
    if (world->members == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d ranks", world->size);
    for (int rank = 0; rank < world->size; rank++) {
        struct card_body body = read_card(&cards[rank]);
        plait_status status = check_card(world, rank, &body, own_staging);
        if (status != PLAIT_OK)
            return status;
        struct member *member = &world->members[rank];
        member->pid = body.pid;
        memcpy(member->host, body.host_name, sizeof member->host);
        member->outside = strcmp(body.host_id, world->machine.host_id) != 0;
        if (rank < world->rank && !member->outside)
            world->local_rank++;
        world->local_size += !member->outside;
    }
    return PLAIT_OK;
}

static bool same_host(const struct card *cards, int one, int other)
{
    size_t place = offsetof(struct card_body, host_id);
    return memcmp(cards[one].bytes + place, cards[other].bytes + place, HOST_ID_BYTES) == 0;
}

/* Lists the ranks of hosts by their first. */
static void tell_hosts(struct world *world, const struct card *cards)
{
    for (int rank = 0; rank < world->size; rank++) {
        int first = 0;
        while (!same_host(cards, first, rank))
            first++;
        world->members[rank].first = first;
    }
}

/* The cores of all ranks on the host of `rank`, not that one's: a launcher may bind each to its own. */
static int cores_of_host(const struct world *world, const struct card *cards, int host)
{
    uint64_t cores[MACHINE_CORE_WORDS] = { 0 };
    int quota = 0;
    bool limited = true;
    for (int rank = 0; rank < world->size; rank++) {
        if (!same_host(cards, rank, host))
            continue;
        struct card_body body = read_card(&cards[rank]);
        for (int word = 0; word < MACHINE_CORE_WORDS; word++)
            cores[word] |= body.cores[word];
        limited = limited && body.quota > 0;
        quota = body.quota > quota ? body.quota : quota;
    }
    return machine_core_count(cores, limited ? quota : 0);
}

/* What plans are chosen by must be the same on all ranks. */
static void count_cores(struct world *world, const struct card *cards)
{
    for (int rank = 0; rank < world->size; rank++) {
        if (world->members[rank].first == rank)
            world->all_cores += cores_of_host(world, cards, rank);
    }
    world->cores = cores_of_host(world, cards, world->rank);
}

/* `found`: where rank 0 was found, if the launcher told that; else "" or NULL. */
static struct endpoint_setup setup_for(const struct world *world, size_t staging, const char *found)
{
    return (struct endpoint_setup){ .rank = world->rank,
                                    .size = world->size,
                                    .lane_size = staging,
                                    .provider = world->settings.ofi_provider,
                                    .interface = world->settings.interface,
                                    .toward =
                                        found != NULL && found[0] != '\0' ? found : world->settings.address };
}

/* A rank on another host; -1 if there is none. */
static int rank_outside(const struct world *world)
{
    for (int rank = 0; rank < world->size; rank++)
        if (world->members[rank].outside)
            return rank;
    return -1;
}

static plait_status refuse_hosts(const struct world *world, int outside)
{
    return failure(
        PLAIT_INVALID_SETTING,
        "rank %d runs on host %s and rank %d on host %s (or in other containers), and transport %s "
        "joins ranks of one host; set PLAIT_TRANSPORT to auto",
        world->rank, world->machine.host_name, outside, world->members[outside].host, world->transport->name);
}

static void take_blobs(const struct world *world, const struct card *cards, unsigned char *blobs)
{
    for (int rank = 0; rank < world->size; rank++) {
        struct card_body body = read_card(&cards[rank]);
        memcpy(blobs + (size_t)rank * TRANSPORT_BLOB_BYTES, body.blob, sizeof body.blob);
    }
}

/* The card of a rank that has no network says why, so that all ranks fail with that at once. */
static void write_excuse(struct card *card)
{
    struct card_body body = read_card(card);
    snprintf(body.transport, sizeof body.transport, "none");
    snprintf((char *)body.blob, sizeof body.blob, "%s", failure_text());
    memcpy(card->bytes, &body, sizeof body);
}

static plait_status check_excuses(const struct world *world, const struct card *cards)
{
    for (int rank = 0; rank < world->size; rank++) {
        struct card_body body = read_card(&cards[rank]);
        body.blob[sizeof body.blob - 1] = '\0';
        if (strcmp(body.transport, "none") == 0 && rank != world->rank)
            return failure(PLAIT_START_FAILED, "rank %d on host %s has no network to other hosts: %s", rank,
                           body.host_name, (const char *)body.blob);
    }
    return PLAIT_OK;
}

/* Opens the network and trades its blobs in a second exchange: not before a peer is known to be on another
 * host, for what it takes to open is not for worlds that never use it. */
static plait_status open_network(const struct world *world, const char *found, struct card *cards,
                                 struct endpoint **network, int64_t deadline)
{
    size_t staging = world_lane_size(world);
    struct endpoint_setup setup = setup_for(world, staging, found);
    struct bootstrap_result result;
    struct card mine;
    unsigned char blob[TRANSPORT_BLOB_BYTES] = { 0 };
    char trouble[SENTENCE_BYTES] = "";
    plait_status opened = transport_ofi.open(&setup, network, blob);
    write_card(world, staging, blob, &mine);
    if (opened != PLAIT_OK) {
        snprintf(trouble, sizeof trouble, "%s", failure_text());
        write_excuse(&mine);
    }
    plait_status status = exchange(world, &mine, cards, &result, deadline);
    if (opened != PLAIT_OK)
        return failure(opened, "%s", trouble);
    return status == PLAIT_OK ? check_excuses(world, cards) : status;
}

/* Makes the transport one that routes by peer. `blobs` has two rows a rank. */
static plait_status open_route(struct world *world, const char *found, struct card *cards,
                               unsigned char *blobs, int64_t deadline)
{
    size_t row = (size_t)world->size * TRANSPORT_BLOB_BYTES;
    bool *outside = calloc((size_t)world->size, sizeof *outside);
    struct endpoint *network = NULL;
    if (outside == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d ranks", world->size);
    for (int rank = 0; rank < world->size; rank++)
        outside[rank] = world->members[rank].outside;
    plait_status status = open_network(world, found, cards, &network, deadline);
    if (status != PLAIT_OK)
        goto cleanup;
    take_blobs(world, cards, blobs + row);
    struct route_part inner = { world->transport, world->endpoint, blobs };
    struct route_part outer = { &transport_ofi, network, blobs + row };
    status = route_make(world->rank, world->size, outside, &inner, &outer, &world->endpoint);
    if (status == PLAIT_OK) {
        world->transport = &transport_route;
        network = NULL; /* the route's */
    }

cleanup:
    if (network != NULL)
        transport_ofi.close(network);
    free(outside);
    return status;
}

static plait_status connect_peers(struct world *world, struct card *cards,
                                  const struct bootstrap_result *result, int64_t deadline)
{
    struct peer *peers = calloc((size_t)world->size, sizeof *peers);
    unsigned char *blobs = calloc(2 * (size_t)world->size, TRANSPORT_BLOB_BYTES);
    int outside = rank_outside(world);
    plait_status status = PLAIT_OK;
    if (peers == NULL || blobs == NULL) {
        status = failure(PLAIT_OUT_OF_MEMORY, "no memory for %d ranks", world->size);
        goto cleanup;
    }
    take_blobs(world, cards, blobs);
    if (outside >= 0 && world->transport != &transport_ofi)
        status = strcmp(world->settings.transport, "auto") == 0
                     ? open_route(world, result->toward, cards, blobs, deadline)
                     : refuse_hosts(world, outside);
    for (int rank = 0; rank < world->size; rank++)
        peers[rank] = (struct peer){ .rank = rank,
                                     .pid = world->members[rank].pid,
                                     .blob = blobs + (size_t)rank * TRANSPORT_BLOB_BYTES };
    if (status == PLAIT_OK)
        status = world->transport->connect(world->endpoint, peers, world->size, result->generation,
                                           result->job_key, deadline);

cleanup:
    free(blobs);
    free(peers);
    return status;
}

/* Opens this rank's side, trades cards with everybody, and connects. */
static plait_status meet(struct world *world, int64_t deadline)
{
    struct card mine, *cards = calloc((size_t)world->size, sizeof *cards);
    unsigned char blob[TRANSPORT_BLOB_BYTES] = { 0 };
    struct bootstrap_result result;
    size_t staging = world_lane_size(world);
    if (cards == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d ranks", world->size);

    struct endpoint_setup setup = setup_for(world, staging, NULL);
    plait_status status = world->transport->open(&setup, &world->endpoint, blob);
    if (status != PLAIT_OK)
        goto cleanup;
    write_card(world, staging, blob, &mine);
    status = exchange(world, &mine, cards, &result, deadline);
    if (status == PLAIT_OK)
        status = read_cards(world, cards, staging);
    if (status == PLAIT_OK) {
        tell_hosts(world, cards);
        count_cores(world, cards);
    }
    if (status == PLAIT_OK)
        status = connect_peers(world, cards, &result, deadline);

cleanup:
    free(cards);
    return status;
}

static plait_status make_world_comm(struct world *world, int64_t deadline)
{
    int *ranks = malloc((size_t)world->size * sizeof *ranks);
    if (ranks == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d ranks", world->size);
    for (int rank = 0; rank < world->size; rank++)
        ranks[rank] = rank;
    world->channels_used[0] |= 1;
    world->lanes_used |= 1;
    struct comm_plan plan = { .world_ranks = ranks,
                              .rank = world->rank,
                              .ranks = world->size,
                              .first_number = 1,
                              .timeout_ms = deadline_left_ms(deadline),
                              .name = "world" };
    struct comm *comm;
    plait_status status = comm_make(world, &plan, &comm);
    free(ranks);
    if (status == PLAIT_OK && comm->group.board != NULL)
        staging_change(&comm->group); /* whose memory is there from the start */
    return status;
}

/* The first communicator's first operations: everybody is there, how far apart the cores are, and which way bytes
 * go best between them. */
static plait_status greet(struct world *world)
{
    struct comm *comm = world->comms;
    plait_status status = comm_probe_line(comm, &world->line_ns);
    if (status != PLAIT_OK)
        return status;
    comm->group.facts.line_ns = world->line_ns;
    group_note_line(&comm->group, world->line_ns);
    status = world_try_ways(world);
    if (status == PLAIT_OK)
        status = world_measure_network(world);
    if (status != PLAIT_OK)
        return status;
    comm->group.uncounted = comm->group.number;
    atomic_store(&comm->timeout_ms, world->settings.timeout_ms);
    return PLAIT_OK;
}

plait_status world_start(struct world *world, const plait_world_options *options)
{
    plait_status status = settings_load(&world->settings, options);
    if (status != PLAIT_OK)
        return status;
    if (!reduce_use(world->settings.kernels))
        return failure(PLAIT_INVALID_SETTING,
                       "PLAIT_KERNELS is '%s', which this machine or build does not have; auto takes the "
                       "best that it has",
                       world->settings.kernels);
    world->rank = world->settings.rank;
    world->size = world->settings.size;
    world->machine = machine_look();
    int64_t deadline = deadline_after_ms(world->settings.start_timeout_ms);

    status = choose_transport(world);
    if (status == PLAIT_OK)
        status = meet(world, deadline);
    if (status == PLAIT_OK)
        memory_open(world);
    if (status == PLAIT_OK)
        status = engine_start(&world->engine, world);
    if (status == PLAIT_OK)
        status = make_world_comm(world, deadline);
    if (status == PLAIT_OK)
        status = greet(world);
    if (plait_status_remedy(status) == PLAIT_REMEDY_REBUILD && status != PLAIT_START_FAILED) {
        char sentence[SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence, "%s", failure_text());
        status = failure(PLAIT_START_FAILED, "while the world started, %.900s", sentence);
    }
    return status;
}
