/* Worlds: coming together, asking, leaving. */
#include "world.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/handle.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "device/reduce.h"
#include "ending.h"

/* ----------------------------------------------------------------------- forks */

static atomic_uint forks;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    handle_after_fork();
    atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

/* Forks survived by this process's ancestors since they loaded the library. */
static unsigned fork_count(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

bool world_is_parents(const struct world *world, const char *function)
{
    if (world->fork_count == fork_count())
        return false;
    failure(
        PLAIT_INVALID_USAGE,
        "%s: this process was forked from rank %d and has no part in its world; create a world of its own",
        function, world->rank);
    return true;
}

/* ----------------------------------------------------------------------- cards */

/* What a rank tells the others of itself. Authenticated by the bootstrap, so
 * it comes from a Plait of this job; lengths are checked all the same. */
struct card_body {
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
    struct card_body body = { .pid = getpid(), .staging_size = staging_size, .quota = world->machine.quota };
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
    body.transport[sizeof body.transport - 1] = '\0';
    body.plan[sizeof body.plan - 1] = '\0';
    body.host_id[sizeof body.host_id - 1] = '\0';
    body.host_name[sizeof body.host_name - 1] = '\0';
    return body;
}

/* -------------------------------------------------------------- coming together */

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
    } else {
        world->transport = threads || alone ? &transport_inproc : &transport_shm;
    }
    return PLAIT_OK;
}

/* Bytes of a staging lane: a few times longer than the readers' second-level
 * cache, so that a slot is out of it before it is written again; shorter where many ranks
 * share a host. */
static size_t lane_size(const struct world *world)
{
    if (world->settings.staging_size > 0)
        return world->settings.staging_size;
    size_t lane = 4 * world->machine.l2_bytes;
    size_t most = ((size_t)64 << 20) / (size_t)world->size;
    if (most > (size_t)8 << 20)
        most = (size_t)8 << 20;
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
                                         .job_key = settings->job_key,
                                         .job_key_size = settings->job_key_size,
                                         .deadline = deadline };
    return bootstrap_exchange(&options, mine, cards, result);
}

/* Keeps what the cards say, and finds out who is on this host. */
static plait_status read_cards(struct world *world, const struct card *cards, size_t own_staging)
{
    world->members = calloc((size_t)world->size, sizeof *world->members);
    if (world->members == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d ranks", world->size);
    for (int rank = 0; rank < world->size; rank++) {
        struct card_body body = read_card(&cards[rank]);
        struct member *member = &world->members[rank];
        member->pid = body.pid;
        memcpy(member->host, body.host_name, sizeof member->host);
        if (strcmp(body.host_id, world->machine.host_id) != 0)
            return failure(
                PLAIT_UNSUPPORTED,
                "rank %d runs on host %s and rank %d on host %s (or in other containers); ranks of "
                "several hosts need the libfabric transport, which this version does not have yet",
                world->rank, world->machine.host_name, rank, member->host);
        if (strcmp(body.transport, world->transport->name) != 0)
            return failure(PLAIT_INVALID_SETTING,
                           "rank %d uses transport %s and rank %d %s; set PLAIT_TRANSPORT alike on all ranks",
                           world->rank, world->transport->name, rank, body.transport);
        if (body.staging_size != own_staging)
            return failure(
                PLAIT_INVALID_SETTING,
                "rank %d stages through %zu bytes and rank %d through %llu; set PLAIT_STAGING_SIZE alike "
                "on all ranks",
                world->rank, own_staging, rank, (unsigned long long)body.staging_size);
        if (strcmp(body.plan, world->settings.plan) != 0)
            return failure(PLAIT_INVALID_SETTING,
                           "rank %d asks for plan %s and rank %d for %s; set PLAIT_PLAN alike on all ranks",
                           world->rank, world->settings.plan, rank, body.plan);
        if (rank < world->rank)
            world->local_rank++;
        world->local_size++;
    }
    return PLAIT_OK;
}

/* Counts the cores of all ranks, not this one's: a launcher may bind each to
 * its own, and what plans are chosen by must be the same on all. */
static void count_cores(struct world *world, const struct card *cards)
{
    uint64_t cores[MACHINE_CORE_WORDS] = { 0 };
    int quota = 0;
    bool limited = true;
    for (int rank = 0; rank < world->size; rank++) {
        struct card_body body = read_card(&cards[rank]);
        for (int word = 0; word < MACHINE_CORE_WORDS; word++)
            cores[word] |= body.cores[word];
        limited = limited && body.quota > 0;
        quota = body.quota > quota ? body.quota : quota;
    }
    world->cores = machine_core_count(cores, limited ? quota : 0);
}

static plait_status connect_peers(struct world *world, const struct card *cards,
                                  const struct bootstrap_result *result, int64_t deadline)
{
    struct peer *peers = calloc((size_t)world->size, sizeof *peers);
    unsigned char(*blobs)[TRANSPORT_BLOB_BYTES] = calloc((size_t)world->size, sizeof *blobs);
    plait_status status = PLAIT_OK;
    if (peers == NULL || blobs == NULL) {
        status = failure(PLAIT_OUT_OF_MEMORY, "no memory for %d ranks", world->size);
        goto cleanup;
    }
    for (int rank = 0; rank < world->size; rank++) {
        struct card_body body = read_card(&cards[rank]);
        memcpy(blobs[rank], body.blob, sizeof body.blob);
        peers[rank] = (struct peer){ .rank = rank, .pid = body.pid, .blob = blobs[rank] };
    }
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
    size_t staging = lane_size(world);
    if (cards == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d ranks", world->size);

    struct endpoint_setup setup = { .rank = world->rank,
                                    .size = world->size,
                                    .staging_size = STAGING_LANES * staging };
    plait_status status = world->transport->open(&setup, &world->endpoint, blob);
    if (status != PLAIT_OK)
        goto cleanup;
    write_card(world, staging, blob, &mine);
    status = exchange(world, &mine, cards, &result, deadline);
    if (status == PLAIT_OK)
        status = read_cards(world, cards, staging);
    if (status == PLAIT_OK)
        count_cores(world, cards);
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
    return status;
}

/* The first communicator's first operations: everybody is there, and how far apart the cores are. */
static plait_status greet(struct world *world)
{
    struct comm *comm = world->comms;
    plait_status status = comm_probe_line(comm, &world->line_ns);
    if (status != PLAIT_OK)
        return status;
    comm->group.facts.line_ns = world->line_ns;
    comm->group.uncounted = comm->group.number;
    group_note_line(&comm->group, world->line_ns);
    atomic_store(&comm->timeout_ms, world->settings.timeout_ms);
    return PLAIT_OK;
}

static void free_comms(struct comm *comm)
{
    while (comm != NULL) {
        struct comm *next = comm->next;
        comm_free(comm);
        comm = next;
    }
}

static void world_free(struct world *world)
{
    for (struct comm *comm = world->comms; comm != NULL; comm = comm->next)
        handle_end(HANDLE_COMM, comm->handle);
    for (struct comm *comm = world->comms; comm != NULL; comm = comm->next)
        while (atomic_load(&comm->users) > 0)
            nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    /* First: the thread may still be looking at a communicator whose last work it has just finished. */
    if (world->endpoint != NULL && world->engine.transport != NULL)
        engine_stop(&world->engine);
    free_comms(world->comms);
    free_comms(world->retired);
    if (world->endpoint != NULL) {
        world->transport->leave(world->endpoint);
        world->transport->close(world->endpoint);
    }
    free(world->members);
    pthread_mutex_destroy(&world->lock);
    free(world);
}

static plait_status start(struct world *world, const plait_world_options *options)
{
    plait_status status = settings_load(&world->settings, options);
    if (status != PLAIT_OK)
        return status;
    if (!reduce_use(world->settings.kernels))
        return failure(PLAIT_INVALID_SETTING,
                       "PLAIT_KERNELS is '%s', which this machine or build does not have",
                       world->settings.kernels);
    world->rank = world->settings.rank;
    world->size = world->settings.size;
    world->machine = machine_look();
    int64_t deadline = deadline_after_ms(world->settings.start_timeout_ms);

    status = choose_transport(world);
    if (status == PLAIT_OK)
        status = meet(world, deadline);
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

plait_status plait_world_create(const plait_world_options *options, plait_world **out)
{
    if (out == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: world is NULL", __func__);
    pthread_once(&fork_once, watch_forks);
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a world");
    pthread_mutex_init(&world->lock, NULL);
    world->fork_count = fork_count();

    plait_status status = start(world, options);
    if (status == PLAIT_OK) {
        world->handle = handle_new(HANDLE_WORLD, world);
        if (world->handle == NULL)
            status = failure(PLAIT_OUT_OF_MEMORY, "no memory for the handle of a world");
    }
    if (status != PLAIT_OK) {
        char sentence[SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence, "%s", failure_text());
        world_free(world);
        return failure(status, "%s", sentence);
    }
    log_info("rank %d of %d is up over %s; a cache line takes %.0f ns; kernels %s", world->rank, world->size,
             world->transport->name, world->line_ns, reduce_set_name());
    *out = world->handle;
    return PLAIT_OK;
}

/* --------------------------------------------------------------------- leaving */

plait_status plait_world_destroy(plait_world *handle)
{
    if (handle == NULL)
        return PLAIT_OK;
    struct world *world = world_find(handle, __func__);
    if (world == NULL)
        return PLAIT_INVALID_USAGE;
    if (engine_calls_back(&world->engine))
        return failure(PLAIT_INVALID_USAGE, "%s: called from a callback, which must not wait", __func__);
    if (handle_end(HANDLE_WORLD, handle) == NULL)
        return failure(PLAIT_INVALID_USAGE, "%s: another thread has destroyed world", __func__);
    int64_t deadline = deadline_after_ms(1000); /* for all of them together */
    for (struct comm *comm = world->comms; comm != NULL; comm = comm->next)
        comm_settle(comm, deadline);
    while (atomic_load(&world->users) > 0)
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    world_free(world);
    return PLAIT_OK;
}

plait_status plait_world_abort(plait_world *handle, const char *reason)
{
    struct world *world = world_hold(handle, __func__);
    if (world == NULL)
        return handle_refusal(handle);
    pthread_mutex_lock(&world->lock);
    for (struct comm *comm = world->comms; comm != NULL; comm = comm->next)
        comm_ask_abort(comm, reason);
    pthread_mutex_unlock(&world->lock);
    engine_nudge(&world->engine);
    world_let_go(world);
    return PLAIT_OK;
}

/* ---------------------------------------------------------------------- asking */

struct world *world_find(const plait_world *handle, const char *function)
{
    struct world *world = handle_find(HANDLE_WORLD, handle);
    if (world == NULL)
        failure(handle_refusal(handle), "%s: %s", function,
                handle == NULL ? "world is NULL"
                               : "world is not a living world; it was destroyed, or is none");
    else if (world_is_parents(world, function))
        world = NULL;
    return world;
}

struct world *world_hold(const plait_world *handle, const char *function)
{
    struct world *held = handle_hold(HANDLE_WORLD, handle);
    if (held != NULL) {
        atomic_fetch_add(&held->users, 1);
        handle_let_go(handle);
    }
    struct world *world = world_find(handle, function);
    if (world == NULL && held != NULL)
        world_let_go(held);
    return world;
}

/* An int of a living world, by its place in the struct, or -1. */
static int asked(const plait_world *handle, const char *function, size_t place)
{
    struct world *world = world_hold(handle, function);
    if (world == NULL)
        return -1;
    int value;
    memcpy(&value, (const char *)world + place, sizeof value);
    world_let_go(world);
    return value;
}

int plait_world_rank(const plait_world *handle)
{
    return asked(handle, __func__, offsetof(struct world, rank));
}

int plait_world_size(const plait_world *handle)
{
    return asked(handle, __func__, offsetof(struct world, size));
}

int plait_world_local_rank(const plait_world *handle)
{
    return asked(handle, __func__, offsetof(struct world, local_rank));
}

int plait_world_local_size(const plait_world *handle)
{
    return asked(handle, __func__, offsetof(struct world, local_size));
}

plait_comm *plait_world_comm(plait_world *handle)
{
    struct world *world = world_hold(handle, __func__);
    if (world == NULL)
        return NULL;
    pthread_mutex_lock(&world->lock);
    struct comm *comm = world->comms;
    while (comm->channel != 0)
        comm = comm->next;
    plait_comm *own = comm->handle;
    pthread_mutex_unlock(&world->lock);
    world_let_go(world);
    return own;
}

plait_status plait_world_fault(const plait_world *handle, plait_fault *fault)
{
    struct world *world = world_hold(handle, __func__);
    if (world == NULL)
        return handle_refusal(handle);
    pthread_mutex_lock(&world->lock);
    struct fault_record record = world->fault;
    pthread_mutex_unlock(&world->lock);
    world_let_go(world);
    return fault_give(&record, fault);
}

plait_status plait_world_get_facts(const plait_world *handle, plait_world_facts *facts)
{
    if (facts == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: facts is NULL", __func__);
    size_t size = facts->struct_size;
    if (size < 2 * sizeof(size_t) || size > 65536)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: facts->struct_size is %zu; set it to sizeof(plait_world_facts), %zu", __func__,
                       size, sizeof *facts);
    struct world *world = world_hold(handle, __func__);
    if (world == NULL)
        return handle_refusal(handle);
    plait_world_facts known = { .struct_size = size,
                                .transport = world->transport->name,
                                .kernels = reduce_set_name(),
                                .line_ns = world->line_ns,
                                .cores = world->cores,
                                .staging_size = lane_size(world) };
    world_let_go(world);
    memset(facts, 0, size);
    memcpy(facts, &known, size < sizeof known ? size : sizeof known);
    return PLAIT_OK;
}
