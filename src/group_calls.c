/* The public calls of groups. */
#include "group_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/handle.h"
#include "base/log.h"
#include "base/status.h"
#include "batch.h"
#include "engine.h"
#include "world.h"

struct open_group {
    int depth;
    struct batch batch;
    plait_status refused; /* what the first call that was refused returned; PLAIT_OK: none was */
    char sentence[SENTENCE_BYTES];
};

_Thread_local struct open_group *group_open;
static _Thread_local struct open_group *spare; /* the thread's former one */

/* -------------------------------------------------------------- a thread's end */

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void abandon(struct open_group *group, const char *what)
{
    failure(PLAIT_INVALID_USAGE, "%s with a group open: none of its %d calls was started", what,
            group->batch.count);
    log_error("%s", failure_text());
    batch_drop(&group->batch, PLAIT_INVALID_USAGE);
    free(group);
}

static void end_thread(void *unused)
{
    (void)unused;
    if (group_open != NULL)
        abandon(group_open, "a thread ended");
    group_open = NULL;
    free(spare);
    spare = NULL;
}

static void make_key(void)
{
    pthread_key_create(&key, end_thread);
}

/* -------------------------------------------------------- what other calls ask */

plait_status group_add(struct comm *comm, enum work_kind kind, plait_work **out, struct work **added)
{
    struct work *member;
    plait_status status = work_make_member(comm, kind, &member);
    if (status != PLAIT_OK)
        return group_spoil(status);
    if (out != NULL) {
        status = work_publish(member);
        if (status != PLAIT_OK) {
            work_let_go(member);
            return group_spoil(status);
        }
        *out = member->handle;
    }
    batch_append(&group_open->batch, member);
    *added = member;
    return PLAIT_OK;
}

plait_status group_spoil(plait_status status)
{
    struct open_group *group = group_open;
    if (group != NULL && status != PLAIT_OK && group->refused == PLAIT_OK) {
        group->refused = status;
        snprintf(group->sentence, sizeof group->sentence, "%s", failure_text());
    }
    return status;
}

plait_status group_refuse_open(const char *function)
{
    return failure(PLAIT_INVALID_USAGE,
                   "%s: this thread has a group of calls open, and nothing may wait before it starts; call "
                   "plait_group_end() first",
                   function);
}

struct open_group *group_suspend(void)
{
    struct open_group *group = group_open;
    group_open = NULL;
    return group;
}

void group_resume(struct open_group *suspended)
{
    if (group_open != NULL)
        abandon(group_open, "a callback returned");
    group_open = suspended;
}

/* --------------------------------------------------------------- public calls */

plait_status plait_group_begin(void)
{
    if (group_open != NULL) {
        group_open->depth++;
        return PLAIT_OK;
    }
    pthread_once(&key_once, make_key);
    struct open_group *group = spare != NULL ? spare : malloc(sizeof *group);
    if (group == NULL || pthread_setspecific(key, group) != 0) {
        free(group);
        return failure(PLAIT_OUT_OF_MEMORY, "%s: no memory for a group", __func__);
    }
    spare = NULL;
    group->depth = 1;
    group->batch = (struct batch){ 0 };
    group->refused = PLAIT_OK;
    group_open = group;
    return PLAIT_OK;
}

/* Closes the open group and hands over its calls, or fails with none left: where one was refused, or a communicator
 * is gone. */
static plait_status close_group(bool waits, struct batch *batch, const char *function)
{
    struct open_group *group = group_open;
    group_open = NULL;
    *batch = group->batch;
    plait_status status = group->refused;
    if (status != PLAIT_OK)
        failure(status, "%s: nothing of the group was started, for one of its calls was refused: %.900s",
                function, group->sentence);
    if (spare == NULL)
        spare = group;
    else
        free(group);
    if (status == PLAIT_OK)
        status = batch_check(batch, waits, function);
    if (status != PLAIT_OK)
        batch_drop(batch, status);
    return status;
}

static plait_status refuse_closed(const char *function)
{
    return failure(PLAIT_INVALID_USAGE, "%s: this thread has no group open; plait_group_begin() opens one",
                   function);
}

plait_status plait_group_end(plait_work **work)
{
    if (group_open == NULL)
        return refuse_closed(__func__);
    if (--group_open->depth > 0) {
        if (work != NULL)
            *work = NULL;
        return PLAIT_OK;
    }
    struct batch batch;
    plait_status status = close_group(work == NULL, &batch, __func__);
    return status == PLAIT_OK ? batch_start(&batch, NULL, work, __func__) : status;
}

/* Can these calls be started again and again? */
static plait_status check_preparable(const struct batch *batch, const char *function)
{
    for (const struct work *member = batch->first; member != NULL; member = member->sibling)
        if (member->handle != NULL)
            return failure(
                PLAIT_INVALID_USAGE,
                "%s: a call of the group has a work of its own; prepared calls have one for each start, "
                "from plait_prepared_start()",
                function);
    return PLAIT_OK;
}

plait_status plait_group_prepare(plait_prepared **out)
{
    if (group_open == NULL)
        return refuse_closed(__func__);
    if (--group_open->depth > 0)
        return group_spoil(failure(PLAIT_INVALID_USAGE,
                                   "%s: the group is part of another one; only a whole group can be prepared",
                                   __func__));
    struct batch batch;
    struct prepared *prepared = NULL;
    plait_status status = close_group(false, &batch, __func__);
    if (status != PLAIT_OK)
        return status;
    if (out == NULL)
        status = failure(PLAIT_INVALID_ARGUMENT, "%s: prepared is NULL", __func__);
    if (status == PLAIT_OK)
        status = check_preparable(&batch, __func__);
    if (status == PLAIT_OK) {
        prepared = calloc(1, sizeof *prepared);
        if (prepared != NULL)
            prepared->handle = handle_new(HANDLE_PREPARED, prepared);
        if (prepared == NULL || prepared->handle == NULL)
            status = failure(PLAIT_OUT_OF_MEMORY, "%s: no memory for prepared calls", __func__);
    }
    if (status != PLAIT_OK) {
        batch_drop(&batch, status);
        free(prepared);
        return status;
    }
    prepared->batch = batch;
    atomic_init(&prepared->state, PREPARED_HELD);
    *out = prepared->handle;
    return PLAIT_OK;
}

plait_status plait_prepared_start(plait_prepared *handle, plait_work **work)
{
    struct prepared *prepared = handle_find(HANDLE_PREPARED, handle);
    if (prepared == NULL)
        return failure(handle_refusal(handle), "%s: %s", __func__,
                       handle == NULL ? "prepared is NULL" : "prepared is none, or was released");
    if (group_is_open())
        return group_refuse_open(__func__);
    plait_status status = batch_check(&prepared->batch, work == NULL, __func__);
    if (status != PLAIT_OK)
        return status;
    if (atomic_fetch_or(&prepared->state, PREPARED_RUNNING) & PREPARED_RUNNING)
        return failure(PLAIT_INVALID_USAGE,
                       "%s: the calls still run from the former start; wait for its work first", __func__);
    return batch_start(&prepared->batch, prepared, work, __func__);
}

void plait_prepared_release(plait_prepared *handle)
{
    if (handle == NULL)
        return;
    struct prepared *prepared = handle_end(HANDLE_PREPARED, handle);
    if (prepared != NULL)
        prepared_let_go(prepared, PREPARED_HELD);
    else
        failure(PLAIT_INVALID_USAGE, "%s: prepared is none, or was released", __func__);
}
