/* The public collectives: check the arguments, then run or start the work. */
#include "calls.h"

#include <stdint.h>

#include "base/element.h"
#include "base/handle.h"
#include "base/status.h"
#include "engine.h"
#include "group_calls.h"
#include "work.h"
#include "world.h"

/* ------------------------------------------------------------------ checking */

plait_status calls_check_type(plait_type type, const char *function)
{
    if (plait_type_size(type) > 0)
        return PLAIT_OK;
    char good[ELEMENT_TEXT_BYTES];
    element_list_all_types(good);
    return failure(PLAIT_INVALID_ARGUMENT, "%s: type is %d; good ones are %s (PLAIT_I8 .. PLAIT_I64_I64)",
                   function, (int)type, good);
}

/* Is it a caller's operation, of this type, and the collective one that knows it? */
static plait_status check_made_op(const struct call *call, const char *function)
{
    struct made_op *op = made_op_hold(call->op);
    if (op == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: op is %d, which is no living operation", function,
                       (int)call->op);
    plait_status status = PLAIT_OK;
    if (call->kind != COLLECTIVE_ALLREDUCE && call->kind != COLLECTIVE_REDUCE &&
        call->kind != COLLECTIVE_REDUCE_SCATTER)
        status = failure(PLAIT_INVALID_ARGUMENT,
                         "%s: operations that callers make serve all-reduce, reduce and reduce-scatter only",
                         function);
    else if (op->function == NULL && op->type != call->type)
        status = failure(PLAIT_INVALID_ARGUMENT, "%s: type is %s and op is a pre-multiplied sum of %s",
                         function, plait_type_name(call->type), plait_type_name(op->type));
    made_op_let_go(op);
    return status;
}

/* `type` is a good one. */
static plait_status check_op(plait_op op, plait_type type, const char *function)
{
    if (plait_type_reduces(type, op))
        return PLAIT_OK;
    const char *name = plait_type_name(type);
    char good[ELEMENT_TEXT_BYTES], types[ELEMENT_TEXT_BYTES];
    element_list_ops(type, good);
    if (!element_op_known(op)) {
        element_list_all_ops(good);
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: op is %d; good ones are %s (PLAIT_SUM .. PLAIT_MAX_LOCATION)", function, (int)op,
                       good);
    }
    element_list_types(op, types);
    if (good[0] == '\0')
        return failure(PLAIT_INVALID_ARGUMENT, "%s: %s are moved and not reduced; %s is for %s", function,
                       name, plait_op_name(op), types);
    return failure(PLAIT_INVALID_ARGUMENT, "%s: %s has no %s; it has %s; %s is for %s", function, name,
                   plait_op_name(op), good, plait_op_name(op), types);
}

static plait_status check_root(const struct comm *comm, int root, const char *function)
{
    if (root < 0 || root >= comm->group.ranks)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: root is %d; the communicator has ranks 0..%d", function,
                       root, comm->group.ranks - 1);
    return PLAIT_OK;
}

/* Elements that can be addressed whatever their type (16 bytes at most) and the number of ranks (2^20 at most);
 * spares usual calls two divisions. */
static const size_t SURELY_FITS = PTRDIFF_MAX >> 24;

static plait_status check_count(const struct comm *comm, size_t count, plait_type type, const char *function)
{
    if (count <= SURELY_FITS)
        return PLAIT_OK;
    size_t most = PTRDIFF_MAX / plait_type_size(type) / (size_t)comm->group.ranks;
    if (count > most)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: count is %zu; %zu elements of %s a rank are the most that %d ranks can address",
                       function, count, most, plait_type_name(type), comm->group.ranks);
    return PLAIT_OK;
}

plait_status calls_check_buffer(const void *buffer, size_t size, const char *what, const char *function)
{
    if (buffer == NULL && size > 0)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: %s is NULL and should hold %zu bytes", function, what,
                       size);
    if (buffer != NULL && (uintptr_t)buffer + size < (uintptr_t)buffer)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: %s at %p cannot hold %zu bytes", function, what, buffer,
                       size);
    return PLAIT_OK;
}

static bool overlap(const void *a, size_t a_size, const void *b, size_t b_size)
{
    uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return a_size > 0 && b_size > 0 && first < second + b_size && second < first + a_size;
}

/* Where the input has to begin when the call is in place. */
static const void *in_place_input(const struct comm *comm, const struct call *call, size_t block)
{
    const unsigned char *output = call->output;
    size_t rank = (size_t)comm->group.rank;
    switch (call->kind) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
    case COLLECTIVE_ALLTOALL: return output;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_GATHER: return output + rank * block;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_SCATTER: return output - rank * block;
    default: return NULL;
    }
}

static plait_status check_buffers(const struct comm *comm, const struct call *call, const char *function)
{
    size_t block = call->count * plait_type_size(call->type);
    int ranks = comm->group.ranks, rank = comm->group.rank;
    size_t input_size = (size_t)collective_input_blocks(call->kind, ranks, call->root, rank) * block;
    size_t output_size = (size_t)collective_output_blocks(call->kind, ranks, call->root, rank) * block;
    bool broadcast = call->kind == COLLECTIVE_BROADCAST;

    plait_status status = calls_check_buffer(call->input, input_size, broadcast ? "data" : "input", function);
    if (status == PLAIT_OK)
        status = calls_check_buffer(call->output, output_size, broadcast ? "data" : "output", function);
    if (status != PLAIT_OK || !overlap(call->input, input_size, call->output, output_size))
        return status;
    if (call->input == in_place_input(comm, call, block))
        return PLAIT_OK;
    return failure(
        PLAIT_INVALID_ARGUMENT,
        "%s: input (%zu bytes at %p) and output (%zu bytes at %p) overlap; in place they must lie as "
        "plait.h says, otherwise apart",
        function, input_size, call->input, output_size, call->output);
}

plait_status calls_check(const struct comm *comm, const struct call *call, const char *function)
{
    plait_status status = calls_check_type(call->type, function);
    if (status == PLAIT_OK && collective_reduces(call->kind))
        status = call->op >= PLAIT_FIRST_MADE_OP ? check_made_op(call, function)
                                                 : check_op(call->op, call->type, function);
    if (status == PLAIT_OK && collective_scans(call->kind) && call->op == PLAIT_AVERAGE)
        status =
            failure(PLAIT_INVALID_ARGUMENT,
                    "%s: op is average, which a scan does not have; scan the sum and divide it", function);
    if (status == PLAIT_OK && collective_has_root(call->kind))
        status = check_root(comm, call->root, function);
    if (status == PLAIT_OK)
        status = check_count(comm, call->count, call->type, function);
    return status;
}

/* ------------------------------------------------------------------- running */

/* An operation of so many bytes a block takes longer than waking a thread for it. Smaller ones the caller begins
 * itself: in the time of a wake-up they are done. */
enum { HANDED_OVER_BYTES = 256 << 10 };

static plait_status start(struct comm *comm, const struct call *call, plait_work **out)
{
    struct work *work;
    plait_status status = work_make(comm, WORK_COLLECTIVE, &work);
    if (status != PLAIT_OK)
        return status;
    status = work_set_call(work, call);
    if (status != PLAIT_OK) {
        work_drop(work);
        return status;
    }
    *out = work->handle;
    engine_submit(&comm->world->engine, work);
    if (call->count * plait_type_size(call->type) >= HANDED_OVER_BYTES)
        engine_hand_over(&comm->world->engine);
    else
        engine_nudge(&comm->world->engine);
    return PLAIT_OK;
}

plait_status calls_run(struct comm *comm, const struct call *call)
{
    struct work work;
    work_init(&work, comm, WORK_COLLECTIVE);
    work.execution.call = *call;
    return engine_run(&comm->world->engine, &work);
}

/* The call becomes a member of this thread's group. */
static plait_status join_group(struct comm *comm, const struct call *call, plait_work **out)
{
    struct work *member;
    plait_status status = group_add(comm, WORK_COLLECTIVE, out, &member);
    return status == PLAIT_OK ? group_spoil(work_set_call(member, call)) : status;
}

/* A call whose operation is a caller's, which it holds. */
static plait_status carry_out_made(struct comm *comm, const struct call *call, plait_work **work)
{
    struct call made = *call;
    made.made = made_op_hold(call->op);
    if (made.made == NULL)
        return group_spoil(failure(PLAIT_INVALID_USAGE, "the operation was destroyed as the call began"));
    made.op = PLAIT_SUM;
    plait_status status = calls_carry_out(comm, &made, work);
    made_op_let_go(made.made);
    return status;
}

plait_status calls_carry_out(struct comm *comm, const struct call *call, plait_work **work)
{
    if (call->op >= PLAIT_FIRST_MADE_OP)
        return carry_out_made(comm, call, work);
    if (group_is_open())
        return join_group(comm, call, work);
    return work != NULL ? start(comm, call, work) : calls_run(comm, call);
}

/* Finds the communicator and checks the call, once it is put together. */
static plait_status prepare(plait_comm *handle, struct call *call, struct comm **found, const char *function)
{
    struct comm *comm = *found = comm_find(handle, function);
    if (comm == NULL)
        return handle_refusal(handle);
    if (call->kind == COLLECTIVE_BARRIER)
        return PLAIT_OK;
    plait_status status = calls_check(comm, call, function);
    if (status != PLAIT_OK)
        return status;
    /* Buffers that mean nothing on this rank are not looked at. */
    if (collective_input_blocks(call->kind, comm->group.ranks, call->root, comm->group.rank) == 0)
        call->input = NULL;
    if (collective_output_blocks(call->kind, comm->group.ranks, call->root, comm->group.rank) == 0)
        call->output = NULL;
    return check_buffers(comm, call, function);
}

/* Everything a collective has in common. */
static plait_status collective(plait_comm *handle, struct call *call, plait_work **work, const char *function)
{
    struct comm *comm;
    plait_status status = prepare(handle, call, &comm, function);
    return status == PLAIT_OK ? calls_carry_out(comm, call, work) : group_spoil(status);
}

plait_status plait_allreduce(plait_comm *comm, const void *input, void *output, size_t count, plait_type type,
                             plait_op op, plait_work **work)
{
    struct call call = {
        .kind = COLLECTIVE_ALLREDUCE, .type = type, .op = op, .count = count, .input = input, .output = output
    };
    return collective(comm, &call, work, __func__);
}

plait_status plait_reduce(plait_comm *comm, const void *input, void *output, size_t count, plait_type type,
                          plait_op op, int root, plait_work **work)
{
    struct call call = { .kind = COLLECTIVE_REDUCE,
                         .type = type,
                         .op = op,
                         .root = root,
                         .count = count,
                         .input = input,
                         .output = output };
    return collective(comm, &call, work, __func__);
}

plait_status plait_broadcast(plait_comm *comm, void *data, size_t count, plait_type type, int root,
                             plait_work **work)
{
    struct call call = { .kind = COLLECTIVE_BROADCAST,
                         .type = type,
                         .root = root,
                         .count = count,
                         .input = data,
                         .output = data };
    return collective(comm, &call, work, __func__);
}

plait_status plait_allgather(plait_comm *comm, const void *input, void *output, size_t count, plait_type type,
                             plait_work **work)
{
    struct call call = {
        .kind = COLLECTIVE_ALLGATHER, .type = type, .count = count, .input = input, .output = output
    };
    return collective(comm, &call, work, __func__);
}

plait_status plait_reduce_scatter(plait_comm *comm, const void *input, void *output, size_t count,
                                  plait_type type, plait_op op, plait_work **work)
{
    struct call call = { .kind = COLLECTIVE_REDUCE_SCATTER,
                         .type = type,
                         .op = op,
                         .count = count,
                         .input = input,
                         .output = output };
    return collective(comm, &call, work, __func__);
}

plait_status plait_gather(plait_comm *comm, const void *input, void *output, size_t count, plait_type type,
                          int root, plait_work **work)
{
    struct call call = { .kind = COLLECTIVE_GATHER,
                         .type = type,
                         .root = root,
                         .count = count,
                         .input = input,
                         .output = output };
    return collective(comm, &call, work, __func__);
}

plait_status plait_scatter(plait_comm *comm, const void *input, void *output, size_t count, plait_type type,
                           int root, plait_work **work)
{
    struct call call = { .kind = COLLECTIVE_SCATTER,
                         .type = type,
                         .root = root,
                         .count = count,
                         .input = input,
                         .output = output };
    return collective(comm, &call, work, __func__);
}

plait_status plait_alltoall(plait_comm *comm, const void *input, void *output, size_t count, plait_type type,
                            plait_work **work)
{
    struct call call = {
        .kind = COLLECTIVE_ALLTOALL, .type = type, .count = count, .input = input, .output = output
    };
    return collective(comm, &call, work, __func__);
}

plait_status plait_scan(plait_comm *comm, const void *input, void *output, size_t count, plait_type type,
                        plait_op op, plait_work **work)
{
    struct call call = {
        .kind = COLLECTIVE_SCAN, .type = type, .op = op, .count = count, .input = input, .output = output
    };
    return collective(comm, &call, work, __func__);
}

plait_status plait_exscan(plait_comm *comm, const void *input, void *output, size_t count, plait_type type,
                          plait_op op, plait_work **work)
{
    struct call call = {
        .kind = COLLECTIVE_EXSCAN, .type = type, .op = op, .count = count, .input = input, .output = output
    };
    return collective(comm, &call, work, __func__);
}

plait_status plait_barrier(plait_comm *comm, plait_work **work)
{
    struct call call = { .kind = COLLECTIVE_BARRIER };
    return collective(comm, &call, work, __func__);
}
