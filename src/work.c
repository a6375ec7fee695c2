#include "work.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/handle.h"
#include "base/status.h"
#include "batch.h"
#include "group_calls.h"
#include "work_pool.h"
#include "world.h"

void work_init(struct work *work, struct comm *comm, enum work_kind kind)
{
    work->kind = kind;
    atomic_init(&work->status, PLAIT_IN_PROGRESS);
    atomic_init(&work->references, 0);
    work->comm = comm;
    work->comm_handle = comm != NULL ? comm->handle : NULL;
    work->next = NULL;
    work->begun = work->counted = work->heap = work->called = false;
    work->deadline = 0;
    work->number = 0;
    work->group = NULL;
    work->handle = NULL;
    work->callback = NULL;
    work->fault = NULL;
}

static plait_status make(struct world *world, struct comm *comm, enum work_kind kind, struct work **out)
{
    struct work *work = work_pool_take(world != NULL ? world->works : NULL);
    if (work == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a work");
    work_init(work, comm, kind);
    work->sibling = NULL;
    work->source_out = NULL;
    work->received_out = NULL;
    work->prepared = NULL;
    work->heap = true;
    atomic_init(&work->references, 1);
    *out = work;
    return PLAIT_OK;
}

plait_status work_make_member(struct comm *comm, enum work_kind kind, struct work **work)
{
    return make(comm->world, comm, kind, work);
}

plait_status work_make_group(struct world *world, struct work **work)
{
    plait_status status = make(world, NULL, WORK_GROUP, work);
    if (status == PLAIT_OK)
        atomic_init(&(*work)->first_failure, PLAIT_OK);
    return status;
}

plait_status work_publish(struct work *work)
{
    work->handle = handle_new(HANDLE_WORK, work);
    if (work->handle == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the handle of a work");
    atomic_fetch_add(&work->references, 1);
    return PLAIT_OK;
}

plait_status work_make(struct comm *comm, enum work_kind kind, struct work **out)
{
    struct work *work;
    plait_status status = make(comm->world, comm, kind, &work);
    if (status != PLAIT_OK)
        return status;
    status = work_publish(work);
    if (status == PLAIT_OK)
        *out = work;
    else
        work_let_go(work);
    return status;
}

plait_status work_set_call(struct work *work, const struct call *call)
{
    work->execution.call = *call;
    if (call->made != NULL)
        made_op_hold_again(call->made);
    if (call->layout == NULL)
        return PLAIT_OK;
    size_t size = layout_size(call->layout->ranks);
    if (work->layout_room < size) {
        free(work->layout);
        work->layout = malloc(size);
        work->layout_room = work->layout != NULL ? size : 0;
    }
    if (work->layout == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the layout of a work");
    memcpy(work->layout, call->layout, size);
    work->execution.call.layout = work->layout;
    return PLAIT_OK;
}

/* The members go with the work that stands for them, unless they are to run again. */
static void let_members_go(struct work *group)
{
    if (group->prepared != NULL) {
        prepared_let_go(group->prepared, PREPARED_HELD);
        return;
    }
    batch_let_go(group->sibling);
}

void work_let_go(struct work *work)
{
    if (atomic_fetch_sub(&work->references, 1) > 1)
        return;
    if (work->kind == WORK_GROUP)
        let_members_go(work);
    else if (work->kind == WORK_COLLECTIVE && work->execution.call.made != NULL)
        made_op_let_go(work->execution.call.made);
    free(work->fault);
    work_pool_give(work);
}

void work_drop(struct work *work)
{
    handle_end(HANDLE_WORK, work->handle);
    atomic_store(&work->references, 1);
    work_let_go(work);
}

void work_call_back(struct work *work, plait_status status, const struct engine *engine)
{
    pthread_mutex_lock(&work->lock);
    work->called = true;
    plait_work_callback callback = work->callback;
    pthread_mutex_unlock(&work->lock);
    if (callback == NULL)
        return;
    struct callback_frame frame;
    callback_enter(&frame, engine);
    callback(work->callback_context, work->handle, status);
    callback_leave(&frame);
}

void work_keep_fault(struct work *work, const struct fault_record *record)
{
    work->fault = malloc(sizeof *record); /* without it the status alone has to do */
    if (work->fault != NULL)
        *work->fault = *record;
}

void work_finish(struct work *work, plait_status status, const struct fault_record *record)
{
    if (record != NULL)
        work_keep_fault(work, record);
    struct engine *engine = &work->comm->world->engine;
    struct comm *comm = work->comm;
    bool counted = work->counted, heap = work->heap;
    struct work *group = work->group;
    atomic_store(&work->status, status); /* a blocking caller's work is gone from here on */
    if (group != NULL) {
        batch_member_done(work, status, record);
    } else if (heap) {
        work_call_back(work, status, engine);
        work_let_go(work);
    }
    if (counted) {
        atomic_fetch_sub(&engine->active, 1);
        engine_work_done(engine);
        atomic_fetch_sub(&comm->outstanding, 1); /* last: the communicator may be freed now */
    }
}

plait_status work_tell(const struct work *work)
{
    plait_status status = work_status(work);
    if (status < 0)
        failure(status, "%s",
                work->fault != NULL ? work->fault->sentence : "no memory to tell what went wrong");
    return status;
}

/* --------------------------------------------------------------- public calls */

/* Finds a living work, for work_let_go() once done with it, or leaves a sentence. */
static struct work *hold(const plait_work *handle, const char *function)
{
    struct work *work = handle_hold(HANDLE_WORK, handle);
    if (work != NULL) {
        atomic_fetch_add(&work->references, 1);
        handle_let_go(handle);
    } else {
        failure(handle_refusal(handle), "%s: %s", function,
                handle == NULL ? "work is NULL"
                               : "work is not a living work; it was released, or is no work");
    }
    return work;
}

plait_status plait_work_status(const plait_work *handle)
{
    struct work *work = hold(handle, __func__);
    if (work == NULL)
        return handle_refusal(handle);
    plait_status status = work_tell(work);
    work_let_go(work);
    return status;
}

enum { TEST_ONLY = 0 }; /* a deadline that is none: make progress, but don't wait */

/* Another thread destroys the communicator, which ends the work within a bounded time. */
static void await_end(const struct work *work, int64_t deadline)
{
    while (work_status(work) == PLAIT_IN_PROGRESS && !deadline_passed(deadline))
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

/* Makes progress for `work`, or waits until `done` is, which `work` is part of: PLAIT_OK, or why that can't be. */
static plait_status pursue(struct work *work, struct work *done, int64_t deadline, const char *function)
{
    struct comm *comm = comm_hold(work->comm_handle, function);
    if (comm == NULL) {
        if (handle_find(HANDLE_COMM, work->comm_handle) != NULL)
            return failure(PLAIT_INVALID_USAGE, "%s: the work belongs to the parent process", function);
        if (deadline != TEST_ONLY)
            await_end(work, deadline);
        return PLAIT_OK;
    }
    plait_status status = PLAIT_OK;
    struct engine *engine = &comm->world->engine;
    if (deadline == TEST_ONLY)
        engine_nudge(engine);
    else if (engine_calls_back(engine) && work_status(done) == PLAIT_IN_PROGRESS)
        status = failure(PLAIT_INVALID_USAGE, "%s: called from a callback, which must not wait", function);
    else
        engine_wait(engine, done, deadline);
    comm_let_go(comm);
    return status;
}

/* The same for a work that stands for a group: where its members are of one world, as nearly always, by
 * waiting for all of them together; else for one after another, while the other worlds' threads drive those. */
static plait_status pursue_group(struct work *group, int64_t deadline, const char *function)
{
    bool alone = batch_is_of_one_world(group->sibling);
    plait_status status = PLAIT_OK;
    for (struct work *member = group->sibling; member != NULL && status == PLAIT_OK;
         member = member->sibling) {
        if (work_status(group) != PLAIT_IN_PROGRESS || (deadline != TEST_ONLY && deadline_passed(deadline)))
            break;
        if (work_status(member) != PLAIT_IN_PROGRESS)
            continue;
        status = pursue(member, alone ? group : member, deadline, function);
        if (alone)
            break;
    }
    if (status == PLAIT_OK && deadline != TEST_ONLY)
        await_end(group, deadline);
    return status;
}

plait_status work_wait(struct work *work, int64_t timeout_ms, const char *function)
{
    plait_status status = PLAIT_OK;
    int64_t deadline = timeout_ms == 0 ? TEST_ONLY : deadline_after_ms(timeout_ms);
    if (work_status(work) != PLAIT_IN_PROGRESS)
        return work_tell(work);
    if (deadline != TEST_ONLY && group_is_open())
        status = group_refuse_open(function);
    else if (work->kind == WORK_GROUP)
        status = pursue_group(work, deadline, function);
    else
        status = pursue(work, work, deadline, function);
    return status == PLAIT_OK ? work_tell(work) : status;
}

static plait_status test_or_wait(const plait_work *handle, int64_t timeout_ms, const char *function)
{
    struct work *work = hold(handle, function);
    if (work == NULL)
        return handle_refusal(handle);
    plait_status status = work_wait(work, timeout_ms, function);
    work_let_go(work);
    return status;
}

plait_status plait_work_test(plait_work *handle)
{
    return test_or_wait(handle, 0, __func__);
}

plait_status plait_work_wait(plait_work *handle, int64_t timeout_ms)
{
    return test_or_wait(handle, timeout_ms, __func__);
}

/* The callback of a work that was done before it was set, on this thread. */
static void call_back_late(struct work *work, const char *function)
{
    const struct work *part = work->kind == WORK_GROUP ? work->sibling : work;
    struct comm *comm = part != NULL ? comm_hold(part->comm_handle, function) : NULL;
    work_call_back(work, work_status(work), comm != NULL ? &comm->world->engine : NULL);
    if (comm != NULL)
        comm_let_go(comm);
}

plait_status plait_work_on_done(plait_work *handle, plait_work_callback callback, void *context)
{
    struct work *work = hold(handle, __func__);
    if (work == NULL)
        return handle_refusal(handle);
    if (callback == NULL) {
        work_let_go(work);
        return failure(PLAIT_INVALID_ARGUMENT, "%s: callback is NULL", __func__);
    }

    pthread_mutex_lock(&work->lock);
    bool taken = work->callback != NULL, done = work->called;
    if (!taken) {
        work->callback = callback;
        work->callback_context = context;
    }
    pthread_mutex_unlock(&work->lock);
    if (!taken && done)
        call_back_late(work, __func__);
    work_let_go(work);
    return taken ? failure(PLAIT_INVALID_USAGE, "%s: the work has a callback already", __func__) : PLAIT_OK;
}

int plait_work_source(const plait_work *handle)
{
    struct work *work = hold(handle, __func__);
    if (work == NULL)
        return -1;
    int source = work->kind == WORK_RECV && work_status(work) == PLAIT_OK ? work->source : -1;
    work_let_go(work);
    return source;
}

size_t plait_work_count(const plait_work *handle)
{
    struct work *work = hold(handle, __func__);
    if (work == NULL)
        return 0;
    size_t count = 0;
    if (work->kind == WORK_RECV && work_status(work) == PLAIT_OK)
        count = work->transfer.moved / work->element_size;
    work_let_go(work);
    return count;
}

plait_status plait_work_fault(const plait_work *handle, plait_fault *fault)
{
    struct work *work = hold(handle, __func__);
    if (work == NULL)
        return handle_refusal(handle);
    static const struct fault_record none = { 0 };
    bool failed = work_status(work) < 0 && work->fault != NULL;
    plait_status status = fault_give(failed ? work->fault : &none, fault);
    work_let_go(work);
    return status;
}

void plait_work_release(plait_work *handle)
{
    if (handle == NULL)
        return;
    struct work *work = handle_end(HANDLE_WORK, handle);
    if (work != NULL)
        work_let_go(work);
    else
        failure(PLAIT_INVALID_USAGE, "%s: work is not a living work; it was released, or is no work",
                __func__);
}
