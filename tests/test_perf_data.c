/* plait-perf's data and check: right results pass, wrong ones don't, whatever the collective. */
#include <stdlib.h>
#include <string.h>

#include "../bench/collectives.h"
#include "../bench/data.h"
#include "check.h"
#include "device/reduce.h"

enum { RANKS_MOST = 5, SEED = 1 };

/* The ranks of one operation, all in this process. */
struct group {
    struct call calls[RANKS_MOST];
    unsigned char *inputs[RANKS_MOST], *outputs[RANKS_MOST];
    uint64_t keys[RANKS_MOST];
    int ranks;
    size_t block; /* bytes */
};

static void make_group(struct group *group, const struct call *like, uint64_t check)
{
    *group = (struct group){ .ranks = like->ranks, .block = like->count * plait_type_size(like->type) };
    size_t whole = group->block * (size_t)group->ranks + 1;
    data_keys(SEED, check, group->ranks, group->keys);
    for (int rank = 0; rank < group->ranks; rank++) {
        struct call *call = &group->calls[rank];
        *call = *like;
        call->rank = rank;
        call->input = group->inputs[rank] = malloc(whole);
        call->output = group->outputs[rank] = calloc(1, whole);
        data_fill(call->input, collective_input_count(call), call->type, call->op, group->keys[rank]);
    }
}

static void free_group(struct group *group)
{
    for (int rank = 0; rank < group->ranks; rank++) {
        free(group->inputs[rank]);
        free(group->outputs[rank]);
    }
}

/* `count` elements from `first` on of all inputs, reduced. */
static void reduce_into(struct group *group, unsigned char *to, size_t first, size_t count)
{
    const struct call *call = &group->calls[0];
    const void *sources[RANKS_MOST];
    for (int rank = 0; rank < group->ranks; rank++)
        sources[rank] = group->inputs[rank] + first * plait_type_size(call->type);
    struct reduction reduction = {
        .result = to, .sources = sources, .source_count = group->ranks, .count = count
    };
    if (call->op == PLAIT_AVERAGE)
        reduction.divide = (unsigned)group->ranks;
    reduce_reference(call->type, call->op)(&reduction);
}

/* Where block `index` of a v-form's whole begins, if block r weighs r + 1. */
static size_t uneven(const struct call *call, size_t index)
{
    size_t ranks = (size_t)call->ranks, weights = ranks * (ranks + 1) / 2, before = index * (index + 1) / 2;
    return call->count * ranks * before / weights;
}

/* Elements that all-to-all's v-form moves between two ranks, and where they lie in the buffers of `rank`. */
static size_t exchanged(const struct call *call, size_t a, size_t b)
{
    size_t block = (a + b) % (size_t)call->ranks;
    return uneven(call, block + 1) - uneven(call, block);
}

static size_t exchanged_at(const struct call *call, size_t rank, size_t peer)
{
    return peer == 0 ? 0 : exchanged_at(call, rank, peer - 1) + exchanged(call, rank, peer - 1);
}

static void carry_out_uneven(struct group *group, int rank)
{
    const struct call *call = &group->calls[rank];
    const char *name = call->collective->name;
    unsigned char *to = group->outputs[rank];
    size_t own = (size_t)rank, size = plait_type_size(call->type);
    size_t first = uneven(call, own), count = uneven(call, own + 1) - first;
    if (strcmp(name, "reduce_scatter_v") == 0)
        reduce_into(group, to, first, count);
    else if (strcmp(name, "scatter_v") == 0)
        memcpy(to, group->inputs[call->root] + first * size, count * size);
    for (size_t from = 0; from < (size_t)group->ranks; from++) {
        size_t at = uneven(call, from), length = uneven(call, from + 1) - at;
        if (strcmp(name, "all_gather_v") == 0 || (strcmp(name, "gather_v") == 0 && rank == call->root))
            memcpy(to + at * size, group->inputs[from], length * size);
        else if (strcmp(name, "all_to_all_v") == 0)
            memcpy(to + exchanged_at(call, own, from) * size,
                   group->inputs[from] + exchanged_at(call, from, own) * size,
                   exchanged(call, own, from) * size);
    }
}

/* What each collective means, once more and by hand. */
static void carry_out(struct group *group, int rank)
{
    const struct call *call = &group->calls[rank];
    const char *name = call->collective->name;
    unsigned char *to = group->outputs[rank];
    size_t own = (size_t)rank;
    if (strcmp(name, "all_reduce") == 0 || (strcmp(name, "reduce") == 0 && rank == call->root))
        reduce_into(group, to, 0, call->count);
    else if (strcmp(name, "reduce_scatter") == 0)
        reduce_into(group, to, own * call->count, call->count);
    else if (strcmp(name, "broadcast") == 0)
        memcpy(to, group->inputs[call->root], group->block);
    else if (strcmp(name, "scatter") == 0)
        memcpy(to, group->inputs[call->root] + own * group->block, group->block);
    else if (strcmp(name, "sendrecv") == 0)
        memcpy(to, group->inputs[(rank + group->ranks - 1) % group->ranks], group->block);
    for (size_t from = 0; from < (size_t)group->ranks; from++) {
        if (strcmp(name, "all_gather") == 0 || (strcmp(name, "gather") == 0 && rank == call->root))
            memcpy(to + from * group->block, group->inputs[from], group->block);
        else if (strcmp(name, "all_to_all") == 0)
            memcpy(to + from * group->block, group->inputs[from] + own * group->block, group->block);
    }
}

/* A right output passes; with a bit of one element turned over, that element is found. */
static void check_rank(struct group *group, int rank, uint64_t variant)
{
    const struct call *call = &group->calls[rank];
    size_t total = collective_output_count(call), size = plait_type_size(call->type);
    if (call->collective->uneven)
        carry_out_uneven(group, rank);
    else
        carry_out(group, rank);
    struct tally tally = data_check(call, group->keys);
    assert_int_equal(tally.checked, total);
    assert_int_equal(tally.wrong, 0);
    if (total == 0)
        return;
    size_t spoilt = variant % total;
    group->outputs[rank][(spoilt + 1) * size - 1] ^= 0x40;
    tally = data_check(call, group->keys);
    assert_int_equal(tally.wrong, 1);
    assert_int_equal(tally.first, spoilt);
}

static void check_call(const struct call *call)
{
    static uint64_t variant;
    struct group group;
    make_group(&group, call, ++variant);
    for (int rank = 0; rank < group.ranks; rank++)
        check_rank(&group, rank, variant);
    free_group(&group);
}

static void check_types_and_ops(const struct collective *collective, int ranks, size_t count)
{
    for (plait_type type = PLAIT_I8; type <= PLAIT_I64_I64; type++) {
        for (plait_op op = PLAIT_SUM; op <= (collective->reduces ? PLAIT_MAX_LOCATION : PLAIT_SUM); op++) {
            if (collective->reduces && !plait_type_reduces(type, op))
                continue;
            struct call call = { .collective = collective,
                                 .ranks = ranks,
                                 .root = ranks - 1,
                                 .count = count,
                                 .type = type,
                                 .op = collective->reduces ? op : (plait_op)0 };
            check_call(&call);
        }
    }
}

static void right_passes_and_wrong_is_found(void **state)
{
    const struct collective *collective = *state;
    static const size_t counts[] = { 0, 1, 2, 37 };
    for (int ranks = collective->least_ranks; ranks <= RANKS_MOST; ranks++)
        for (size_t i = 0; i < LENGTH(counts); i++)
            check_types_and_ops(collective, ranks, counts[i]);
}

/* Too many elements for all to be checked: those at the borders are. */
static void large_results_are_checked_at_borders(void **state)
{
    (void)state;
    const size_t count = DATA_CHECK_ALL + 3 * DATA_RUN + 1;
    const size_t spoilt[] = { 0, 3, DATA_RUN - 1, DATA_RUN, count / 3, count / 3 * 2 - 1, count - 1 };
    struct call call = { .collective = collective_find("all_reduce"),
                         .ranks = 3,
                         .count = count,
                         .type = PLAIT_U8,
                         .op = PLAIT_SUM };
    struct group group;
    make_group(&group, &call, 0);
    carry_out(&group, 1);
    struct tally tally = data_check(&group.calls[1], group.keys);
    assert_int_equal(tally.wrong, 0);
    assert_in_range(tally.checked, count / DATA_RUN * 16, count / 32);
    for (size_t i = 0; i < LENGTH(spoilt); i++) {
        group.outputs[1][spoilt[i]] ^= 1;
        tally = data_check(&group.calls[1], group.keys);
        assert_true(tally.wrong > 0);
        assert_int_equal(tally.first, spoilt[i]);
        group.outputs[1][spoilt[i]] ^= 1;
    }
    free_group(&group);
}

static void a_result_left_over_is_wrong(void **state)
{
    (void)state;
    struct call call = {
        .collective = collective_find("all_gather"), .ranks = 2, .count = 100, .type = PLAIT_F32
    };
    struct group group;
    make_group(&group, &call, 7);
    carry_out(&group, 0);
    data_keys(SEED, 8, group.ranks, group.keys);
    assert_true(data_check(&group.calls[0], group.keys).wrong > 190);
    free_group(&group);
}

static void a_nan_is_wrong(void **state)
{
    (void)state;
    const uint16_t nan = 0x7e00;
    struct call call = { .collective = collective_find("all_reduce"),
                         .ranks = 2,
                         .count = 4,
                         .type = PLAIT_F16,
                         .op = PLAIT_SUM };
    struct group group;
    make_group(&group, &call, 1);
    carry_out(&group, 0);
    memcpy(group.outputs[0] + 4, &nan, sizeof nan);
    assert_int_equal(data_check(&group.calls[0], group.keys).wrong, 1);
    free_group(&group);
}

/* The last bit of a float32 sum of two is within what rounding can do; the fourth is not. */
static void tolerance_is_a_few_roundings(void **state)
{
    (void)state;
    struct call call = { .collective = collective_find("all_reduce"),
                         .ranks = 2,
                         .count = 64,
                         .type = PLAIT_F32,
                         .op = PLAIT_SUM };
    struct group group;
    make_group(&group, &call, 1);
    carry_out(&group, 0);
    for (size_t i = 0; i < call.count; i++)
        group.outputs[0][4 * i] ^= 1;
    assert_int_equal(data_check(&group.calls[0], group.keys).wrong, 0);
    for (size_t i = 0; i < call.count; i++)
        group.outputs[0][4 * i + 1] ^= 4;
    assert_true(data_check(&group.calls[0], group.keys).wrong > 48);
    free_group(&group);
}

static void names_are_found_however_written(void **state)
{
    (void)state;
    static const char *const names[] = { "all_reduce", "allreduce", "all-reduce", "AllReduce", "ALL_REDUCE" };
    for (size_t i = 0; i < LENGTH(names); i++)
        assert_ptr_equal(collective_find(names[i]), collective_at(0));
    assert_null(collective_find("all_reduc"));
    assert_null(collective_find("all_reduces"));
    assert_null(collective_find(""));
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(large_results_are_checked_at_borders),
        cmocka_unit_test(a_result_left_over_is_wrong),
        cmocka_unit_test(a_nan_is_wrong),
        cmocka_unit_test(tolerance_is_a_few_roundings),
        cmocka_unit_test(names_are_found_however_written),
    };
    struct CMUnitTest tests[16 + LENGTH(others)];
    size_t count = 0;
    for (size_t i = 0; i < 16 && collective_at(i); i++)
        if (collective_at(i)->output != NO_DATA)
            tests[count++] = (struct CMUnitTest){ .name = collective_at(i)->name,
                                                  .test_func = right_passes_and_wrong_is_found,
                                                  .initial_state = (void *)(uintptr_t)collective_at(i) };
    memcpy(tests + count, others, sizeof others);
    return check_run("perf data", tests, count + LENGTH(others));
}
