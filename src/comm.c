/* Communicators: making, asking, ending. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/handle.h"
#include "base/status.h"
#include "collectives/grouping.h"
#include "collectives/staging.h"
#include "ending.h"
#include "group_calls.h"
#include "tidings.h"
#include "work.h"
#include "world.h"

struct comm *comm_find(const plait_comm *handle, const char *function)
{
    struct comm *comm = handle_find(HANDLE_COMM, handle);
    if (comm == NULL)
        failure(handle_refusal(handle), "%s: %s", function,
                handle == NULL ? "comm is NULL"
                               : "comm is not a living communicator; it was destroyed, or is none");
    else if (world_is_parents(comm->world, function))
        comm = NULL;
    return comm;
}

struct comm *comm_hold(const plait_comm *handle, const char *function)
{
    struct comm *held = handle_hold(HANDLE_COMM, handle);
    if (held != NULL) {
        atomic_fetch_add(&held->users, 1);
        handle_let_go(handle);
    }
    struct comm *comm = comm_find(handle, function);
    if (comm == NULL && held != NULL)
        comm_let_go(held);
    return comm;
}

/* -------------------------------------------------------------------- making */

static struct cost_facts facts_for(const struct world *world, int ranks, bool windows)
{
    return (struct cost_facts){ .ranks = ranks,
                                .cores = world->all_cores,
                                .line_ns = world->line_ns,
                                .windows = windows,
                                .network = world->network };
}

/* Intel and AMD both say so of every processor with AVX ("Guaranteed atomic
 * operations" in their manuals). */
static bool processor_stores_wide(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx");
#else
    return false;
#endif
}

static bool reaches_heaps(const struct board *board, int ranks)
{
    for (int rank = 0; board != NULL && rank < ranks; rank++)
        if (board->heaps[rank] == NULL)
            return false;
    return board != NULL;
}

/* Where ranks share no memory: those of a host are near each other; on a single host, whose ranks were told to use
 * the network all the same, nobody is. */
static plait_status group_by_host(struct comm *comm)
{
    struct group *group = &comm->group;
    const struct member *members = comm->world->members;
    int *colours = malloc((size_t)group->ranks * sizeof *colours);
    if (colours != NULL) {
        bool several = false;
        for (int rank = 0; rank < group->ranks; rank++) {
            colours[rank] = members[group->world_ranks[rank]].first;
            several = several || colours[rank] != colours[0];
        }
        for (int rank = 0; rank < group->ranks && !several; rank++)
            colours[rank] = rank;
        group->groups = grouping_make(colours, group->ranks);
    }
    free(colours);
    if (group->groups == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", group->ranks);
    group->facts.groups = group->groups;
    return PLAIT_OK;
}

static plait_status fill(struct comm *comm, const struct comm_plan *plan)
{
    struct world *world = comm->world;
    struct group *group = &comm->group;
    size_t ranks = (size_t)plan->ranks;
    comm->world_ranks = malloc(ranks * sizeof *comm->world_ranks);
    group->sources = malloc(ranks * sizeof *group->sources);
    group->gathered = malloc(ranks * NOTICE_BYTES);
    group->shown = calloc(ranks, sizeof *group->shown);
    if (comm->world_ranks == NULL || group->sources == NULL || group->gathered == NULL ||
        group->shown == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", plan->ranks);
    memcpy(comm->world_ranks, plan->world_ranks, ranks * sizeof *comm->world_ranks);
    for (size_t rank = 0; rank < ranks; rank++)
        group->shown[rank].pid = world->members[plan->world_ranks[rank]].pid;
    group->pull_from = world->pull_from;
    group->pull_near = world->pull_near;

    plait_status status = world->transport->channel_open(world->endpoint, plan->channel);
    if (status != PLAIT_OK)
        return status;
    comm->channel = plan->channel;
    group->board = world->transport->board(world->endpoint, plan->channel, plan->world_ranks, plan->ranks);
    group->heap = reaches_heaps(group->board, plan->ranks) ? &world->heap : NULL;
    group->rank = plan->rank;
    group->ranks = plan->ranks;
    group->world_ranks = comm->world_ranks;
    group->transport = world->transport;
    group->endpoint = world->endpoint;
    group->context = (uint64_t)plan->channel << 48 | (plan->first_number & ((UINT64_C(1) << 48) - 1));
    group->number = group->uncounted = plan->first_number - 1;
    group->facts = facts_for(world, plan->ranks, group->board != NULL);
    group->stores = world->settings.stores;
    group_note_line(group, world->line_ns);
    group->forced_plan = world->settings.plan;
    group->prove = world->settings.prove;
    group->stream_above = world->machine.l3_bytes > 0 ? world->machine.l3_bytes / 3 : (size_t)8 << 20;
    group->wide_stores = processor_stores_wide();
    group->crowded = world->engine.crowded;
    group->looks = group->crowded ? 1 : 32;
    group->last_plan = "none yet";
    if (group->board != NULL)
        return staging_find(group, plan->lane);
    status = group_by_host(comm);
    return status == PLAIT_OK ? tidings_open(comm) : status;
}

plait_status comm_make(struct world *world, const struct comm_plan *plan, struct comm **out)
{
    struct comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a communicator");
    comm->world = world;
    comm->channel = -1;
    comm->lane = plan->lane;
    comm->first_number = plan->first_number;
    atomic_init(&comm->timeout_ms, plan->timeout_ms);
    snprintf(comm->name, sizeof comm->name, "%s", plan->name);
    pthread_mutex_init(&comm->fault_lock, NULL);

    plait_status status = fill(comm, plan);
    if (status == PLAIT_OK) {
        comm->handle = handle_new(HANDLE_COMM, comm);
        if (comm->handle == NULL)
            status = failure(PLAIT_OUT_OF_MEMORY, "no memory for the handle of a communicator");
    }
    if (status != PLAIT_OK) {
        comm_free(comm);
        return status;
    }
    pthread_mutex_lock(&world->lock);
    comm->next = world->comms;
    world->comms = comm;
    pthread_mutex_unlock(&world->lock);
    *out = comm;
    return PLAIT_OK;
}

/* --------------------------------------------------------------------- ending */

void comm_use_places(struct world *world, int channel, int lane, bool used)
{
    unsigned char *byte = &world->channels_used[channel / 8];
    unsigned bit = 1u << channel % 8;
    uint64_t lane_bit = lane < 0 ? 0 : UINT64_C(1) << lane;
    *byte = (unsigned char)(used ? *byte | bit : *byte & ~bit);
    world->lanes_used = used ? world->lanes_used | lane_bit : world->lanes_used & ~lane_bit;
}

bool comm_places_used(const struct world *world, int channel, int lane)
{
    return (world->channels_used[channel / 8] >> channel % 8 & 1) != 0 ||
           (lane >= 0 && (world->lanes_used >> lane & 1) != 0);
}

/* Have the peers read all that this rank left for them, in its staging and its notices? */
static bool is_read(const struct comm *comm)
{
    const struct group *group = &comm->group;
    if (group->board == NULL || group->number < comm->first_number)
        return true;
    for (int rank = 0; rank < group->ranks; rank++)
        if (rank != group->rank && !comm_has_ended(comm, rank) &&
            atomic_load_explicit(&group->board->seats[rank]->finished, memory_order_acquire) < group->number)
            return false;
    return true;
}

void comm_sweep(struct world *world)
{
    struct comm **link = &world->retired;
    while (*link != NULL) {
        struct comm *comm = *link;
        if (!is_read(comm)) {
            link = &comm->next;
            continue;
        }
        *link = comm->next;
        if (comm->lane >= 0)
            world->transport->lane_close(world->endpoint, comm->lane);
        comm_use_places(world, comm->channel, comm->lane, false);
        comm_free(comm);
    }
}

static void take_off_list(struct comm *comm)
{
    for (struct comm **link = &comm->world->comms; *link != NULL; link = &(*link)->next) {
        if (*link == comm) {
            *link = comm->next;
            return;
        }
    }
}

/* Its channel and lane become free, and its memory, when no peer reads what it left there:
 * mostly at once, else when the next communicator is made. */
static void retire(struct comm *comm)
{
    struct world *world = comm->world;
    bool read = is_read(comm);
    for (int64_t until = deadline_after_ms(100); !read && !deadline_passed(until); read = is_read(comm))
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    group_clear(&comm->group);

    pthread_mutex_lock(&world->lock);
    take_off_list(comm);
    /* At least its first, also when it ran nothing: by that its successor is told from it. */
    uint64_t number = comm->group.number < comm->first_number ? comm->first_number : comm->group.number;
    if (world->highest_number < number)
        world->highest_number = number;
    comm->next = world->retired;
    world->retired = comm;
    comm_sweep(world);
    pthread_mutex_unlock(&world->lock);
}

void comm_free(struct comm *comm)
{
    tidings_free(comm);
    if (comm->channel >= 0)
        comm->world->transport->channel_close(comm->world->endpoint, comm->channel);
    board_free(comm->group.board);
    group_clear(&comm->group);
    free(comm->world_ranks);
    free(comm->layout);
    pthread_mutex_destroy(&comm->fault_lock);
    free(comm);
}

/* Has the driver, who may be another thread in the midst of a long call, let go of the communicator. */
static void leave(struct comm *comm)
{
    struct engine *engine = &comm->world->engine;
    atomic_store(&comm->leave_asked, true);
    atomic_store(&engine->alarm, true);
    for (engine_nudge(engine); !atomic_load(&comm->left); engine_nudge(engine))
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static bool in_use(const struct comm *comm)
{
    return atomic_load(&comm->outstanding) > 0 || atomic_load(&comm->users) > 0;
}

/* Lets works run until `deadline`. True when none is left. */
static bool run_out(struct comm *comm, int64_t deadline)
{
    struct engine *engine = &comm->world->engine;
    while (in_use(comm) && !deadline_passed(deadline)) {
        engine_nudge(engine);
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
    return !in_use(comm);
}

void comm_settle(struct comm *comm, int64_t deadline)
{
    if (run_out(comm, deadline))
        return;
    comm_ask_abort(comm, "it was destroyed with works under way");
    run_out(comm, NO_DEADLINE);
}

plait_status plait_comm_destroy(plait_comm *handle)
{
    if (handle == NULL)
        return PLAIT_OK;
    struct comm *comm = comm_find(handle, __func__);
    if (comm == NULL)
        return PLAIT_INVALID_USAGE;
    if (comm->channel == 0)
        return failure(PLAIT_INVALID_USAGE, "%s: comm is the world's own; plait_world_destroy() ends it",
                       __func__);
    if (engine_calls_back(&comm->world->engine))
        return failure(PLAIT_INVALID_USAGE, "%s: called from a callback, which must not wait", __func__);
    if (group_is_open())
        return group_refuse_open(__func__);
    if (handle_end(HANDLE_COMM, handle) == NULL)
        return failure(PLAIT_INVALID_USAGE, "%s: another thread has destroyed comm", __func__);

    comm_settle(comm, deadline_after_ms(1000));
    leave(comm);
    retire(comm);
    return PLAIT_OK;
}

/* --------------------------------------------------------------------- asking */

int plait_comm_rank(const plait_comm *handle)
{
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return -1;
    int rank = comm->group.rank;
    comm_let_go(comm);
    return rank;
}

int plait_comm_size(const plait_comm *handle)
{
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return -1;
    int ranks = comm->group.ranks;
    comm_let_go(comm);
    return ranks;
}

int plait_comm_world_rank(const plait_comm *handle, int rank)
{
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return -1;
    int world_rank = -1;
    if (rank >= 0 && rank < comm->group.ranks)
        world_rank = comm->world_ranks[rank];
    else
        failure(PLAIT_INVALID_ARGUMENT, "%s: rank is %d; the communicator has ranks 0..%d", __func__, rank,
                comm->group.ranks - 1);
    comm_let_go(comm);
    return world_rank;
}

plait_status plait_comm_set_timeout(plait_comm *handle, int64_t timeout_ms)
{
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return handle_refusal(handle);
    plait_status status = PLAIT_OK;
    if (timeout_ms == 0)
        status = failure(PLAIT_INVALID_ARGUMENT, "%s: timeout_ms is 0; give milliseconds, or -1 for none",
                         __func__);
    else
        atomic_store(&comm->timeout_ms, timeout_ms);
    comm_let_go(comm);
    return status;
}

const char *plait_comm_last_plan(const plait_comm *handle)
{
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return "";
    const char *plan = comm->group.last_plan;
    comm_let_go(comm);
    return plan;
}

plait_status plait_comm_fault(const plait_comm *handle, plait_fault *fault)
{
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return handle_refusal(handle);
    struct fault_record record;
    pthread_mutex_lock(&comm->fault_lock);
    record = comm->fault;
    pthread_mutex_unlock(&comm->fault_lock);
    comm_let_go(comm);
    return fault_give(&record, fault);
}

plait_status plait_comm_abort(plait_comm *handle, const char *reason)
{
    struct comm *comm = comm_hold(handle, __func__);
    if (comm == NULL)
        return handle_refusal(handle);
    comm_ask_abort(comm, reason);
    engine_nudge(&comm->world->engine);
    comm_let_go(comm);
    return PLAIT_OK;
}
