/* bench/compare's data and check: what each collective means passes, one wrong element does not. */
#include <stdlib.h>
#include <string.h>

#include "../bench/compare/check.h"
#include "../bench/compare/line.h"
#include "check.h"

enum { RANKS_MOST = 16 };

/* All ranks of one call, in this process. */
struct group {
    struct call calls[RANKS_MOST];
    unsigned char *outputs[RANKS_MOST], *inputs[RANKS_MOST];
    int ranks;
    size_t block, whole; /* bytes */
};

static void make_group(struct group *group, const struct call *like, int ranks)
{
    size_t block = like->count * type_size(like->type);
    *group = (struct group){ .ranks = ranks, .block = block, .whole = block * (size_t)ranks };
    for (int rank = 0; rank < ranks; rank++) {
        group->outputs[rank] = malloc(group->whole + 1);
        group->inputs[rank] = malloc(group->whole + 1);
        group->calls[rank] = *like;
        group->calls[rank].output = group->outputs[rank];
        group->calls[rank].input =
            like->collective == ALL_TO_ALL ? group->inputs[rank] : group->outputs[rank];
        check_fill(&group->calls[rank], rank, ranks);
    }
}

static void free_group(struct group *group)
{
    for (int rank = 0; rank < group->ranks; rank++) {
        free(group->outputs[rank]);
        free(group->inputs[rank]);
    }
}

static float load(enum type type, const unsigned char *from)
{
    uint32_t bits = 0;
    if (type == FLOAT32)
        memcpy(&bits, from, sizeof bits);
    else
        memcpy((unsigned char *)&bits + 2, from, 2);
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void store(enum type type, float number, unsigned char *to)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (type == FLOAT32)
        memcpy(to, &bits, sizeof bits);
    else
        memcpy(to, (unsigned char *)&bits + 2, 2);
}

/* The sum over all ranks, into all of them. */
static void sum_all(struct group *group, size_t size)
{
    enum type type = group->calls[0].type;
    for (size_t at = 0; at < size; at += type_size(type)) {
        float sum = 0;
        for (int rank = 0; rank < group->ranks; rank++)
            sum += load(type, group->outputs[rank] + at);
        for (int rank = 0; rank < group->ranks; rank++)
            store(type, sum, group->outputs[rank] + at);
    }
}

/* What each collective means, by hand. */
static void carry_out(struct group *group)
{
    const struct call *call = &group->calls[0];
    size_t block = group->block;
    if (call->collective == ALL_REDUCE)
        sum_all(group, block);
    if (call->collective == REDUCE_SCATTER)
        sum_all(group, group->whole);
    for (int to = 0; to < group->ranks; to++)
        for (int from = 0; from < group->ranks; from++) {
            if (call->collective == ALL_GATHER && from != to)
                memcpy(group->outputs[to] + block * (size_t)from, group->outputs[from] + block * (size_t)from,
                       block);
            if (call->collective == ALL_TO_ALL)
                memcpy(group->outputs[to] + block * (size_t)from, group->inputs[from] + block * (size_t)to,
                       block);
            if (call->collective == BROADCAST && to != call->root && from == call->root)
                memcpy(group->outputs[to], group->outputs[from], block);
        }
}

/* Where the result of `rank` lies, and how long it is. */
static unsigned char *result_of(struct group *group, int rank, size_t *size)
{
    enum collective collective = group->calls[rank].collective;
    *size = collective == ALL_GATHER || collective == ALL_TO_ALL ? group->whole : group->block;
    return group->outputs[rank] + (collective == REDUCE_SCATTER ? group->block * (size_t)rank : 0);
}

static const struct {
    enum type type;
    size_t count;
    int ranks;
} shapes[] = {
    { FLOAT32, 1, 2 },    { FLOAT32, 3, 3 },    { FLOAT32, 1393, 2 },  { FLOAT32, 5000, 4 },
    { BFLOAT16, 1, 2 },   { BFLOAT16, 7, 5 },   { BFLOAT16, 1394, 3 }, { BFLOAT16, 4001, RANKS_MOST },
    { FLOAT32, 1000, 1 }, { BFLOAT16, 199, 8 },
};

static void right_answers_pass_and_wrong_ones_do_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(shapes); i++)
        for (enum collective collective = ALL_REDUCE; collective < BARRIER; collective++) {
            struct call like = { .collective = collective,
                                 .type = shapes[i].type,
                                 .count = shapes[i].count,
                                 .root = shapes[i].ranks - 1 };
            struct group group;
            make_group(&group, &like, shapes[i].ranks);
            carry_out(&group);
            for (int rank = 0; rank < group.ranks; rank++) {
                size_t size;
                unsigned char *result = result_of(&group, rank, &size);
                const struct call *call = &group.calls[rank];
                assert_true(check_output(call, result, rank, group.ranks));
                const size_t places[] = { 0, size / 2, size - 1 };
                for (size_t place = 0; place < LENGTH(places); place++) {
                    result[places[place]] ^= 1;
                    assert_false(check_output(call, result, rank, group.ranks));
                    result[places[place]] ^= 1;
                }
            }
            free_group(&group);
        }
}

/* A collective that does nothing must not pass. */
static void untouched_buffers_do_not_pass(void **state)
{
    (void)state;
    for (enum collective collective = ALL_REDUCE; collective < BARRIER; collective++) {
        struct call like = { .collective = collective, .type = FLOAT32, .count = 64, .root = 1 };
        struct group group;
        make_group(&group, &like, 2);
        size_t size;
        unsigned char *result = result_of(&group, 0, &size);
        assert_false(check_output(&group.calls[0], result, 0, 2));
        free_group(&group);
    }
}

static void a_line_between_a_core_and_itself_costs_nothing(void **state)
{
    (void)state;
    assert_true(line_cost(0, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_answers_pass_and_wrong_ones_do_not),
        cmocka_unit_test(untouched_buffers_do_not_pass),
        cmocka_unit_test(a_line_between_a_core_and_itself_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
