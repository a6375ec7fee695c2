#include "collectives.h"

#include <ctype.h>
#include <string.h>

enum { TAG = 0 };

/* The API wants no buffer where the collective has none. */
static void *input_of(const struct call *call)
{
    return call->collective->input_at_root && call->rank != call->root ? NULL : call->input;
}

static void *output_of(const struct call *call)
{
    return call->collective->output_at_root && call->rank != call->root ? NULL : call->output;
}

static plait_status start_all_reduce(const struct call *call)
{
    return plait_allreduce(call->comm, call->input, call->output, call->count, call->type, call->op,
                           call->work);
}

static plait_status start_reduce(const struct call *call)
{
    return plait_reduce(call->comm, call->input, output_of(call), call->count, call->type, call->op,
                        call->root, call->work);
}

static plait_status start_broadcast(const struct call *call)
{
    return plait_broadcast(call->comm, call->output, call->count, call->type, call->root, call->work);
}

static plait_status start_all_gather(const struct call *call)
{
    return plait_allgather(call->comm, call->input, call->output, call->count, call->type, call->work);
}

static plait_status start_reduce_scatter(const struct call *call)
{
    return plait_reduce_scatter(call->comm, call->input, call->output, call->count, call->type, call->op,
                                call->work);
}

static plait_status start_gather(const struct call *call)
{
    return plait_gather(call->comm, call->input, output_of(call), call->count, call->type, call->root,
                        call->work);
}

static plait_status start_scatter(const struct call *call)
{
    return plait_scatter(call->comm, input_of(call), call->output, call->count, call->type, call->root,
                         call->work);
}

static plait_status start_all_to_all(const struct call *call)
{
    return plait_alltoall(call->comm, call->input, call->output, call->count, call->type, call->work);
}

static plait_status start_barrier(const struct call *call)
{
    return plait_barrier(call->comm, call->work);
}

/* --------------------------------------------------------------------- v-forms */

/* Where block `index` of an uneven whole begins; of block `ranks`, where all end. */
static size_t uneven_first(const struct call *call, int index)
{
    size_t ranks = (size_t)call->ranks, block = (size_t)index;
    return call->count * ranks * block * (block + 1) / (ranks * (ranks + 1));
}

static size_t uneven_length(const struct call *call, int index)
{
    return uneven_first(call, index + 1) - uneven_first(call, index);
}

/* Of all-to-all: what goes from one rank to another, as much as comes back. */
static size_t exchanged(const struct call *call, int a, int b)
{
    return uneven_length(call, (a + b) % call->ranks);
}

/* Of all-to-all: where the block for, or from, `peer` begins in the buffer of `rank`. */
static size_t exchanged_first(const struct call *call, int rank, int peer)
{
    size_t first = 0;
    for (int before = 0; before < peer; before++)
        first += exchanged(call, rank, before);
    return first;
}

void collective_counts(const struct call *call, size_t *counts)
{
    bool pairs = call->collective->input == BLOCK_PER_RANK && call->collective->output == BLOCK_PER_RANK;
    for (int rank = 0; rank < call->ranks; rank++)
        counts[rank] = pairs ? exchanged(call, call->rank, rank) : uneven_length(call, rank);
}

static plait_status start_all_gather_v(const struct call *call)
{
    return plait_allgatherv(call->comm, call->input, call->counts[call->rank], call->output, call->counts,
                            NULL, call->type, call->work);
}

static plait_status start_reduce_scatter_v(const struct call *call)
{
    return plait_reduce_scatterv(call->comm, call->input, call->output, call->counts, call->type, call->op,
                                 call->work);
}

static plait_status start_gather_v(const struct call *call)
{
    return plait_gatherv(call->comm, call->input, call->counts[call->rank], output_of(call), call->counts,
                         NULL, call->type, call->root, call->work);
}

static plait_status start_scatter_v(const struct call *call)
{
    return plait_scatterv(call->comm, input_of(call), call->counts, NULL, call->output,
                          call->counts[call->rank], call->type, call->root, call->work);
}

static plait_status start_all_to_all_v(const struct call *call)
{
    return plait_alltoallv(call->comm, call->input, call->counts, NULL, call->output, call->counts, NULL,
                           call->type, call->work);
}

static struct origin from_each_uneven(const struct call *call, size_t index)
{
    int rank = 0;
    while (index >= uneven_first(call, rank + 1))
        rank++;
    return (struct origin){ rank, index - uneven_first(call, rank) };
}

static struct origin from_all_uneven(const struct call *call, size_t index)
{
    return (struct origin){ ALL_RANKS, uneven_first(call, call->rank) + index };
}

static struct origin from_root_uneven(const struct call *call, size_t index)
{
    return (struct origin){ call->root, uneven_first(call, call->rank) + index };
}

static struct origin from_each_exchanged(const struct call *call, size_t index)
{
    int rank = 0;
    for (; index >= exchanged(call, call->rank, rank); rank++)
        index -= exchanged(call, call->rank, rank);
    return (struct origin){ rank, exchanged_first(call, rank, call->rank) + index };
}

/* ------------------------------------------------------------------------ others */

/* Round the ring: the receive is posted first, so that large messages find their buffers. */
static plait_status start_sendrecv(const struct call *call)
{
    int next = (call->rank + 1) % call->ranks;
    int previous = (call->rank + call->ranks - 1) % call->ranks;
    plait_work *receive = NULL;
    plait_status status =
        plait_recv(call->comm, call->output, call->count, call->type, previous, TAG, NULL, NULL, &receive);
    if (status == PLAIT_OK)
        status = plait_send(call->comm, call->input, call->count, call->type, next, TAG, NULL);
    if (status == PLAIT_OK)
        status = plait_work_wait(receive, -1);
    plait_work_release(receive);
    return status;
}

static struct origin from_all(const struct call *call, size_t index)
{
    (void)call;
    return (struct origin){ ALL_RANKS, index };
}

static struct origin from_all_block(const struct call *call, size_t index)
{
    return (struct origin){ ALL_RANKS, (size_t)call->rank * call->count + index };
}

static struct origin from_root(const struct call *call, size_t index)
{
    return (struct origin){ call->root, index };
}

static struct origin from_root_block(const struct call *call, size_t index)
{
    return (struct origin){ call->root, (size_t)call->rank * call->count + index };
}

static struct origin from_each(const struct call *call, size_t index)
{
    return (struct origin){ (int)(index / call->count), index % call->count };
}

static struct origin from_each_block(const struct call *call, size_t index)
{
    return (struct origin){ (int)(index / call->count),
                            (size_t)call->rank * call->count + index % call->count };
}

static struct origin from_previous(const struct call *call, size_t index)
{
    return (struct origin){ (call->rank + call->ranks - 1) % call->ranks, index };
}

static double factor_all_reduce(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

static double factor_others(int ranks)
{
    return (ranks - 1.0) / ranks;
}

static double factor_one(int ranks)
{
    (void)ranks;
    return 1;
}

/* clang-format off */
static const struct collective table[] = {
    { .name = "all_reduce", .reduces = true, .out_of_place = true, .in_place = true,
      .input = ONE_BLOCK, .output = ONE_BLOCK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_all_reduce, .start = start_all_reduce, .origin = from_all },
    { .name = "reduce", .reduces = true, .rooted = true, .output_at_root = true, .out_of_place = true,
      .in_place = true, .input = ONE_BLOCK, .output = ONE_BLOCK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_one, .start = start_reduce, .origin = from_all },
    { .name = "broadcast", .rooted = true, .input_at_root = true, .in_place = true,
      .input = ONE_BLOCK, .output = ONE_BLOCK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_one, .start = start_broadcast, .origin = from_root },
    { .name = "all_gather", .out_of_place = true, .in_place = true,
      .input = ONE_BLOCK, .output = BLOCK_PER_RANK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_all_gather, .origin = from_each },
    { .name = "reduce_scatter", .reduces = true, .out_of_place = true, .in_place = true,
      .input = BLOCK_PER_RANK, .output = ONE_BLOCK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_reduce_scatter, .origin = from_all_block },
    { .name = "gather", .rooted = true, .output_at_root = true, .out_of_place = true, .in_place = true,
      .input = ONE_BLOCK, .output = BLOCK_PER_RANK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_gather, .origin = from_each },
    { .name = "scatter", .rooted = true, .input_at_root = true, .out_of_place = true, .in_place = true,
      .input = BLOCK_PER_RANK, .output = ONE_BLOCK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_scatter, .origin = from_root_block },
    { .name = "all_to_all", .out_of_place = true, .in_place = true,
      .input = BLOCK_PER_RANK, .output = BLOCK_PER_RANK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_all_to_all, .origin = from_each_block },
    { .name = "all_gather_v", .uneven = true, .out_of_place = true, .in_place = true,
      .input = ONE_BLOCK, .output = BLOCK_PER_RANK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_all_gather_v, .origin = from_each_uneven },
    { .name = "reduce_scatter_v", .uneven = true, .reduces = true, .out_of_place = true, .in_place = true,
      .input = BLOCK_PER_RANK, .output = ONE_BLOCK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_reduce_scatter_v, .origin = from_all_uneven },
    { .name = "gather_v", .uneven = true, .rooted = true, .output_at_root = true, .out_of_place = true, .in_place = true,
      .input = ONE_BLOCK, .output = BLOCK_PER_RANK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_gather_v, .origin = from_each_uneven },
    { .name = "scatter_v", .uneven = true, .rooted = true, .input_at_root = true, .out_of_place = true, .in_place = true,
      .input = BLOCK_PER_RANK, .output = ONE_BLOCK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_scatter_v, .origin = from_root_uneven },
    { .name = "all_to_all_v", .uneven = true, .out_of_place = true, .in_place = true,
      .input = BLOCK_PER_RANK, .output = BLOCK_PER_RANK, .reports_plan = true, .least_ranks = 1,
      .bus_factor = factor_others, .start = start_all_to_all_v, .origin = from_each_exchanged },
    { .name = "barrier", .out_of_place = true, .input = NO_DATA, .output = NO_DATA,
      .reports_plan = true, .least_ranks = 1, .bus_factor = factor_one, .start = start_barrier },
    { .name = "sendrecv", .out_of_place = true, .input = ONE_BLOCK, .output = ONE_BLOCK, .least_ranks = 2,
      .bus_factor = factor_one, .start = start_sendrecv, .origin = from_previous },
};
/* clang-format on */

const struct collective *collective_at(size_t index)
{
    return index < sizeof table / sizeof table[0] ? &table[index] : NULL;
}

/* The letters that count: "All-Reduce" and "allreduce" are the same. */
static char next_letter(const char **name)
{
    while (**name == '-' || **name == '_')
        (*name)++;
    return **name ? (char)tolower((unsigned char)*(*name)++) : '\0';
}

static bool same_name(const char *a, const char *b)
{
    for (;;) {
        char letter = next_letter(&a);
        if (letter != next_letter(&b))
            return false;
        if (!letter)
            return true;
    }
}

const struct collective *collective_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (same_name(name, table[i].name))
            return &table[i];
    return NULL;
}

static size_t blocks(enum extent extent, int ranks)
{
    return extent == NO_DATA ? 0 : extent == ONE_BLOCK ? 1 : (size_t)ranks;
}

size_t collective_whole(const struct collective *collective, int ranks, size_t count)
{
    size_t input = blocks(collective->input, ranks), output = blocks(collective->output, ranks);
    return count * (input > output ? input : output);
}

size_t collective_count(const struct collective *collective, int ranks, plait_type type, size_t bytes)
{
    size_t unit = collective_whole(collective, ranks, 1) * plait_type_size(type);
    if (unit == 0 || bytes == 0)
        return 0;
    return bytes < unit ? 1 : bytes / unit;
}

static size_t elements(const struct call *call, enum extent extent)
{
    if (call->collective->uneven && extent == ONE_BLOCK)
        return uneven_length(call, call->rank);
    return call->count * blocks(extent, call->ranks);
}

size_t collective_input_count(const struct call *call)
{
    if (call->collective->input_at_root && call->rank != call->root)
        return 0;
    return elements(call, call->collective->input);
}

size_t collective_output_count(const struct call *call)
{
    if (call->collective->output_at_root && call->rank != call->root)
        return 0;
    return elements(call, call->collective->output);
}

void collective_place(struct call *call, void *input, void *output, bool in_place)
{
    const struct collective *collective = call->collective;
    call->input = in_place ? output : input;
    call->output = output;
    if (!in_place || collective->input == collective->output)
        return;
    size_t before = collective->uneven ? uneven_first(call, call->rank) : (size_t)call->rank * call->count;
    unsigned char *own = (unsigned char *)output + before * plait_type_size(call->type);
    if (collective->output == BLOCK_PER_RANK)
        call->input = own;
    else
        call->output = own;
}
