/* The executor: all ranks of a group carried out by hand on one thread, over real boards and mailboxes,
 * in orders drawn from a seed. Staging is small, so that the ring comes round all the time; ranks run
 * ahead of each other as far as the executor lets them; some calls differ between ranks.
 * PLAIT_TEST_SEED sets the seed, which is printed when something is wrong. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collective.h"
#include "base/status.h"
#include "collectives/execute.h"
#include "collectives/staging.h"
#include "data.h"
#include "ranks.h"

enum { MOST_RANKS = 9, OPERATIONS = 60, PATTERN = 0xa5 };

/* How a row's group and calls are drawn. */
struct row {
    const char *name;
    int ranks;
    const char *plan; /* forced, or "auto" */
    size_t staging;   /* bytes; 0: a seat's, then a lane */
    size_t most;      /* elements of a block */
    size_t target;    /* bytes of a chunk; 0: the program's own */
    enum stores stores;
    bool board;     /* false: everything goes by messages */
    int mismatches; /* of a hundred calls */
};

/* One call, the same for all ranks but for `odd`. */
struct operation {
    struct call call;
    uint64_t seed;
    int odd; /* the rank that makes another call; -1: none */
    bool in_place;
};

struct actor {
    int rank;
    struct endpoint *endpoint;
    struct group group;
    int next; /* operation */
    bool runs;
    struct execution execution;
    unsigned char *input, *output, *before;
    size_t input_size, output_size;
};

struct stage {
    const struct row *row;
    uint64_t seed, drawn;
    int world_ranks[MOST_RANKS];
    struct actor actors[MOST_RANKS];
    struct operation operations[OPERATIONS];
};

static uint64_t draw(struct stage *stage)
{
    return mix(stage->seed * 1000003 + ++stage->drawn);
}

/* ------------------------------------------------------------------- set-up */

static void open_endpoints(struct stage *stage)
{
    int ranks = stage->row->ranks;
    static unsigned char blobs[MOST_RANKS][TRANSPORT_BLOB_BYTES];
    static const unsigned char key[32];
    struct peer peers[MOST_RANKS];
    for (int rank = 0; rank < ranks; rank++) {
        struct endpoint_setup setup = { .rank = rank, .size = ranks, .lane_size = 64 << 10 };
        stage->actors[rank].rank = rank;
        assert_int_equal(transport_inproc.open(&setup, &stage->actors[rank].endpoint, blobs[rank]), PLAIT_OK);
        peers[rank] = (struct peer){ .rank = rank, .pid = 1, .blob = blobs[rank] };
    }
    for (int rank = 0; rank < ranks; rank++)
        assert_int_equal(
            transport_inproc.connect(stage->actors[rank].endpoint, peers, ranks, 1, key, INT64_MAX),
            PLAIT_OK);
}

static void make_group(struct stage *stage, struct actor *actor)
{
    const struct row *row = stage->row;
    struct group *group = &actor->group;
    size_t ranks = (size_t)row->ranks;
    assert_int_equal(transport_inproc.channel_open(actor->endpoint, 0), PLAIT_OK);
    struct board *board = transport_inproc.board(actor->endpoint, 0, stage->world_ranks, row->ranks);
    assert_non_null(board);
    *group =
        (struct group){ .rank = actor->rank,
                        .ranks = row->ranks,
                        .world_ranks = stage->world_ranks,
                        .transport = &transport_inproc,
                        .endpoint = actor->endpoint,
                        .context = 77,
                        .number = 1000,
                        .uncounted = 1000,
                        .board = row->board ? board : NULL,
                        .stores = row->stores,
                        .streamed = row->stores == STORES_STREAMED,
                        .facts = { .ranks = row->ranks, .cores = 2, .line_ns = 60, .windows = row->board },
                        .forced_plan = row->plan,
                        .prove = true,
                        .looks = 1,
                        .stream_above = 5000,
                        .sources = malloc(ranks * sizeof(void *)),
                        .gathered = malloc(ranks * NOTICE_BYTES) };
    if (row->staging == 0) {
        assert_int_equal(staging_find(group, 1), PLAIT_OK);
        return;
    }
    group->staging.base = calloc(ranks, sizeof(unsigned char *));
    group->staging.size = row->staging;
    for (size_t rank = 0; rank < ranks; rank++)
        group->staging.base[rank] = board->staging[rank];
    if (!row->board)
        board_free(board);
}

static void draw_operations(struct stage *stage)
{
    const struct row *row = stage->row;
    for (int i = 0; i < OPERATIONS; i++) {
        struct operation *operation = &stage->operations[i];
        struct call *call = &operation->call;
        size_t most = draw(stage) % 4 == 0 ? 12 : draw(stage) % 3 == 0 ? 150 : row->most;
        call->kind = (enum collective)(draw(stage) % COLLECTIVES);
        bool barrier = call->kind == COLLECTIVE_BARRIER;
        data_choose(draw(stage), collective_reduces(call->kind), &call->type, &call->op);
        if (barrier)
            call->type = 0;
        if (!collective_reduces(call->kind))
            call->op = 0;
        if (collective_scans(call->kind) && call->op == PLAIT_AVERAGE)
            call->op = PLAIT_SUM;
        call->root = collective_has_root(call->kind) ? (int)(draw(stage) % (uint64_t)row->ranks) : 0;
        call->count = barrier ? 0 : draw(stage) % most;
        operation->seed = draw(stage);
        operation->in_place = draw(stage) % 2 == 0;
        operation->odd = row->board && (int)(draw(stage) % 100) < row->mismatches
                             ? (int)(draw(stage) % (uint64_t)row->ranks)
                             : -1;
    }
}

/* The call as `rank` makes it. */
static struct call call_of(const struct stage *stage, const struct operation *operation, int rank)
{
    struct call call = operation->call;
    if (rank != operation->odd)
        return call;
    switch (operation->seed % 3) {
    case 0: /* of another size class, so that it goes another way */
        call.count = call.count > 100 ? call.count % 4 : call.count + stage->row->most;
        if (call.kind == COLLECTIVE_BARRIER)
            call = (struct call){ .kind = COLLECTIVE_ALLGATHER, .type = PLAIT_F32, .count = 1000 };
        break;
    case 1:
        call =
            (struct call){ .kind = call.kind == COLLECTIVE_BARRIER ? COLLECTIVE_ALLTOALL : COLLECTIVE_BARRIER,
                           .type = call.kind == COLLECTIVE_BARRIER ? PLAIT_U8 : 0,
                           .count = call.kind == COLLECTIVE_BARRIER ? stage->row->most / 2 : 0 };
        break;
    default:
        call.count += 1;
        if (call.kind == COLLECTIVE_BARRIER)
            call = (struct call){ .kind = COLLECTIVE_BROADCAST, .type = PLAIT_F64, .count = 7 };
        break;
    }
    return call;
}

/* ------------------------------------------------------------- one rank's turn */

static struct data data_of(const struct operation *operation, const struct call *call)
{
    return (struct data){ .type = call->type, .op = call->op, .seed = operation->seed };
}

static void begin(struct stage *stage, struct actor *actor)
{
    const struct operation *operation = &stage->operations[actor->next];
    struct call call = call_of(stage, operation, actor->rank);
    size_t block = call.count * plait_type_size(call.type), rank = (size_t)actor->rank;
    int ranks = stage->row->ranks;
    size_t in = (size_t)collective_input_blocks(call.kind, ranks, call.root, actor->rank) * block;
    size_t out = (size_t)collective_output_blocks(call.kind, ranks, call.root, actor->rank) * block;
    bool in_place = (operation->in_place && in > 0 && out > 0) || call.kind == COLLECTIVE_BROADCAST;

    /* One buffer; of its own size, so that a sanitizer sees what goes beyond. */
    actor->input_size = in;
    actor->output_size = out;
    actor->output = malloc(out + 1);
    memset(actor->output, PATTERN, out + 1);
    actor->input = malloc(in + 1);
    unsigned char *from = actor->input, *to = actor->output;
    if (in_place && out >= in)
        from = to + (call.kind == COLLECTIVE_ALLGATHER || call.kind == COLLECTIVE_GATHER ? rank * block : 0);
    else if (in_place)
        to = from + rank * block; /* reduce-scatter and scatter: the output lies in the input */
    if (in > 0) {
        struct data data = data_of(operation, &call);
        data_fill(&data, actor->rank, 0, in / plait_type_size(call.type), from);
    }
    actor->before = malloc(out + 1);
    memcpy(actor->before, to, out);
    call.input = in > 0 ? from : NULL;
    call.output = out > 0 ? to : NULL;

    plait_status status = PLAIT_OK;
    if (stage->row->target > 0 && call.kind != COLLECTIVE_BARRIER) {
        const struct program *program = program_for(&actor->group, &call, &status);
        if (program != NULL)
            ((struct program *)(uintptr_t)program)->target = stage->row->target;
    }
    status = execution_begin(&actor->execution, &actor->group, &call);
    if (status != PLAIT_OK)
        fail_msg("seed %llu, operation %d, rank %d: %s", (unsigned long long)stage->seed, actor->next,
                 actor->rank, failure_text());
    actor->runs = true;
}

/* Is the output right? */
static bool is_right(const struct stage *stage, const struct actor *actor, char *why, size_t why_size)
{
    const struct operation *operation = &stage->operations[actor->next];
    const struct call *call = &actor->execution.call;
    struct data data = data_of(operation, call);
    size_t count = call->count, element = plait_type_size(call->type), rank = (size_t)actor->rank, wrong = 0;
    int ranks = stage->row->ranks;
    const unsigned char *output = call->output;
    bool right = true;
    if (output == NULL)
        return true;
    snprintf(why, why_size, "a wrong element");
    switch (call->kind) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE: return data_reduced(&data, ranks, 0, count, output, why, why_size);
    case COLLECTIVE_REDUCE_SCATTER:
        return data_reduced(&data, ranks, rank * count, count, output, why, why_size);
    case COLLECTIVE_SCAN: return data_reduced(&data, (int)rank + 1, 0, count, output, why, why_size);
    case COLLECTIVE_EXSCAN: return data_reduced(&data, (int)rank, 0, count, output, why, why_size);
    case COLLECTIVE_BROADCAST: return data_equal(&data, call->root, 0, count, output, &wrong);
    case COLLECTIVE_SCATTER: return data_equal(&data, call->root, rank * count, count, output, &wrong);
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLTOALL:
        for (int peer = 0; peer < ranks; peer++)
            right &= data_equal(&data, peer, call->kind == COLLECTIVE_ALLTOALL ? rank * count : 0, count,
                                output + (size_t)peer * count * element, &wrong);
        return right;
    default: return true;
    }
}

static void finish(struct stage *stage, struct actor *actor, plait_status status)
{
    const struct operation *operation = &stage->operations[actor->next];
    plait_status wanted = operation->odd >= 0 && stage->row->ranks > 1 ? PLAIT_MISMATCH : PLAIT_OK;
    char why[300] = "", text[CALL_TEXT_BYTES];
    call_describe(&actor->execution.call, text);
    bool right = status == wanted;
    if (!right)
        snprintf(why, sizeof why, "%s, not %s: %s", plait_status_name(status), plait_status_name(wanted),
                 failure_text());
    else if (status == PLAIT_OK)
        right = is_right(stage, actor, why, sizeof why);
    else
        right = actor->execution.call.output == NULL ||
                memcmp(actor->execution.call.output, actor->before, actor->output_size) == 0;
    if (!right)
        fail_msg("seed %llu, operation %d, rank %d, %s by %s: %s", (unsigned long long)stage->seed,
                 actor->next, actor->rank, text,
                 atomic_load(&actor->group.last_plan) == NULL ? "?" : actor->group.last_plan,
                 why[0] != '\0' ? why : "an output was touched");
    free(actor->input);
    free(actor->output);
    free(actor->before);
    actor->input = actor->output = actor->before = NULL;
    actor->runs = false;
    actor->next++;
}

/* True if something came of it. */
static bool turn(struct stage *stage, struct actor *actor)
{
    if (!actor->runs) {
        if (actor->next == OPERATIONS)
            return transport_inproc.progress(actor->endpoint);
        begin(stage, actor);
    }
    bool moved = transport_inproc.progress(actor->endpoint);
    plait_status status = execution_advance(&actor->execution);
    moved |= actor->execution.moved;
    actor->execution.moved = false;
    if (status == PLAIT_IN_PROGRESS)
        return moved;
    finish(stage, actor, status);
    return true;
}

/* ------------------------------------------------------------------ whole runs */

static int finished(const struct stage *stage)
{
    int count = 0;
    for (int rank = 0; rank < stage->row->ranks; rank++)
        count += stage->actors[rank].next == OPERATIONS;
    return count;
}

/* Lets ranks take turns until all are through. Now and then one runs as far as it can, or has to stay behind. */
static void play(struct stage *stage)
{
    int ranks = stage->row->ranks, idle = 0, behind = -1;
    while (finished(stage) < ranks) {
        uint64_t drawn = draw(stage);
        int rank = (int)(drawn % (uint64_t)ranks);
        if (drawn >> 32 & 1)
            behind = drawn >> 33 & 1 ? (int)(drawn >> 40 % 7) % ranks : -1;
        if (rank == behind && idle < 100)
            continue;
        bool moved = false;
        int turns = drawn >> 16 & 3 ? 1 : 40;
        while (turns-- > 0 && turn(stage, &stage->actors[rank]))
            moved = true;
        idle = moved ? 0 : idle + 1;
        if (idle > 20000 * ranks)
            fail_msg("seed %llu: nothing moves; rank 0 is at operation %d, rank 1 at %d",
                     (unsigned long long)stage->seed, stage->actors[0].next, stage->actors[ranks > 1].next);
    }
}

static void close_all(struct stage *stage)
{
    for (int rank = 0; rank < stage->row->ranks; rank++) {
        struct group *group = &stage->actors[rank].group;
        board_free(group->board);
        group_clear(group);
        transport_inproc.close(stage->actors[rank].endpoint);
    }
}

/* After successes all ranks' rings stand at one place. */
static void check_rings(const struct stage *stage)
{
    for (int rank = 1; rank < stage->row->ranks; rank++) {
        assert_int_equal(stage->actors[rank].group.staging.position, stage->actors[0].group.staging.position);
        assert_int_equal(stage->actors[rank].group.number, stage->actors[0].group.number);
        assert_int_equal(stage->actors[rank].group.bytes_since_check,
                         stage->actors[0].group.bytes_since_check);
    }
}

static void run_row(void **state)
{
    const struct row *row = *state;
    int runs = ranks_slowness() > 1 ? 1 : 8;
    for (int i = 0; i < runs; i++) {
        struct stage *stage = calloc(1, sizeof *stage);
        stage->row = row;
        stage->seed = test_settings()->seed * 100 + (uint64_t)i;
        for (int rank = 0; rank < row->ranks; rank++)
            stage->world_ranks[rank] = rank;
        open_endpoints(stage);
        for (int rank = 0; rank < row->ranks; rank++)
            make_group(stage, &stage->actors[rank]);
        draw_operations(stage);
        play(stage);
        check_rings(stage);
        close_all(stage);
        free(stage);
    }
}

#define AUTO STORES_ORDINARY
#define STREAM STORES_STREAMED

static const struct row rows[] = {
    { "1 rank", 1, "auto", 16384, 3000, 0, AUTO, true, 20 },
    { "2 ranks, one-shot, the smallest ring", 2, "direct-one-shot", 3 * 2 * 64, 700, 0, AUTO, true, 0 },
    { "2 ranks, two-phase, the smallest ring", 2, "direct-two-phase", 4 * 2 * 64, 700, 0, AUTO, true, 0 },
    { "2 ranks, a ring that slots do not fill", 2, "direct", 5000, 3000, 0, AUTO, true, 0 },
    { "2 ranks, calls that differ", 2, "direct", 5000, 3000, 0, AUTO, true, 30 },
    { "2 ranks, any plan, streamed", 2, "auto", 65536, 9000, 0, STREAM, true, 10 },
    { "3 ranks, one-shot", 3, "direct-one-shot", 4096, 1500, 0, AUTO, true, 10 },
    { "3 ranks, two-phase", 3, "direct-two-phase", 4096 + 64, 3000, 0, AUTO, true, 10 },
    { "3 ranks, chunks of 256 bytes", 3, "direct", 16384, 3000, 256, AUTO, true, 10 },
    { "5 ranks, two-phase, calls that differ", 5, "direct-two-phase", 16384, 5000, 0, AUTO, true, 40 },
    { "5 ranks that change to a lane", 5, "direct", 0, 2000, 0, AUTO, true, 5 },
    { "9 ranks in a seat's staging", 9, "direct", SEAT_STAGING_BYTES, 2000, 0, AUTO, true, 5 },
    { "9 ranks, the smallest ring", 9, "direct", 4 * 9 * 64, 300, 0, AUTO, true, 5 },
    { "2 ranks, ring", 2, "ring", 16384, 3000, 64, AUTO, true, 10 },
    { "3 ranks, ring, chunks of a line", 3, "ring", 16384, 1000, 64, AUTO, true, 10 },
    { "5 ranks, ring", 5, "ring", 16384, 5000, 1000, AUTO, true, 10 },
    { "4 ranks, doubling", 4, "doubling", 16384, 3000, 1000, AUTO, true, 10 },
    { "7 ranks, doubling", 7, "doubling", 16384, 2000, 600, AUTO, true, 10 },
    { "5 ranks, tree", 5, "tree", 16384, 2000, 500, AUTO, true, 10 },
    { "6 ranks, chain", 6, "chain", 16384, 3000, 200, AUTO, true, 10 },
    { "4 ranks, pairwise", 4, "pairwise", 16384, 5000, 1000, AUTO, true, 10 },
    { "2 ranks without a board", 2, "auto", 16384, 3000, 500, AUTO, false, 0 },
    { "5 ranks without a board", 5, "auto", 16384, 2000, 500, AUTO, false, 0 },
};

/* -------------------------------------------------------------- single questions */

static struct stage *small_stage(const struct row *row)
{
    struct stage *stage = calloc(1, sizeof *stage);
    stage->row = row;
    for (int rank = 0; rank < row->ranks; rank++)
        stage->world_ranks[rank] = rank;
    open_endpoints(stage);
    for (int rank = 0; rank < row->ranks; rank++)
        make_group(stage, &stage->actors[rank]);
    return stage;
}

/* Who is waited for: first who has not entered, then who holds up the steps. */
static void awaited_ranks(void **state)
{
    (void)state;
    static const struct row row = { "", 3, "direct", 16384, 10, 0, AUTO, true, 0 };
    struct stage *stage = small_stage(&row);
    float data[3][1000] = { { 0 } };
    bool entered = true;
    for (int rank = 0; rank < 3; rank++) {
        struct call call = { .kind = COLLECTIVE_ALLREDUCE,
                             .type = PLAIT_F32,
                             .op = PLAIT_SUM,
                             .count = 1000,
                             .input = data[rank],
                             .output = data[rank] };
        assert_int_equal(execution_begin(&stage->actors[rank].execution, &stage->actors[rank].group, &call),
                         PLAIT_OK);
    }
    struct execution *first = &stage->actors[0].execution, *second = &stage->actors[1].execution;
    assert_int_equal(execution_advance(first), PLAIT_IN_PROGRESS);
    assert_int_equal(execution_awaited(first, &entered), 1);
    assert_false(entered);
    assert_int_equal(execution_advance(second), PLAIT_IN_PROGRESS);
    assert_int_equal(execution_advance(first), PLAIT_IN_PROGRESS);
    assert_int_equal(execution_awaited(first, &entered), 2);
    assert_false(entered);
    execution_advance(&stage->actors[2].execution);
    for (int i = 0; i < 100; i++)
        for (int rank = 0; rank < 3; rank++)
            execution_advance(&stage->actors[rank].execution);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(execution_advance(&stage->actors[rank].execution), PLAIT_OK);
    assert_int_equal(execution_awaited(first, &entered), -1);
    close_all(stage);
    free(stage);
}

/* A canceled execution leaves no transfer behind, and buffers are the caller's. */
static void canceled(void **state)
{
    (void)state;
    static const struct row row = { "", 2, "ring", 16384, 10, 0, AUTO, false, 0 };
    struct stage *stage = small_stage(&row);
    static unsigned char data[2][400000], gathered[2][800000];
    for (int rank = 0; rank < 2; rank++) {
        struct actor *actor = &stage->actors[rank];
        struct call call = { .kind = COLLECTIVE_ALLGATHER,
                             .type = PLAIT_U8,
                             .count = 400000,
                             .input = data[rank],
                             .output = gathered[rank] };
        assert_int_equal(execution_begin(&actor->execution, &actor->group, &call), PLAIT_OK);
    }
    for (int i = 0; i < 1000 && stage->actors[0].execution.open == 0; i++) /* letters come first */
        for (int rank = 0; rank < 2; rank++) {
            struct actor *actor = &stage->actors[rank];
            transport_inproc.progress(actor->endpoint);
            assert_int_equal(execution_advance(&actor->execution), PLAIT_IN_PROGRESS);
        }
    assert_true(stage->actors[0].execution.open > 0);
    execution_cancel(&stage->actors[0].execution);
    assert_int_equal(stage->actors[0].execution.open, 0);
    for (int i = 0; i < 1000; i++)
        for (int rank = 0; rank < 2; rank++)
            transport_inproc.progress(stage->actors[rank].endpoint);
    execution_cancel(&stage->actors[1].execution);
    close_all(stage);
    free(stage);
}

/* Plans that are asked for where they do not serve are warned about. */
static void drop_line(void *context, plait_log_level level, const char *line)
{
    (void)context, (void)level, (void)line;
}

int main(void)
{
    plait_log_set_sink(drop_line, NULL);
    struct CMUnitTest tests[LENGTH(rows) + 2];
    for (size_t i = 0; i < LENGTH(rows); i++)
        tests[i] = (struct CMUnitTest){ .name = rows[i].name,
                                        .test_func = run_row,
                                        .initial_state = (void *)(uintptr_t)&rows[i] };
    tests[LENGTH(rows)] = (struct CMUnitTest)cmocka_unit_test(awaited_ranks);
    tests[LENGTH(rows) + 1] = (struct CMUnitTest)cmocka_unit_test(canceled);
    return check_run("execute", tests, LENGTH(tests));
}
