#include "work.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/handle.h"
#include "base/status.h"
#include "world.h"

void work_init(struct work *work, struct comm *comm, enum work_kind kind)
{
    work->kind = kind;
    atomic_init(&work->status, PLAIT_IN_PROGRESS);
    atomic_init(&work->references, 0);
    work->comm = comm;
    work->comm_handle = comm->handle;
    work->next = NULL;
    work->begun = work->counted = work->heap = work->called = false;
    work->deadline = 0;
    work->number = 0;
    work->handle = NULL;
    work->callback = NULL;
    work->fault = NULL;
    work->layout = NULL;
}

plait_status work_make(struct comm *comm, enum work_kind kind, struct work **work)
{
    struct work *made = malloc(sizeof *made);
    if (made == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a work");
    work_init(made, comm, kind);
    made->heap = true;
    atomic_init(&made->references, 2);
    pthread_mutex_init(&made->lock, NULL);
    made->handle = handle_new(HANDLE_WORK, made);
    if (made->handle == NULL) {
        pthread_mutex_destroy(&made->lock);
        free(made);
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the handle of a work");
    }
    *work = made;
    return PLAIT_OK;
}

plait_status work_set_call(struct work *work, const struct call *call)
{
    work->execution.call = *call;
    if (call->layout == NULL)
        return PLAIT_OK;
    size_t size = layout_size(call->layout->ranks);
    work->layout = malloc(size);
    if (work->layout == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the layout of a work");
    memcpy(work->layout, call->layout, size);
    work->execution.call.layout = work->layout;
    return PLAIT_OK;
}

/* Lets go of one reference; the last one frees it. */
static void release(struct work *work)
{
    if (atomic_fetch_sub(&work->references, 1) > 1)
        return;
    pthread_mutex_destroy(&work->lock);
    free(work->fault);
    free(work->layout);
    free(work);
}

void work_drop(struct work *work)
{
    handle_end(HANDLE_WORK, work->handle);
    atomic_store(&work->references, 1);
    release(work);
}

static void run_callback(struct work *work, plait_status status)
{
    pthread_mutex_lock(&work->lock);
    work->called = true;
    plait_work_callback callback = work->callback;
    pthread_mutex_unlock(&work->lock);
    if (callback == NULL)
        return;
    struct callback_frame frame;
    callback_enter(&frame, &work->comm->world->engine);
    callback(work->callback_context, work->handle, status);
    callback_leave(&frame);
}

void work_finish(struct work *work, plait_status status, const struct fault_record *record)
{
    if (record != NULL) {
        work->fault = malloc(sizeof *record); /* without it the status alone has to do */
        if (work->fault != NULL)
            *work->fault = *record;
    }
    struct engine *engine = &work->comm->world->engine;
    struct comm *comm = work->comm;
    bool counted = work->counted, heap = work->heap;
    atomic_store(&work->status, status); /* a blocking caller's work is gone from here on */
    if (heap) {
        run_callback(work, status);
        release(work);
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

/* Finds a living work, for release() once done with it, or leaves a sentence. */
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
    release(work);
    return status;
}

/* Another thread destroys the communicator, which ends the work within a bounded time. */
static void await_end(const struct work *work, int64_t deadline)
{
    while (work_status(work) == PLAIT_IN_PROGRESS && !deadline_passed(deadline))
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

/* Tests or waits for a work that is under way: PLAIT_OK, or why that can't be. */
static plait_status pursue(struct work *work, int64_t timeout_ms, const char *function)
{
    struct comm *comm = comm_hold(work->comm_handle, function);
    if (comm == NULL) {
        if (handle_find(HANDLE_COMM, work->comm_handle) != NULL)
            return failure(PLAIT_INVALID_USAGE, "%s: the work belongs to the parent process", function);
        if (timeout_ms != 0)
            await_end(work, deadline_after_ms(timeout_ms));
        return PLAIT_OK;
    }
    plait_status status = PLAIT_OK;
    struct engine *engine = &comm->world->engine;
    if (timeout_ms == 0)
        engine_nudge(engine);
    else if (engine_calls_back(engine) && work_status(work) == PLAIT_IN_PROGRESS)
        status = failure(PLAIT_INVALID_USAGE, "%s: called from a callback, which must not wait", function);
    else
        engine_wait(engine, work, deadline_after_ms(timeout_ms));
    comm_let_go(comm);
    return status;
}

static plait_status test_or_wait(plait_work *handle, int64_t timeout_ms, const char *function)
{
    struct work *work = hold(handle, function);
    if (work == NULL)
        return handle_refusal(handle);
    plait_status status = PLAIT_OK;
    if (work_status(work) == PLAIT_IN_PROGRESS)
        status = pursue(work, timeout_ms, function);
    if (status == PLAIT_OK)
        status = work_tell(work);
    release(work);
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

plait_status plait_work_on_done(plait_work *handle, plait_work_callback callback, void *context)
{
    struct work *work = hold(handle, __func__);
    if (work == NULL)
        return handle_refusal(handle);
    if (callback == NULL) {
        release(work);
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
        callback(context, handle, work_status(work));
    release(work);
    return taken ? failure(PLAIT_INVALID_USAGE, "%s: the work has a callback already", __func__) : PLAIT_OK;
}

int plait_work_source(const plait_work *handle)
{
    struct work *work = hold(handle, __func__);
    if (work == NULL)
        return -1;
    int source = work->kind == WORK_RECV && work_status(work) == PLAIT_OK ? work->source : -1;
    release(work);
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
    release(work);
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
    release(work);
    return status;
}

void plait_work_release(plait_work *handle)
{
    if (handle == NULL)
        return;
    struct work *work = handle_end(HANDLE_WORK, handle);
    if (work != NULL)
        release(work);
    else
        failure(PLAIT_INVALID_USAGE, "%s: work is not a living work; it was released, or is no work",
                __func__);
}
