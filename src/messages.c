/* Point to point: sends and receives with tags. */
#include "messages.h"

#include "base/handle.h"
#include "base/status.h"
#include "calls.h"
#include "engine.h"
#include "group_calls.h"
#include "work.h"

struct message {
    enum work_kind kind;
    void *data;
    size_t size; /* bytes */
    size_t element_size;
    int peer, tag;
    uint64_t context; /* CONTEXT_* bits */
};

static plait_status check(const struct comm *comm, const struct message *message, size_t count,
                          plait_type type, const char *function)
{
    bool any = message->kind == WORK_RECV && message->peer == PLAIT_ANY_SOURCE;
    plait_status status = calls_check_type(type, function);
    if (status != PLAIT_OK)
        return status;
    if (!any && (message->peer < 0 || message->peer >= comm->group.ranks))
        return failure(PLAIT_INVALID_ARGUMENT, "%s: peer is %d; the communicator has ranks 0..%d%s", function,
                       message->peer, comm->group.ranks - 1,
                       message->kind == WORK_RECV ? ", or PLAIT_ANY_SOURCE" : "");
    if (message->peer == comm->group.rank)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: peer is %d, this rank itself; copy the data instead",
                       function, message->peer);
    if (message->tag < 0)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: tag is %d; tags are 0 .. 2147483647", function,
                       message->tag);
    if (count > PTRDIFF_MAX / plait_type_size(type))
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: count is %zu; %zu elements of %s are the most that can be addressed", function,
                       count, PTRDIFF_MAX / plait_type_size(type), plait_type_name(type));
    return calls_check_buffer(message->data, message->size, "data", function);
}

static void fill(struct work *work, const struct message *message)
{
    const struct comm *comm = work->comm;
    work->element_size = message->element_size;
    work->source = -1;
    work->transfer = (struct transfer){
        .peer = message->peer < 0 ? PLAIT_ANY_SOURCE : comm->world_ranks[message->peer],
        .key = { .context = comm->group.context | message->context, .operation = (uint64_t)message->tag },
        .data = message->data,
        .size = message->size,
        .status = PLAIT_IN_PROGRESS,
    };
}

void message_rewind(struct work *work)
{
    const struct transfer *done = &work->transfer;
    work->source = -1;
    work->transfer = (struct transfer){
        .peer = done->peer,
        .key = { .context = done->key.context, .operation = done->key.operation },
        .data = done->data,
        .size = done->size,
        .status = PLAIT_IN_PROGRESS,
    };
}

void message_give_outputs(const struct work *work)
{
    if (work->kind != WORK_RECV)
        return;
    if (work->source_out != NULL)
        *work->source_out = work->source;
    if (work->received_out != NULL)
        *work->received_out = work->transfer.moved / work->element_size;
}

static plait_status start(struct comm *comm, const struct message *message, plait_work **out)
{
    struct work *work;
    plait_status status = work_make(comm, message->kind, &work);
    if (status != PLAIT_OK)
        return status;
    fill(work, message);
    *out = work->handle;
    engine_submit(&comm->world->engine, work);
    engine_nudge(&comm->world->engine);
    return PLAIT_OK;
}

static plait_status run(struct comm *comm, const struct message *message, int *source, size_t *received)
{
    struct work work;
    work_init(&work, comm, message->kind);
    fill(&work, message);
    plait_status status = engine_run(&comm->world->engine, &work);
    if (status != PLAIT_OK)
        return status;
    if (source != NULL)
        *source = work.source;
    if (received != NULL)
        *received = work.transfer.moved / work.element_size;
    return PLAIT_OK;
}

plait_status message_send(struct comm *comm, uint64_t context, const void *data, size_t size, int peer,
                          int tag)
{
    struct message message = { .kind = WORK_SEND,
                               .data = (void *)(uintptr_t)data,
                               .size = size,
                               .element_size = 1,
                               .peer = peer,
                               .tag = tag,
                               .context = context };
    return run(comm, &message, NULL, NULL);
}

plait_status message_recv(struct comm *comm, uint64_t context, void *data, size_t size, int peer, int tag)
{
    struct message message = { .kind = WORK_RECV,
                               .data = data,
                               .size = size,
                               .element_size = 1,
                               .peer = peer,
                               .tag = tag,
                               .context = context };
    return run(comm, &message, NULL, NULL);
}

/* The call becomes a member of this thread's group. */
static plait_status join_group(struct comm *comm, const struct message *message, int *source,
                               size_t *received, plait_work **out)
{
    struct work *member;
    plait_status status = group_add(comm, message->kind, out, &member);
    if (status != PLAIT_OK)
        return status;
    fill(member, message);
    member->source_out = source;
    member->received_out = received;
    return PLAIT_OK;
}

static plait_status prepare(plait_comm *handle, struct message *message, size_t count, plait_type type,
                            struct comm **comm, const char *function)
{
    *comm = comm_find(handle, function);
    if (*comm == NULL)
        return handle_refusal(handle);
    message->element_size = plait_type_size(type);
    message->size = count * message->element_size;
    message->context = CONTEXT_CALLERS;
    return check(*comm, message, count, type, function);
}

/* Everything a send and a receive have in common. */
static plait_status transfer(plait_comm *handle, struct message *message, size_t count, plait_type type,
                             int *source, size_t *received, plait_work **work, const char *function)
{
    struct comm *comm;
    plait_status status = prepare(handle, message, count, type, &comm, function);
    if (status != PLAIT_OK)
        return group_spoil(status);
    if (group_is_open())
        return join_group(comm, message, source, received, work);
    return work != NULL ? start(comm, message, work) : run(comm, message, source, received);
}

plait_status plait_send(plait_comm *comm, const void *data, size_t count, plait_type type, int peer, int tag,
                        plait_work **work)
{
    struct message message = { .kind = WORK_SEND, .data = (void *)(uintptr_t)data, .peer = peer, .tag = tag };
    return transfer(comm, &message, count, type, NULL, NULL, work, __func__);
}

plait_status plait_recv(plait_comm *comm, void *data, size_t count, plait_type type, int peer, int tag,
                        int *source, size_t *received, plait_work **work)
{
    struct message message = { .kind = WORK_RECV, .data = data, .peer = peer, .tag = tag };
    return transfer(comm, &message, count, type, source, received, work, __func__);
}
