/* Notices: what rides in them, on all borders of their lines; who is named when calls differ. All ranks
 * are carried out by hand over a board of ordinary memory. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "collectives/execute.h"
#include "collectives/notice.h"
#include "data.h"
#include "ranks.h"

enum { MOST_RANKS = 6 };

struct stage {
    int ranks;
    struct seat seats[MOST_RANKS];
    struct bell bells[MOST_RANKS];
    struct seat *seat_places[MOST_RANKS];
    struct bell *bell_places[MOST_RANKS];
    struct board board;
    struct group groups[MOST_RANKS];
    struct execution executions[MOST_RANKS];
};

static struct stage *make_stage(int ranks)
{
    struct stage *stage = aligned_alloc(128, (sizeof *stage + 127) / 128 * 128);
    memset(stage, 0, sizeof *stage);
    stage->ranks = ranks;
    stage->board = (struct board){ .seats = stage->seat_places, .bells = stage->bell_places };
    for (int rank = 0; rank < ranks; rank++) {
        stage->seat_places[rank] = &stage->seats[rank];
        stage->bell_places[rank] = &stage->bells[rank];
        stage->groups[rank] = (struct group){ .rank = rank,
                                              .ranks = ranks,
                                              .board = &stage->board,
                                              .looks = 1,
                                              .forced_plan = "auto",
                                              .facts = { .ranks = ranks, .windows = true },
                                              .sources = malloc((size_t)ranks * sizeof(void *)),
                                              .gathered = malloc((size_t)ranks * NOTICE_BYTES) };
    }
    return stage;
}

static void free_stage(struct stage *stage)
{
    for (int rank = 0; rank < stage->ranks; rank++)
        group_clear(&stage->groups[rank]);
    free(stage);
}

/* Runs what has begun on all ranks, in an order that `random` draws. */
static void run(struct stage *stage, uint64_t random)
{
    int left = stage->ranks;
    for (int tries = 0; left > 0; tries++) {
        assert_true(tries < 100000);
        struct execution *execution =
            &stage->executions[mix(random + (uint64_t)tries) % (uint64_t)stage->ranks];
        if (execution->phase != PHASE_DONE && execution_advance(execution) != PLAIT_IN_PROGRESS)
            left--;
    }
}

/* ---------------------------------------------------------------- what they carry */

static const struct {
    enum collective kind;
    int ranks;
    plait_type type;
    size_t count;
    bool carried;
    size_t size;
} fits[] = {
    { COLLECTIVE_BARRIER, 1000, 0, 0, true, 0 },
    { COLLECTIVE_ALLREDUCE, 1000, PLAIT_F32, 0, true, 0 },
    { COLLECTIVE_ALLREDUCE, 1000, PLAIT_U8, NOTICE_BYTES, true, NOTICE_BYTES },
    { COLLECTIVE_ALLREDUCE, 2, PLAIT_U8, NOTICE_BYTES + 1, false, 0 },
    { COLLECTIVE_BROADCAST, 2, PLAIT_F64, NOTICE_BYTES / 8, true, NOTICE_BYTES / 8 * 8 },
    { COLLECTIVE_BROADCAST, 2, PLAIT_F64, NOTICE_BYTES / 8 + 1, false, 0 },
    { COLLECTIVE_ALLTOALL, 4, PLAIT_U8, NOTICE_BYTES / 4, true, NOTICE_BYTES / 4 * 4 },
    { COLLECTIVE_ALLTOALL, 4, PLAIT_U8, NOTICE_BYTES / 4 + 1, false, 0 },
    { COLLECTIVE_SCATTER, 1000, PLAIT_U8, 1, false, 0 },
    { COLLECTIVE_REDUCE_SCATTER, 1000, PLAIT_U8, 0, true, 0 },
    { COLLECTIVE_ALLREDUCE, 2, PLAIT_F64, (size_t)1 << 61, false, 0 },  /* bytes that overflow to 0 */
    { COLLECTIVE_ALLTOALL, 1024, PLAIT_U8, (size_t)1 << 54, false, 0 }, /* likewise */
};

static void what_fits_is_carried(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(fits); i++) {
        struct group group = { .ranks = fits[i].ranks };
        struct call call = { .kind = fits[i].kind, .type = fits[i].type, .count = fits[i].count };
        size_t size = 0;
        assert_int_equal(notice_carries(&group, &call, &size), fits[i].carried);
        if (fits[i].carried)
            assert_int_equal(size, fits[i].size);
    }
}

/* Bytes that a rank contributes: round the border of each line. */
static const size_t sizes[] = { 0, 1, 7, 8, 9, 39, 40, 41, 95, 96, 97, 151, 152, 153, 208, 209, 263, 264 };

/* One operation, its output in `outputs`. Inputs are data of the ranks. */
static void carry(struct stage *stage, enum collective kind, size_t count, int root, uint64_t random,
                  unsigned char (*outputs)[MOST_RANKS * NOTICE_BYTES])
{
    static unsigned char inputs[MOST_RANKS][NOTICE_BYTES];
    struct data data = { .type = PLAIT_U8, .op = PLAIT_SUM, .seed = random };
    for (int rank = 0; rank < stage->ranks; rank++) {
        size_t in = (size_t)collective_input_blocks(kind, stage->ranks, root, rank) * count;
        bool takes = collective_output_blocks(kind, stage->ranks, root, rank) > 0;
        struct call call = { .kind = kind, .type = PLAIT_U8, .op = PLAIT_SUM, .root = root, .count = count };
        data_fill(&data, rank, 0, in, inputs[rank]);
        memset(outputs[rank], 0xcc, sizeof outputs[rank]);
        call.input = in > 0 ? inputs[rank] : NULL;
        call.output = takes ? outputs[rank] : NULL;
        if (kind == COLLECTIVE_BROADCAST && rank == root)
            memcpy(outputs[rank], inputs[rank], in);
        assert_int_equal(execution_begin(&stage->executions[rank], &stage->groups[rank], &call), PLAIT_OK);
        assert_null(stage->executions[rank].program);
    }
    run(stage, random);
}

static void every_border_is_carried(void **state)
{
    (void)state;
    static unsigned char outputs[MOST_RANKS][MOST_RANKS * NOTICE_BYTES];
    char why[200];
    size_t wrong;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        struct stage *stage = make_stage(ranks);
        for (uint64_t i = 0; i < 20 * LENGTH(sizes); i++) {
            uint64_t random = mix(i * 100 + (uint64_t)ranks);
            size_t size = sizes[i % LENGTH(sizes)], count = size / (size_t)ranks;
            struct data data = { .type = PLAIT_U8, .op = PLAIT_SUM, .seed = random };
            int root = (int)(random % (uint64_t)ranks);
            switch (random >> 32 & 3) {
            case 0:
                carry(stage, COLLECTIVE_ALLREDUCE, size, 0, random, outputs);
                for (int rank = 0; rank < ranks; rank++)
                    assert_true(data_reduced(&data, ranks, 0, size, outputs[rank], why, sizeof why));
                break;
            case 1:
                carry(stage, COLLECTIVE_ALLTOALL, count, 0, random, outputs);
                for (int rank = 0; rank < ranks; rank++)
                    for (int peer = 0; peer < ranks; peer++)
                        assert_true(data_equal(&data, peer, (size_t)rank * count, count,
                                               outputs[rank] + (size_t)peer * count, &wrong));
                break;
            case 2:
                carry(stage, COLLECTIVE_GATHER, size, root, random, outputs);
                for (int peer = 0; peer < ranks; peer++)
                    assert_true(
                        data_equal(&data, peer, 0, size, outputs[root] + (size_t)peer * size, &wrong));
                break;
            default:
                carry(stage, COLLECTIVE_SCATTER, count, root, random, outputs);
                for (int rank = 0; rank < ranks; rank++)
                    assert_true(data_equal(&data, root, (size_t)rank * count, count, outputs[rank], &wrong));
                break;
            }
        }
        free_stage(stage);
    }
}

/* ------------------------------------------------------------------ calls that differ */

static const struct {
    const char *calls; /* a letter for the call that each rank makes */
    int odd;           /* who is named */
} parties[] = {
    { "AB", 1 },     { "ABB", 0 },    { "BAB", 1 },    { "BBA", 2 },    { "ABC", 1 },
    { "AABB", 2 },   { "ABBA", 1 },   { "ABBB", 0 },   { "AAAAAB", 5 }, { "BAAAAA", 0 },
    { "ABABAB", 1 }, { "ABCCAB", 1 }, { "ABCDEF", 1 },
};

/* All ranks name the same one, nothing is written, and the next call is carried. */
static void all_name_the_same_odd_rank(void **state)
{
    (void)state;
    static unsigned char outputs[MOST_RANKS][MOST_RANKS * NOTICE_BYTES], input[NOTICE_BYTES];
    for (size_t i = 0; i < LENGTH(parties); i++) {
        for (uint64_t random = 0; random < 10; random++) {
            struct stage *stage = make_stage((int)strlen(parties[i].calls));
            memset(outputs, 0xcc, sizeof outputs);
            for (int rank = 0; rank < stage->ranks; rank++) {
                struct call call = { .kind = COLLECTIVE_ALLGATHER,
                                     .type = PLAIT_U8,
                                     .count = (size_t)(parties[i].calls[rank] - 'A') * 50,
                                     .input = input,
                                     .output = outputs[rank] };
                assert_int_equal(execution_begin(&stage->executions[rank], &stage->groups[rank], &call),
                                 PLAIT_OK);
            }
            run(stage, random * 1000 + i);
            for (int rank = 0; rank < stage->ranks; rank++) {
                assert_int_equal(stage->executions[rank].status, PLAIT_MISMATCH);
                assert_int_equal(stage->executions[rank].waiting, parties[i].odd);
                for (size_t j = 0; j < sizeof outputs[rank]; j++)
                    assert_int_equal(outputs[rank][j], 0xcc);
            }
            carry(stage, COLLECTIVE_BARRIER, 0, 0, random, outputs);
            carry(stage, COLLECTIVE_ALLGATHER, 44, 0, random, outputs);
            for (int rank = 0; rank < stage->ranks; rank++)
                assert_int_equal(stage->executions[rank].status, PLAIT_OK);
            free_stage(stage);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_carried),
        cmocka_unit_test(every_border_is_carried),
        cmocka_unit_test(all_name_the_same_odd_rank),
    };
    return cmocka_run_group_tests_name("notice", tests, NULL, NULL);
}
