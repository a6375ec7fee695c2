#include "uneven.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN = 0x5c, APART = 1 << 20 /* element numbers between the blocks of a rank's data */ };

const char *uneven_name(enum uneven_kind kind)
{
    static const char *const names[] = { "all-gatherv", "reduce-scatterv", "gatherv", "scatterv",
                                         "all-to-allv" };
    return names[kind];
}

size_t uneven_moved(const struct uneven_call *call, int from, int to)
{
    /* In place, what goes one way is as long as what comes back. */
    const int low = from < to ? from : to, high = from < to ? to : from;
    uint64_t random = 0;
    switch (call->kind) {
    case UNEVEN_ALLGATHER: random = mix(call->seed + (uint64_t)from); break;
    case UNEVEN_REDUCE_SCATTER: random = mix(call->seed + (uint64_t)to); break;
    case UNEVEN_GATHER: random = to == call->root ? mix(call->seed + (uint64_t)from) : 0; break;
    case UNEVEN_SCATTER: random = from == call->root ? mix(call->seed + (uint64_t)to) : 0; break;
    default:
        random = call->in_place ? mix(call->seed + (uint64_t)(low * 1000 + high))
                                : mix(call->seed + (uint64_t)(from * 1000 + to));
    }
    if (random == 0 || random % 4 == 0)
        return 0;
    return random % 4 == 1 ? random / 4 % 9 : random / 4 % (call->most + 1);
}

bool uneven_open(struct uneven_trial *trial, size_t most_size, int ranks)
{
    memset(trial, 0, sizeof *trial);
    const size_t size = (most_size + 64) * (size_t)ranks + 64;
    trial->expected = malloc(size);
    if (trial->expected != NULL && guarded_open(&trial->input_room, size) &&
        guarded_open(&trial->output_room, size))
        return true;
    uneven_close(trial);
    return false;
}

void uneven_close(struct uneven_trial *trial)
{
    guarded_close(&trial->input_room);
    guarded_close(&trial->output_room);
    free(trial->expected);
}

/* Displacements, in an order drawn by `seed` and with gaps of up to 3 elements, or one after another. */
static size_t place_blocks(const size_t *counts, size_t *firsts, int blocks, bool gaps, uint64_t seed)
{
    size_t end = 0;
    const int turn = gaps && blocks > 0 ? (int)(mix(seed) % (uint64_t)blocks) : 0;
    for (int i = 0; i < blocks; i++) {
        const int block = gaps && (seed & 1) ? (turn + blocks - i) % blocks : (turn + i) % blocks;
        firsts[block] = end += gaps ? mix(seed + (uint64_t)i) % 4 : 0;
        end += counts[block];
    }
    return end;
}

static void count_blocks(struct uneven_trial *trial)
{
    const struct uneven_call *call = &trial->call;
    const int me = trial->me, ranks = trial->ranks, root = call->root;
    const bool gathers = call->kind == UNEVEN_ALLGATHER || call->kind == UNEVEN_GATHER;
    const bool scatters = call->kind == UNEVEN_REDUCE_SCATTER || call->kind == UNEVEN_SCATTER;
    trial->input_blocks = gathers ? 1 : call->kind == UNEVEN_SCATTER && me != root ? 0 : ranks;
    trial->output_blocks = scatters ? 1 : call->kind == UNEVEN_GATHER && me != root ? 0 : ranks;
    for (int i = 0; i < ranks; i++) {
        trial->input_counts[i] =
            uneven_moved(call, me, gathers ? (call->kind == UNEVEN_GATHER ? root : me) : i);
        trial->output_counts[i] =
            uneven_moved(call, scatters ? (call->kind == UNEVEN_SCATTER ? root : me) : i, me);
    }
}

/* The number of the first element of a block of `from`'s data. */
static size_t element_of(const struct uneven_trial *trial, int to)
{
    const bool gathers = trial->call.kind == UNEVEN_ALLGATHER || trial->call.kind == UNEVEN_GATHER;
    return gathers ? 0 : (size_t)to * APART;
}

static void fill_input(struct uneven_trial *trial)
{
    const size_t size = data_size(trial->call.type);
    for (int i = 0; i < trial->input_blocks; i++)
        data_fill(&trial->data, trial->me, element_of(trial, i), trial->input_counts[i],
                  trial->input + trial->input_firsts[i] * size);
}

static void lay_buffers(struct uneven_trial *trial)
{
    const struct uneven_call *call = &trial->call;
    const size_t size = data_size(call->type), mine = (size_t)trial->me;
    const bool upper = call->seed >> 8 & 1;
    const size_t shift = (call->seed >> 9 & 1) ? 0 : (call->seed >> 10) % 9;
    trial->input = guarded_place(&trial->input_room, trial->input_size, shift, upper);
    trial->output = guarded_place(&trial->output_room, trial->output_size, 8 - shift % 8, upper);
    memset(trial->input_room.data, PATTERN, trial->input_room.size);
    memset(trial->output_room.data, PATTERN, trial->output_room.size);
    trial->in_place = call->in_place && trial->input_blocks > 0 && trial->output_blocks > 0;
    if (!trial->in_place)
        return;
    if (trial->output_blocks > trial->input_blocks)
        trial->input = trial->output + trial->output_firsts[mine] * size;
    else if (trial->output_blocks < trial->input_blocks)
        trial->output = trial->input + trial->input_firsts[mine] * size;
    else
        trial->input = trial->output;
}

void uneven_prepare(struct uneven_trial *trial, const struct uneven_call *call, int me, int ranks)
{
    trial->call = *call;
    trial->me = me;
    trial->ranks = ranks;
    trial->data = (struct data){ .type = call->type, .op = call->op, .seed = call->seed };
    count_blocks(trial);
    const bool input_gaps = call->gaps && call->kind != UNEVEN_REDUCE_SCATTER && trial->input_blocks > 1;
    const bool output_gaps = call->gaps && trial->output_blocks > 1;
    const uint64_t seed = mix(call->seed + (uint64_t)me), other = call->in_place ? seed : mix(seed);
    const size_t size = data_size(call->type);
    trial->input_size =
        size * place_blocks(trial->input_counts, trial->input_firsts, trial->input_blocks, input_gaps, seed);
    trial->output_size = size * place_blocks(trial->output_counts, trial->output_firsts, trial->output_blocks,
                                             output_gaps, other);
    lay_buffers(trial);
    fill_input(trial);
    trial->input_sum = data_checksum(trial->input, trial->input_size);
    if (trial->in_place && trial->output_blocks < trial->input_blocks)
        memcpy(trial->expected, trial->input, trial->input_size);
}

plait_status uneven_make(const struct uneven_trial *trial, plait_comm *comm, plait_work **work)
{
    const struct uneven_call *call = &trial->call;
    const size_t *input_firsts = call->gaps ? trial->input_firsts : NULL;
    const size_t *output_firsts = call->gaps ? trial->output_firsts : NULL;
    /* A buffer of nothing may be NULL. */
    const void *input = trial->input_size > 0 ? trial->input : NULL;
    void *output = trial->output_size > 0 ? trial->output : NULL;
    switch (call->kind) {
    case UNEVEN_ALLGATHER:
        return plait_allgatherv(comm, input, trial->input_counts[0], output, trial->output_counts,
                                output_firsts, call->type, work);
    case UNEVEN_REDUCE_SCATTER:
        return plait_reduce_scatterv(comm, input, output, trial->input_counts, call->type, call->op, work);
    case UNEVEN_GATHER:
        return plait_gatherv(comm, input, trial->input_counts[0], output,
                             trial->output_blocks > 0 ? trial->output_counts : NULL, output_firsts,
                             call->type, call->root, work);
    case UNEVEN_SCATTER:
        return plait_scatterv(comm, input, trial->input_blocks > 0 ? trial->input_counts : NULL, input_firsts,
                              output, trial->output_counts[0], call->type, call->root, work);
    default:
        return plait_alltoallv(comm, input, trial->input_counts, input_firsts, output, trial->output_counts,
                               output_firsts, call->type, work);
    }
}

static bool surroundings_right(const struct uneven_trial *trial, char *why, size_t why_size)
{
    if (!guarded_intact(&trial->input_room) || !guarded_intact(&trial->output_room)) {
        snprintf(why, why_size, "bytes around a buffer were written");
        return false;
    }
    if (!trial->in_place && data_checksum(trial->input, trial->input_size) != trial->input_sum) {
        snprintf(why, why_size, "the input was written");
        return false;
    }
    return true;
}

/* In place within a larger input, all but the output's block must be as before. */
static bool rest_right(const struct uneven_trial *trial, char *why, size_t why_size)
{
    const size_t first = (size_t)(trial->output - trial->input), end = first + trial->output_size;
    if (memcmp(trial->input, trial->expected, first) == 0 &&
        memcmp(trial->input + end, trial->expected + end, trial->input_size - end) == 0)
        return true;
    snprintf(why, why_size, "in place, other blocks of the input were written");
    return false;
}

/* The output as it must be, gaps included. */
static bool blocks_right(const struct uneven_trial *trial, char *why, size_t why_size)
{
    const size_t size = data_size(trial->call.type);
    memset(trial->expected, PATTERN, trial->output_size);
    for (int i = 0; i < trial->output_blocks; i++) {
        const int from = trial->call.kind == UNEVEN_SCATTER ? trial->call.root : i;
        data_fill(&trial->data, from, element_of(trial, trial->me), trial->output_counts[i],
                  trial->expected + trial->output_firsts[i] * size);
    }
    for (size_t i = 0; i < trial->output_size; i++)
        if (trial->output[i] != trial->expected[i]) {
            snprintf(why, why_size, "byte %zu of the output of %zu is wrong", i, trial->output_size);
            return false;
        }
    return true;
}

bool uneven_right(struct uneven_trial *trial, char *why, size_t why_size)
{
    if (!surroundings_right(trial, why, why_size))
        return false;
    if (trial->in_place && trial->output_blocks < trial->input_blocks && !rest_right(trial, why, why_size))
        return false;
    if (trial->call.kind == UNEVEN_REDUCE_SCATTER)
        return data_reduced(&trial->data, trial->ranks, element_of(trial, trial->me), trial->output_counts[0],
                            trial->output, why, why_size);
    return blocks_right(trial, why, why_size);
}

bool uneven_untouched(struct uneven_trial *trial, char *why, size_t why_size)
{
    if (!surroundings_right(trial, why, why_size))
        return false;
    for (size_t i = 0; i < trial->output_size && !trial->in_place; i++)
        if (trial->output[i] != PATTERN) {
            snprintf(why, why_size, "byte %zu of the output was written", i);
            return false;
        }
    return true;
}

bool uneven_run(struct rank *rank, struct uneven_trial *trial, const struct uneven_call *call, bool as_work)
{
    char why[300], what[160];
    snprintf(what, sizeof what, "%s of up to %zu %s, %s, root %d%s%s%s, seed %llu", uneven_name(call->kind),
             call->most, plait_type_name(call->type), plait_op_name(call->op), call->root,
             call->in_place ? ", in place" : "", call->gaps ? ", gaps" : "", as_work ? ", a work" : "",
             (unsigned long long)call->seed);
    rank_doing(rank, "%s", what);
    uneven_prepare(trial, call, plait_comm_rank(rank->comm), plait_comm_size(rank->comm));
    plait_status status;
    if (as_work) {
        plait_work *work = NULL;
        status = uneven_make(trial, rank->comm, &work);
        /* The arrays are read during the call only. */
        size_t counts[2][RANKS_MOST];
        memcpy(counts[0], trial->input_counts, sizeof counts[0]);
        memcpy(counts[1], trial->output_counts, sizeof counts[1]);
        memset(trial->input_counts, 0xff, sizeof counts[0]);
        memset(trial->output_counts, 0xff, sizeof counts[1]);
        if (status == PLAIT_OK)
            status = plait_work_wait(work, -1);
        memcpy(trial->input_counts, counts[0], sizeof counts[0]);
        memcpy(trial->output_counts, counts[1], sizeof counts[1]);
        plait_work_release(work);
    } else {
        status = uneven_make(trial, rank->comm, NULL);
    }
    return rank_ok(rank, status, what) &&
           rank_check(rank, uneven_right(trial, why, sizeof why), "%s (%s): %s", what,
                      plait_comm_last_plan(rank->comm), why);
}
