/* Ranks that are threads of one process: a thread group is a store in memory. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/handle.h"
#include "base/status.h"
#include "bootstrap/store_view.h"

struct thread_group {
    int ranks;
    atomic_int users; /* the handle, and the worlds that are starting */
    struct memory_store *store;
};

/* Lets go of a group. The last one frees it, so a group may be destroyed from under a world that starts. */
static void release(struct thread_group *group)
{
    if (atomic_fetch_sub_explicit(&group->users, 1, memory_order_acq_rel) != 1)
        return;
    memory_store_destroy(group->store);
    free(group);
}

plait_status plait_thread_group_create(int ranks, plait_thread_group **group)
{
    if (group == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: group is NULL", __func__);
    if (ranks < 1 || ranks > 1024)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: ranks is %d; good values: 1 to 1024", __func__, ranks);

    struct thread_group *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a thread group");
    fresh->ranks = ranks;
    atomic_init(&fresh->users, 1);
    fresh->store = memory_store_create();
    plait_thread_group *handle = fresh->store != NULL ? handle_new(HANDLE_THREADS, fresh) : NULL;
    if (handle == NULL) {
        release(fresh);
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a thread group of %d ranks", ranks);
    }
    *group = handle;
    return PLAIT_OK;
}

void plait_thread_group_destroy(plait_thread_group *group)
{
    struct thread_group *ended = handle_end(HANDLE_THREADS, group);
    if (ended == NULL)
        return;
    memory_store_close(ended->store);
    release(ended);
}

static plait_status meet(struct exchange *exchange)
{
    const struct bootstrap_options *options = exchange->options;
    struct thread_group *group = handle_hold(HANDLE_THREADS, options->threads);
    if (group == NULL)
        return failure(PLAIT_INVALID_USAGE, "rank %d: options.threads is not a living thread group",
                       options->rank);
    atomic_fetch_add_explicit(&group->users, 1, memory_order_relaxed);
    handle_let_go(options->threads);

    plait_status status;
    if (group->ranks == options->size) {
        struct store_view view = memory_store_view(group->store);
        status = store_exchange(exchange, &view);
    } else {
        status =
            failure(PLAIT_INVALID_ARGUMENT,
                    "rank %d: options.size is %d and options.threads was made for %d ranks; they must agree",
                    options->rank, options->size, group->ranks);
    }
    release(group);
    return status;
}

const struct bootstrap_way way_threads = { "threads", meet };
