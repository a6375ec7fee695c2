#include "calls.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    bool reduces, has_root, in_place;
} kinds[CALL_KINDS] = {
    [CALL_ALLREDUCE] = { "all-reduce", true, false, true },
    [CALL_REDUCE] = { "reduce", true, true, true },
    [CALL_BROADCAST] = { "broadcast", false, true, false },
    [CALL_ALLGATHER] = { "all-gather", false, false, true },
    [CALL_REDUCE_SCATTER] = { "reduce-scatter", true, false, true },
    [CALL_GATHER] = { "gather", false, true, true },
    [CALL_SCATTER] = { "scatter", false, true, true },
    [CALL_ALLTOALL] = { "all-to-all", false, false, true },
    [CALL_SCAN] = { "scan", true, false, true },
    [CALL_EXSCAN] = { "exclusive scan", true, false, true },
    [CALL_BARRIER] = { "barrier", false, false, false },
};

const char *call_name(enum call_kind kind)
{
    return kinds[kind].name;
}

bool call_reduces(enum call_kind kind)
{
    return kinds[kind].reduces;
}

bool call_has_root(enum call_kind kind)
{
    return kinds[kind].has_root;
}

bool call_has_in_place(enum call_kind kind)
{
    return kinds[kind].in_place;
}

int call_input_blocks(const struct call *call, int ranks, int rank)
{
    switch (call->kind) {
    case CALL_ALLREDUCE:
    case CALL_REDUCE:
    case CALL_ALLGATHER:
    case CALL_SCAN:
    case CALL_EXSCAN:
    case CALL_GATHER: return 1;
    case CALL_REDUCE_SCATTER:
    case CALL_ALLTOALL: return ranks;
    case CALL_SCATTER: return rank == call->root ? ranks : 0;
    default: return 0; /* a broadcast's buffer is its output */
    }
}

int call_output_blocks(const struct call *call, int ranks, int rank)
{
    switch (call->kind) {
    case CALL_ALLREDUCE:
    case CALL_BROADCAST:
    case CALL_REDUCE_SCATTER:
    case CALL_SCAN:
    case CALL_SCATTER: return 1;
    case CALL_EXSCAN: return rank > 0;
    case CALL_REDUCE: return rank == call->root ? 1 : 0;
    case CALL_ALLGATHER:
    case CALL_ALLTOALL: return ranks;
    case CALL_GATHER: return rank == call->root ? ranks : 0;
    default: return 0;
    }
}

const char *call_text(const struct call *call, char *text, size_t size)
{
    char root[24] = "";
    if (call_has_root(call->kind))
        snprintf(root, sizeof root, ", root %d", call->root);
    if (call->kind == CALL_BARRIER)
        snprintf(text, size, "barrier");
    else if (call_reduces(call->kind))
        snprintf(text, size, "%s of %zu %s, %s%s", call_name(call->kind), call->count,
                 plait_type_name(call->type), plait_op_name(call->op), root);
    else
        snprintf(text, size, "%s of %zu %s%s", call_name(call->kind), call->count,
                 plait_type_name(call->type), root);
    return text;
}

plait_status call_make(const struct call *call, plait_comm *comm, const void *input, void *output,
                       plait_work **work)
{
    switch (call->kind) {
    case CALL_ALLREDUCE: return plait_allreduce(comm, input, output, call->count, call->type, call->op, work);
    case CALL_REDUCE:
        return plait_reduce(comm, input, output, call->count, call->type, call->op, call->root, work);
    case CALL_BROADCAST: return plait_broadcast(comm, output, call->count, call->type, call->root, work);
    case CALL_ALLGATHER: return plait_allgather(comm, input, output, call->count, call->type, work);
    case CALL_REDUCE_SCATTER:
        return plait_reduce_scatter(comm, input, output, call->count, call->type, call->op, work);
    case CALL_GATHER: return plait_gather(comm, input, output, call->count, call->type, call->root, work);
    case CALL_SCATTER: return plait_scatter(comm, input, output, call->count, call->type, call->root, work);
    case CALL_ALLTOALL: return plait_alltoall(comm, input, output, call->count, call->type, work);
    case CALL_SCAN: return plait_scan(comm, input, output, call->count, call->type, call->op, work);
    case CALL_EXSCAN: return plait_exscan(comm, input, output, call->count, call->type, call->op, work);
    default: return plait_barrier(comm, work);
    }
}

struct layout layout_drawn(enum call_kind kind, uint64_t random)
{
    static const unsigned char shifts[8] = { 0, 0, 0, 1, 3, 4, 8, 63 };
    return (struct layout){
        .in_place = call_has_in_place(kind) && (random & 1),
        .input_upper = random >> 1 & 1,
        .output_upper = random >> 2 & 1,
        .input_shift = shifts[random >> 3 & 7],
        .output_shift = shifts[random >> 6 & 7],
        .special = (random >> 9 & 3) == 0,
        .spare_output = random >> 11 & 1,
    };
}

/* ------------------------------------------------------------------- trials */

enum { PATTERN = 0x5c };

bool trial_open(struct trial *trial, size_t most_size, int ranks)
{
    memset(trial, 0, sizeof *trial);
    if (guarded_open(&trial->input_room, most_size * (size_t)ranks + 64) &&
        guarded_open(&trial->output_room, most_size * (size_t)ranks + 64))
        return true;
    trial_close(trial);
    return false;
}

void trial_close(struct trial *trial)
{
    guarded_close(&trial->input_room);
    guarded_close(&trial->output_room);
}

static size_t block_size(const struct trial *trial)
{
    return trial->call.count * data_size(trial->data.type);
}

/* In place the smaller buffer lies in the larger one: the input of a gathering, the output of a scattering. */
static bool output_holds_input(const struct trial *trial)
{
    return call_output_blocks(&trial->call, trial->ranks, trial->me) >=
           call_input_blocks(&trial->call, trial->ranks, trial->me);
}

/* In-place calls have meaning on ranks that have both buffers. */
static bool lies_in_place(const struct trial *trial)
{
    return trial->layout.in_place && trial->input_size != 0 && trial->output_size != 0;
}

static void place_buffers(struct trial *trial)
{
    const struct layout *layout = &trial->layout;
    const size_t block = block_size(trial), mine = (size_t)trial->me * block;
    const bool spare = trial->output_size == 0 && layout->spare_output;
    trial->input =
        guarded_place(&trial->input_room, trial->input_size, layout->input_shift, layout->input_upper);
    trial->output = guarded_place(&trial->output_room, spare ? block : trial->output_size,
                                  layout->output_shift, layout->output_upper);
    memset(trial->output_room.data, PATTERN, trial->output_room.size);
    if (lies_in_place(trial) && output_holds_input(trial))
        trial->input = trial->output + (trial->output_size > trial->input_size ? mine : 0);
    else if (lies_in_place(trial))
        trial->output = trial->input + mine;
    if (trial->input_size == 0)
        trial->input = NULL;
    if (trial->output_size == 0 && !spare)
        trial->output = NULL;
}

/* In place, of the blocks of the larger buffer that the call may not write: those beside a scattering's output. */
static uint64_t outside_sum(const struct trial *trial)
{
    if (!lies_in_place(trial) || output_holds_input(trial))
        return 0;
    const size_t block = block_size(trial), mine = (size_t)trial->me * block;
    return data_checksum(trial->input, mine) ^
           mix(data_checksum(trial->input + mine + block, trial->input_size - mine - block));
}

void trial_prepare(struct trial *trial, const struct call *call, const struct layout *layout, uint64_t seed,
                   int me, int ranks)
{
    trial->call = *call;
    if ((call->kind == CALL_SCAN || call->kind == CALL_EXSCAN) && call->op == PLAIT_AVERAGE)
        trial->call.op = PLAIT_SUM; /* scans have no average */
    trial->layout = *layout;
    trial->me = me;
    trial->ranks = ranks;
    trial->data = (struct data){
        .type = call->kind == CALL_BARRIER ? PLAIT_U8 : call->type,
        .op = call_reduces(call->kind) ? trial->call.op : PLAIT_SUM,
        .special = layout->special,
        .seed = seed,
    };
    trial->input_size = (size_t)call_input_blocks(call, ranks, me) * block_size(trial);
    trial->output_size = (size_t)call_output_blocks(call, ranks, me) * block_size(trial);
    place_buffers(trial);
    if (trial->input_size != 0)
        data_fill(&trial->data, me, 0, trial->input_size / data_size(trial->data.type), trial->input);
    if (call->kind == CALL_BROADCAST && me == call->root && trial->output_size != 0)
        data_fill(&trial->data, me, 0, call->count, trial->output);
    trial->input_sum = data_checksum(trial->input, trial->input_size);
    trial->outside_sum = outside_sum(trial);
}

plait_status trial_call(struct trial *trial, plait_comm *comm, plait_work **work)
{
    return call_make(&trial->call, comm, trial->input, trial->output, work);
}

uint64_t trial_output_sum(const struct trial *trial)
{
    return data_checksum(trial->output, trial->output_size);
}

static bool all_pattern(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != PATTERN)
            return false;
    return true;
}

static bool margins_intact(const struct trial *trial, char *why, size_t why_size)
{
    const bool input = guarded_intact(&trial->input_room), output = guarded_intact(&trial->output_room);
    if (input && output)
        return true;
    snprintf(why, why_size, "bytes around the %s were written", input ? "output" : "input");
    return false;
}

static bool inputs_intact(const struct trial *trial, char *why, size_t why_size)
{
    const bool in_place = lies_in_place(trial);
    if (!in_place && data_checksum(trial->input, trial->input_size) != trial->input_sum) {
        snprintf(why, why_size, "the input was written");
        return false;
    }
    if (in_place && outside_sum(trial) != trial->outside_sum) {
        snprintf(why, why_size, "in place, other ranks' blocks of the input were written");
        return false;
    }
    if (trial->output_size == 0 && trial->output != NULL &&
        !all_pattern(trial->output, trial->output_room.size)) {
        snprintf(why, why_size, "the output was written on a rank that has none");
        return false;
    }
    return true;
}

/* `count` elements at `at` are elements first, ... of what `from` handed in. */
static bool block_right(const struct trial *trial, int from, size_t first, size_t block, char *why,
                        size_t why_size)
{
    const unsigned char *at = trial->output + block * block_size(trial);
    size_t wrong = 0;
    if (data_equal(&trial->data, from, first, trial->call.count, at, &wrong))
        return true;
    snprintf(why, why_size, "element %zu of block %zu is not rank %d's", wrong, block, from);
    return false;
}

static bool blocks_right(const struct trial *trial, size_t first, char *why, size_t why_size)
{
    for (int from = 0; from < trial->ranks; from++)
        if (!block_right(trial, from, first, (size_t)from, why, why_size))
            return false;
    return true;
}

static bool output_right(const struct trial *trial, char *why, size_t why_size)
{
    const struct call *call = &trial->call;
    const size_t mine = (size_t)trial->me * call->count;
    if (trial->output_size == 0)
        return true;
    switch (call->kind) {
    case CALL_ALLREDUCE:
    case CALL_REDUCE:
        return data_reduced(&trial->data, trial->ranks, 0, call->count, trial->output, why, why_size);
    case CALL_REDUCE_SCATTER:
        return data_reduced(&trial->data, trial->ranks, mine, call->count, trial->output, why, why_size);
    case CALL_SCAN:
    case CALL_EXSCAN:
        return data_reduced(&trial->data, trial->me + (call->kind == CALL_SCAN), 0, call->count,
                            trial->output, why, why_size);
    case CALL_BROADCAST: return block_right(trial, call->root, 0, 0, why, why_size);
    case CALL_SCATTER: return block_right(trial, call->root, mine, 0, why, why_size);
    case CALL_ALLTOALL: return blocks_right(trial, mine, why, why_size);
    default: return blocks_right(trial, 0, why, why_size);
    }
}

bool trial_surroundings_right(const struct trial *trial, char *why, size_t why_size)
{
    return margins_intact(trial, why, why_size) && inputs_intact(trial, why, why_size);
}

bool trial_right(struct trial *trial, char *why, size_t why_size)
{
    return trial_surroundings_right(trial, why, why_size) && output_right(trial, why, why_size);
}

bool trial_untouched(struct trial *trial, char *why, size_t why_size)
{
    if (!margins_intact(trial, why, why_size))
        return false;
    if (data_checksum(trial->input, trial->input_size) != trial->input_sum) {
        snprintf(why, why_size, "the input was written");
        return false;
    }
    if (trial->call.kind == CALL_BROADCAST && trial->me == trial->call.root)
        return trial->output_size == 0 || block_right(trial, trial->me, 0, 0, why, why_size);
    for (size_t i = 0; i < trial->output_room.size; i++) {
        const unsigned char *at = trial->output_room.data + i;
        if (*at == PATTERN || (at >= trial->input && at < trial->input + trial->input_size))
            continue;
        snprintf(why, why_size, "byte %zu of the output was written", i);
        return false;
    }
    return true;
}

bool trial_run(struct rank *rank, struct trial *trial, plait_comm *comm, const struct call *call,
               const struct layout *layout, uint64_t seed)
{
    char text[120], why[300];
    call_text(call, text, sizeof text);
    rank_doing(rank, "%s%s%s, input %s%zu, output %s%zu, seed %llu", text,
               layout->in_place ? " in place" : "", layout->special ? ", special" : "",
               layout->input_upper ? "-" : "+", layout->input_shift, layout->output_upper ? "-" : "+",
               layout->output_shift, (unsigned long long)seed);
    trial_prepare(trial, call, layout, seed, plait_comm_rank(comm), plait_comm_size(comm));
    /* Now and then an input that can't be written even for a moment. */
    const bool sealed = mix(seed) % 4 == 0 && !lies_in_place(trial);
    if (sealed)
        guarded_seal(&trial->input_room, true);
    plait_status status = trial_call(trial, comm, NULL);
    if (sealed)
        guarded_seal(&trial->input_room, false);
    return rank_ok(rank, status, text) && rank_check(rank, trial_right(trial, why, sizeof why), "%s (%s): %s",
                                                     text, plait_comm_last_plan(comm), why);
}
