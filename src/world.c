/* Worlds: coming and going, and asking about them. */
#include "world.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/handle.h"
#include "base/log.h"
#include "base/made_op.h"
#include "base/status.h"
#include "device/reduce.h"
#include "ending.h"
#include "group_calls.h"
#include "memory.h"
#include "start.h"
#include "tidings.h"
#include "work_pool.h"

/* ----------------------------------------------------------------------- forks */

static atomic_uint forks;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    handle_after_fork();
    made_op_after_fork();
    atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

unsigned world_fork_count(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

bool world_is_parents(const struct world *world, const char *function)
{
    if (world->fork_count == world_fork_count())
        return false;
    failure(
        PLAIT_INVALID_USAGE,
        "%s: this process was forked from rank %d and has no part in its world; create a world of its own",
        function, world->rank);
    return true;
}

/* -------------------------------------------------------------------- handles */

/* The living world of a public handle in this process, as comm_find(). */
static struct world *find(const plait_world *handle, const char *function)
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
    struct world *world = find(handle, function);
    if (world == NULL && held != NULL)
        world_let_go(held);
    return world;
}

/* ------------------------------------------------------------- coming and going */

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
    for (struct comm *comm = world->comms; comm != NULL; comm = comm->next)
        if (comm->tidings != NULL) {
            if (atomic_load(&comm->over) == 0)
                comm_show_left(comm);
            tidings_end(comm);
        }
    free_comms(world->comms);
    free_comms(world->retired);
    if (world->endpoint != NULL) {
        memory_close(world);
        world->transport->leave(world->endpoint);
        world->transport->close(world->endpoint);
    }
    work_pool_close(world->works);
    free(world->members);
    pthread_mutex_destroy(&world->lock);
    free(world);
}

static void say_up(const struct world *world)
{
    char line[48] = ""; /* not known where ranks 0 and 1 share a core, or no memory */
    if (world->line_ns > 0)
        snprintf(line, sizeof line, " a cache line takes %.0f ns;", world->line_ns);
    log_info("rank %d of %d is up over %s;%s kernels %s", world->rank, world->size, world->transport->name,
             line, reduce_set_name());
}

plait_status plait_world_create(const plait_world_options *options, plait_world **out)
{
    if (out == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: world is NULL", __func__);
    if (group_is_open())
        return group_refuse_open(__func__);
    pthread_once(&fork_once, watch_forks);
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a world");
    pthread_mutex_init(&world->lock, NULL);
    world->fork_count = world_fork_count();
    world->works = work_pool_make();

    plait_status status = world->works != NULL
                              ? world_start(world, options)
                              : failure(PLAIT_OUT_OF_MEMORY, "no memory for a world's works");
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
    say_up(world);
    *out = world->handle;
    return PLAIT_OK;
}

plait_status plait_world_destroy(plait_world *handle)
{
    if (handle == NULL)
        return PLAIT_OK;
    struct world *world = find(handle, __func__);
    if (world == NULL)
        return PLAIT_INVALID_USAGE;
    if (engine_calls_back(&world->engine))
        return failure(PLAIT_INVALID_USAGE, "%s: called from a callback, which must not wait", __func__);
    if (group_is_open())
        return group_refuse_open(__func__);
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
                                .staging_size = world_lane_size(world) };
    world_let_go(world);
    memset(facts, 0, size);
    memcpy(facts, &known, size < sizeof known ? size : sizeof known);
    return PLAIT_OK;
}
