#include "layout.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "calls.h"

/* A call whose layout is being made. */
struct making {
    const struct comm *comm;
    const struct call *call;
    struct layout *layout;
    const char *function;
    size_t most; /* elements that can be addressed */
};

/* ------------------------------------------------------------------- numbers */

/* Is numbers[index] fit to count elements? What looks like a negative number is told as one. */
static plait_status check_number(const struct making *making, const char *name, const size_t *numbers,
                                 int index)
{
    if (numbers[index] <= making->most)
        return PLAIT_OK;
    if (numbers[index] > PTRDIFF_MAX)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: %s[%d] is %td; it must be 0 or more", making->function,
                       name, index, (ptrdiff_t)numbers[index]);
    return failure(
        PLAIT_INVALID_ARGUMENT, "%s: %s[%d] is %zu; %zu elements of %s are the most that can be addressed",
        making->function, name, index, numbers[index], making->most, plait_type_name(making->call->type));
}

/* Block `index`, which may not end beyond what can be addressed; `end` is where the blocks before it end. */
static plait_status take_block(const struct making *making, const struct layout_given *given, int index,
                               size_t end, struct span *block)
{
    plait_status status = check_number(making, given->counts_name, given->counts, index);
    if (status == PLAIT_OK && given->displacements != NULL && given->counts[index] > 0)
        status = check_number(making, given->displacements_name, given->displacements, index);
    if (status != PLAIT_OK)
        return status;
    *block = (struct span){ .first = given->displacements != NULL ? given->displacements[index] : end,
                            .count = given->counts[index] };
    if (block->count == 0 || block->count <= making->most - block->first)
        return PLAIT_OK;
    if (given->displacements == NULL)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: %s[0..%d] sum to more than the %zu elements of %s that can be addressed",
                       making->function, given->counts_name, index, making->most,
                       plait_type_name(making->call->type));
    return failure(
        PLAIT_INVALID_ARGUMENT,
        "%s: %s[%d] is %zu and %s[%d] is %zu; together that is more than the %zu elements of %s that "
        "can be addressed",
        making->function, given->displacements_name, index, block->first, given->counts_name, index,
        block->count, making->most, plait_type_name(making->call->type));
}

static plait_status fill_side(const struct making *making, enum layout_side side,
                              const struct layout_given *given, size_t *total)
{
    *total = 0;
    if (given->blocks > 0 && given->counts == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: %s is NULL and should hold %d counts, one a rank",
                       making->function, given->counts_name, given->blocks);
    for (int i = 0; i < given->blocks; i++) {
        struct span block = { 0 };
        plait_status status = take_block(making, given, i, *total, &block);
        if (status != PLAIT_OK)
            return status;
        if (block.count > making->most - *total)
            return failure(PLAIT_INVALID_ARGUMENT,
                           "%s: %s[0..%d] sum to more than the %zu elements of %s that can be addressed",
                           making->function, given->counts_name, i, making->most,
                           plait_type_name(making->call->type));
        layout_set(making->layout, side, i, block);
        *total += block.count;
    }
    return PLAIT_OK;
}

/* ------------------------------------------------------------------- buffers */

static size_t block_end(struct span block)
{
    return block.count > 0 ? block.first + block.count : 0;
}

/* No two blocks of the output may share an element. In ascending order, the usual one, neighbours tell. */
static plait_status check_apart(const struct making *making, const struct layout_given *given)
{
    bool ascends = true;
    size_t end = 0;
    for (int i = 0; i < given->blocks && ascends; i++) {
        struct span block = layout_block(making->layout, LAYOUT_OUTPUT, i);
        ascends = block.count == 0 || block.first >= end;
        end = block.count > 0 ? block_end(block) : end;
    }
    for (int i = 1; i < given->blocks && !ascends; i++) {
        struct span block = layout_block(making->layout, LAYOUT_OUTPUT, i);
        for (int j = 0; j < i; j++) {
            struct span other = layout_block(making->layout, LAYOUT_OUTPUT, j);
            if (block.first < block_end(other) && other.first < block_end(block))
                return failure(
                    PLAIT_INVALID_ARGUMENT,
                    "%s: blocks %d (%zu elements at %zu) and %d (%zu elements at %zu) of the output "
                    "overlap",
                    making->function, j, other.count, other.first, i, block.count, block.first);
        }
    }
    return PLAIT_OK;
}

/* What all blocks of a side lie within: bytes from the buffer's start. */
static size_t side_size(const struct making *making, enum layout_side side, int blocks)
{
    size_t end = 0;
    for (int i = 0; i < blocks; i++) {
        size_t last = block_end(layout_block(making->layout, side, i));
        end = last > end ? last : end;
    }
    return end * plait_type_size(making->call->type);
}

/* Where a block lies in memory, in bytes. */
static struct span block_bytes(const struct making *making, enum layout_side side, int block)
{
    size_t element = plait_type_size(making->call->type);
    struct span span = layout_block(making->layout, side, block);
    const void *buffer = side == LAYOUT_INPUT ? making->call->input : making->call->output;
    return (struct span){ .first = (uintptr_t)buffer + span.first * element, .count = span.count * element };
}

/* The input's and the output's blocks may share no byte, but that what a rank gets from another, or from itself,
 * may lie exactly where what it gives to that rank lies: that is the call in place. */
static plait_status check_buffers_apart(const struct making *making, int inputs, int outputs)
{
    int rank = making->comm->group.rank;
    for (int i = 0; i < inputs; i++) {
        struct span in = block_bytes(making, LAYOUT_INPUT, i);
        for (int j = 0; j < outputs; j++) {
            struct span out = block_bytes(making, LAYOUT_OUTPUT, j);
            if (in.first >= block_end(out) || out.first >= block_end(in))
                continue;
            bool same_rank = (inputs == 1 ? rank : i) == (outputs == 1 ? rank : j);
            if (!same_rank || in.first != out.first || in.count != out.count)
                return failure(
                    PLAIT_INVALID_ARGUMENT,
                    "%s: block %d of the input (%zu bytes at %p) and block %d of the output (%zu bytes "
                    "at %p) overlap; in place they must lie as plait.h says, otherwise apart",
                    making->function, i, in.count, (void *)in.first, j, out.count, (void *)out.first);
        }
    }
    return PLAIT_OK;
}

static plait_status check_buffers(const struct making *making, int inputs, int outputs)
{
    const struct call *call = making->call;
    size_t input_size = side_size(making, LAYOUT_INPUT, inputs);
    size_t output_size = side_size(making, LAYOUT_OUTPUT, outputs);
    plait_status status = calls_check_buffer(call->input, input_size, "input", making->function);
    if (status == PLAIT_OK)
        status = calls_check_buffer(call->output, output_size, "output", making->function);
    if (status != PLAIT_OK)
        return status;
    uintptr_t input = (uintptr_t)call->input, output = (uintptr_t)call->output;
    bool apart = input >= output + output_size || output >= input + input_size;
    return apart ? PLAIT_OK : check_buffers_apart(making, inputs, outputs);
}

/* -------------------------------------------------------------------- making */

/* Of the counts that all ranks must give alike, in the form that call_print() mixes in. */
static uint64_t print_counts(const struct layout *layout, enum layout_side side)
{
    uint64_t print = 0;
    for (int i = 0; i < layout->ranks; i++) {
        print = (print ^ layout_block(layout, side, i).count) * UINT64_C(0x9e3779b97f4a7c15);
        print ^= print >> 32;
    }
    return print | 1; /* 0 has a meaning of its own */
}

static size_t longest_block(const struct layout *layout, enum layout_side side)
{
    size_t longest = 0;
    for (int i = 0; i < layout->ranks; i++) {
        size_t count = layout_block(layout, side, i).count;
        longest = count > longest ? count : longest;
    }
    return longest;
}

plait_status layout_make(struct comm *comm, struct call *call, const struct layout_given *input,
                         const struct layout_given *output, const char *function)
{
    size_t size = layout_size(comm->group.ranks);
    if (comm->layout == NULL && (comm->layout = malloc(size)) == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "%s: no memory for a layout of %d ranks", function,
                       comm->group.ranks);
    struct layout *layout = comm->layout;
    memset(layout, 0, size);
    layout->ranks = comm->group.ranks;

    const struct making making = { comm, call, layout, function, PTRDIFF_MAX / plait_type_size(call->type) };
    size_t inputs = 0, outputs = 0;
    plait_status status = fill_side(&making, LAYOUT_INPUT, input, &inputs);
    if (status == PLAIT_OK)
        status = fill_side(&making, LAYOUT_OUTPUT, output, &outputs);
    if (status == PLAIT_OK)
        status = check_apart(&making, output);
    if (status == PLAIT_OK)
        status = check_buffers(&making, input->blocks, output->blocks);
    if (status != PLAIT_OK)
        return status;

    layout->total = inputs > outputs ? inputs : outputs;
    bool gathers = call->kind == COLLECTIVE_ALLGATHER;
    if (gathers || call->kind == COLLECTIVE_REDUCE_SCATTER) {
        enum layout_side shared = gathers ? LAYOUT_OUTPUT : LAYOUT_INPUT;
        layout->print = print_counts(layout, shared);
        call->count = longest_block(layout, shared);
    }
    call->layout = layout;
    call->uneven = true;
    return PLAIT_OK;
}
