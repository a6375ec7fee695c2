#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "messages.h"
#include "world.h"

void batch_append(struct batch *batch, struct work *member)
{
    if (batch->first == NULL)
        batch->first = member;
    else
        batch->last->sibling = member;
    batch->last = member;
    batch->count++;
}

bool batch_is_of_one_world(const struct work *first)
{
    for (const struct work *member = first; member != NULL; member = member->sibling)
        if (member->comm->world != first->comm->world)
            return false;
    return true;
}

plait_status batch_check(const struct batch *batch, bool waits, const char *function)
{
    for (const struct work *member = batch->first; member != NULL; member = member->sibling) {
        const struct comm *comm = comm_find(member->comm_handle, function);
        if (comm == NULL)
            return PLAIT_INVALID_USAGE;
        if (waits && engine_calls_back(&comm->world->engine))
            return failure(PLAIT_INVALID_USAGE,
                           "%s: a blocking call from a callback, which must not wait; ask for a work instead",
                           function);
    }
    return PLAIT_OK;
}

/* ------------------------------------------------------------------- letting go */

void batch_let_go(struct work *first)
{
    while (first != NULL) {
        struct work *next = first->sibling;
        work_let_go(first);
        first = next;
    }
}

void prepared_let_go(struct prepared *prepared, unsigned what)
{
    if (atomic_fetch_sub(&prepared->state, what) != what)
        return;
    batch_let_go(prepared->batch.first);
    free(prepared);
}

void batch_drop(struct batch *batch, plait_status status)
{
    struct fault_record record = {
        .fault = { .struct_size = sizeof record.fault, .status = status, .culprit = -1 }
    };
    snprintf(record.sentence, sizeof record.sentence, "%s", failure_text());
    for (struct work *member = batch->first; member != NULL; member = member->sibling) {
        if (member->handle == NULL)
            continue;
        work_keep_fault(member, &record);
        atomic_store(&member->status, status);
        work_call_back(member, status, NULL);
    }
    batch_let_go(batch->first);
    *batch = (struct batch){ 0 };
}

/* ------------------------------------------------------------------------- ends */

/* The first failure is the group's. */
static void note_failure(struct work *group, plait_status status, const struct fault_record *record)
{
    pthread_mutex_lock(&group->lock);
    if (atomic_load(&group->first_failure) == PLAIT_OK) {
        atomic_store(&group->first_failure, status);
        if (record != NULL)
            work_keep_fault(group, record);
    }
    pthread_mutex_unlock(&group->lock);
}

/* `engine` is the one whose driver calls. */
static void finish_group(struct work *group, const struct engine *engine)
{
    plait_status status = (plait_status)atomic_load(&group->first_failure);
    if (group->prepared != NULL)
        prepared_let_go(group->prepared, PREPARED_RUNNING);
    atomic_store(&group->status, status);
    work_call_back(group, status, engine);
    work_let_go(group);
}

void batch_member_done(struct work *member, plait_status status, const struct fault_record *record)
{
    struct work *group = member->group;
    const struct engine *engine = &member->comm->world->engine;
    if (status == PLAIT_OK)
        message_give_outputs(member);
    else
        note_failure(group, status, record);
    if (member->handle != NULL)
        work_call_back(member, status, engine);
    if (atomic_fetch_sub(&group->unfinished, 1) == 1)
        finish_group(group, engine);
}

/* --------------------------------------------------------------------- starting */

/* Makes a member that may have run before ready to run again. */
static void rewind_member(struct work *member)
{
    free(member->fault);
    work_init(member, member->comm, member->kind);
    atomic_init(&member->references, 1);
    if (member->kind != WORK_COLLECTIVE)
        message_rewind(member);
}

static void submit(const struct batch *batch)
{
    for (struct work *member = batch->first; member != NULL; member = member->sibling)
        engine_submit(&member->comm->world->engine, member);
    const struct engine *nudged = NULL;
    for (struct work *member = batch->first; member != NULL; member = member->sibling) {
        struct engine *engine = &member->comm->world->engine;
        if (engine != nudged)
            engine_nudge(engine);
        nudged = engine;
    }
}

/* A single call whose caller waits is a call like any other. */
static plait_status run_single(struct batch *batch, struct prepared *prepared)
{
    struct work *member = batch->first;
    if (prepared != NULL)
        rewind_member(member);
    member->heap = false;
    plait_status status = engine_run(&member->comm->world->engine, member);
    if (status == PLAIT_OK)
        message_give_outputs(member);
    if (prepared != NULL)
        prepared_let_go(prepared, PREPARED_RUNNING);
    else
        batch_let_go(member);
    return status;
}

/* The work that stands for a batch, for its caller and for those who finish it. */
static plait_status make_group(struct world *world, bool published, struct work **out)
{
    struct work *group;
    plait_status status = work_make_group(world, &group);
    if (status != PLAIT_OK)
        return status;
    if (!published)
        atomic_fetch_add(&group->references, 1);
    else
        status = work_publish(group);
    if (status == PLAIT_OK)
        *out = group;
    else
        work_let_go(group);
    return status;
}

/* Several calls, or works that are under way when this returns. */
static plait_status start_all(struct batch *batch, struct prepared *prepared, plait_work **out,
                              const char *function)
{
    struct world *world = batch->first != NULL ? batch->first->comm->world : NULL;
    struct work *group;
    plait_status status = make_group(world, out != NULL, &group);
    if (status != PLAIT_OK) {
        if (prepared != NULL)
            prepared_let_go(prepared, PREPARED_RUNNING);
        else
            batch_drop(batch, status);
        return status;
    }
    plait_work *handle = group->handle;
    group->sibling = batch->first;
    group->prepared = prepared;
    atomic_init(&group->unfinished, batch->count);
    if (prepared != NULL)
        atomic_fetch_add(&prepared->state, PREPARED_HELD);
    for (struct work *member = batch->first; member != NULL; member = member->sibling) {
        if (prepared != NULL)
            rewind_member(member);
        member->group = group;
    }

    if (out == NULL && world != NULL && batch_is_of_one_world(batch->first)) {
        engine_run_together(&world->engine, batch->first, group);
    } else if (world != NULL) {
        submit(batch);
    } else {
        finish_group(group, NULL); /* of no calls */
    }
    if (out != NULL) {
        *out = handle;
        return PLAIT_OK;
    }
    status = work_wait(group, -1, function);
    work_let_go(group);
    return status;
}

plait_status batch_start(struct batch *batch, struct prepared *prepared, plait_work **out,
                         const char *function)
{
    if (out == NULL && batch->count == 1 && batch->first->handle == NULL)
        return run_single(batch, prepared);
    return start_all(batch, prepared, out, function);
}
