/* Operations that callers make: factors of each rank's own, functions commutative or not, those that fail. */
#include "check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

enum { MOST = 90000 };

static const size_t counts[] = { 0, 1, 5, 61, 700, 9001, MOST };

enum way { BLOCKING, WORK, GROUP, IN_PLACE, WAYS };

/* Room for a call of a rank. */
struct room {
    uint64_t *input, *output;
};

static bool room_open(struct rank *rank, struct room *room)
{
    room->input = calloc((size_t)MOST * (size_t)rank->size, 8);
    room->output = calloc((size_t)MOST * (size_t)rank->size, 8);
    return rank_check(rank, room->input != NULL && room->output != NULL, "no memory");
}

static void room_close(const struct room *room)
{
    free(room->input);
    free(room->output);
}

/* An all-reduce, reduce or reduce-scatter (kinds 0, 1, 2), made in one of several ways. */
static plait_status make_call(struct rank *rank, int kind, const void *input, void *output, size_t count,
                              plait_type type, plait_op op, int root, enum way way)
{
    plait_work *work = NULL, **out = way == WORK ? &work : NULL;
    plait_status status;
    if (way == GROUP)
        plait_group_begin();
    if (kind == 0)
        status = plait_allreduce(rank->comm, input, output, count, type, op, out);
    else if (kind == 1)
        status = plait_reduce(rank->comm, input, output, count, type, op, root, out);
    else
        status = plait_reduce_scatter(rank->comm, input, output, count, type, op, out);
    if (way == GROUP) {
        plait_status end = plait_group_end(&work);
        status = status == PLAIT_OK ? end : status;
    }
    if (status == PLAIT_OK && work != NULL)
        status = plait_work_wait(work, -1);
    plait_work_release(work);
    return status;
}

static size_t input_count(const struct rank *rank, int kind, size_t count)
{
    return kind == 2 ? count * (size_t)rank->size : count;
}

/* The output of a kind, and where in its input the elements come from that are folded there. */
static bool has_output(const struct rank *rank, int kind, int root)
{
    return kind != 1 || rank->number == root;
}

static size_t first_element(const struct rank *rank, int kind, size_t count)
{
    return kind == 2 ? count * (size_t)rank->number : 0;
}

/* In place, the buffer that is both; a reduce-scatter's lies in its input. */
static void *place_output(struct rank *rank, struct room *room, int kind, size_t count, size_t size,
                          enum way way)
{
    if (way != IN_PLACE)
        return room->output;
    return (unsigned char *)room->input + first_element(rank, kind, count) * size;
}

/* ------------------------------------------------------------ multiplied sums */

static const plait_type number_types[] = { PLAIT_I8,  PLAIT_U8,   PLAIT_I32, PLAIT_U32, PLAIT_I64,
                                           PLAIT_U64, PLAIT_BF16, PLAIT_F32, PLAIT_F64 };

static void put_number(plait_type type, void *to, size_t index, int64_t value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    switch (type) {
    case PLAIT_I8:
    case PLAIT_U8: ((uint8_t *)to)[index] = (uint8_t)value; break;
    case PLAIT_I32:
    case PLAIT_U32: ((uint32_t *)to)[index] = (uint32_t)value; break;
    case PLAIT_I64:
    case PLAIT_U64: ((uint64_t *)to)[index] = (uint64_t)value; break;
    case PLAIT_BF16: ((uint16_t *)to)[index] = (uint16_t)(bits >> 16); break;
    case PLAIT_F32: ((float *)to)[index] = single; break;
    default: ((double *)to)[index] = (double)value; break;
    }
}

static int64_t small_value(int rank, size_t index)
{
    return (int64_t)(index % 5) + rank % 3;
}

/* Small whole numbers, which all types hold exactly. */
static void check_premul(struct rank *rank, struct room *room, plait_type type, int kind, size_t count,
                         enum way way)
{
    size_t size = plait_type_size(type), inputs = input_count(rank, kind, count);
    int root = rank->size - 1;
    unsigned char wanted[8], factor[8];
    plait_op op;
    rank_doing(rank, "a multiplied sum of %s, kind %d, count %zu, way %d", plait_type_name(type), kind, count,
               way);
    put_number(type == PLAIT_BF16 ? PLAIT_F32 : type, factor, 0, rank->number % 2 + 1);
    if (!rank_ok(rank, plait_op_create_premul(type, factor, &op), "making the operation"))
        return;
    for (size_t i = 0; i < inputs; i++)
        put_number(type, room->input, i, small_value(rank->number, i));
    unsigned char *output = place_output(rank, room, kind, count, size, way);
    rank_ok(rank, make_call(rank, kind, room->input, output, count, type, op, root, way), "the call");
    rank_ok(rank, plait_op_destroy(op), "destroying the operation");
    size_t first = first_element(rank, kind, count);
    for (size_t i = 0; i < count && has_output(rank, kind, root); i++) {
        int64_t sum = 0;
        for (int other = 0; other < rank->size; other++)
            sum += (other % 2 + 1) * small_value(other, first + i);
        put_number(type, wanted, 0, sum);
        if (!rank_check(rank, memcmp(output + i * size, wanted, size) == 0, "element %zu is not %lld", i,
                        (long long)sum))
            return;
    }
}

static void run_premul(struct rank *rank)
{
    struct room room;
    if (!room_open(rank, &room))
        return;
    int turn = 0;
    for (size_t type = 0; type < LENGTH(number_types); type++)
        for (size_t i = 0; i < LENGTH(counts) && !rank_failed(rank); i++)
            for (int kind = 0; kind < 3 && !rank_failed(rank); kind++)
                check_premul(rank, &room, number_types[type], kind, counts[i], (enum way)(turn++ % WAYS));
    room_close(&room);
}

/* ------------------------------------------------------------------ functions */

/* Maps x -> a x + b, modulo 2^32, a above b: to go one after another is associative and not commutative. */
static uint64_t compose(uint64_t left, uint64_t right)
{
    uint32_t a = (uint32_t)(left >> 32) * (uint32_t)(right >> 32);
    uint32_t b = (uint32_t)(left >> 32) * (uint32_t)right + (uint32_t)left;
    return (uint64_t)a << 32 | b;
}

static int compose_all(void *context, const void *left, void *right, size_t count, plait_type type)
{
    const uint64_t *lefts = left;
    uint64_t *rights = right;
    if (type != PLAIT_U64 || (uintptr_t)left % 8 != 0 || (uintptr_t)right % 8 != 0)
        return 99;
    for (size_t i = 0; i < count; i++)
        rights[i] = compose(lefts[i], rights[i]);
    if (context != NULL)
        atomic_fetch_add((_Atomic size_t *)context, count);
    return 0;
}

static int add_all(void *context, const void *left, void *right, size_t count, plait_type type)
{
    const uint64_t *lefts = left;
    uint64_t *rights = right;
    (void)context;
    for (size_t i = 0; i < count; i++)
        rights[i] += lefts[i];
    return type == PLAIT_U64 ? 0 : 99;
}

static uint64_t sum(uint64_t left, uint64_t right)
{
    return left + right;
}

static uint64_t random_value(int rank, size_t index)
{
    return mix((uint64_t)rank * 1000003 + index);
}

static void check_function(struct rank *rank, struct room *room, plait_op op,
                           uint64_t (*fold)(uint64_t, uint64_t), int kind, int root, size_t count,
                           enum way way)
{
    size_t inputs = input_count(rank, kind, count), first = first_element(rank, kind, count);
    rank_doing(rank, "a function, kind %d, root %d, count %zu, way %d", kind, root, count, way);
    for (size_t i = 0; i < inputs; i++)
        room->input[i] = random_value(rank->number, i);
    uint64_t *output = place_output(rank, room, kind, count, 8, way);
    rank_ok(rank, make_call(rank, kind, room->input, output, count, PLAIT_U64, op, root, way), "the call");
    for (size_t i = 0; i < count && has_output(rank, kind, root); i++) {
        uint64_t wanted = random_value(0, first + i);
        for (int other = 1; other < rank->size; other++)
            wanted = fold(wanted, random_value(other, first + i));
        if (!rank_check(rank, output[i] == wanted, "element %zu is %llx, not %llx", i,
                        (unsigned long long)output[i], (unsigned long long)wanted))
            return;
    }
}

static void run_functions(struct rank *rank)
{
    struct room room;
    _Atomic size_t called = 0;
    plait_op ordered, commutative;
    plait_function_op options = {
        .struct_size = sizeof options, .name = "compose", .function = compose_all, .context = &called
    };
    if (!room_open(rank, &room) || !rank_ok(rank, plait_op_create_function(&options, &ordered), "making one"))
        return;
    options = (plait_function_op){ .name = "add", .function = add_all, .commutative = 1 };
    rank_ok(rank, plait_op_create_function(&options, &commutative), "making another");
    rank_check(rank, ordered != commutative && (int)ordered >= PLAIT_FIRST_MADE_OP, "numbers %d and %d",
               ordered, commutative);
    int turn = 0;
    for (size_t i = 0; i < LENGTH(counts) && !rank_failed(rank); i++)
        for (int kind = 0; kind < 3 && !rank_failed(rank); kind++) {
            check_function(rank, &room, ordered, compose, kind, turn % rank->size, counts[i],
                           (enum way)(turn % WAYS));
            turn++;
            check_function(rank, &room, commutative, sum, kind, turn % rank->size, counts[i],
                           (enum way)(turn % WAYS));
        }
    rank_check(rank, rank->size == 1 || atomic_load(&called) > 0, "it was never called");
    rank_ok(rank, plait_op_destroy(ordered), "destroying one");
    rank_ok(rank, plait_op_destroy(commutative), "destroying another");
    room_close(&room);
}

/* ------------------------------------------------------------------- failures */

struct failing {
    struct rank *rank;
    int error;
};

static int maybe_fail(void *context, const void *left, void *right, size_t count, plait_type type)
{
    struct failing *failing = context;
    struct rank *rank = failing->rank;
    plait_work *work = NULL;
    (void)left, (void)right, (void)count, (void)type;
    rank_status(rank, plait_barrier(rank->comm, NULL), PLAIT_INVALID_USAGE, "a blocking call in a function");
    (void)work;
    return failing->error;
}

static void run_failures(struct rank *rank)
{
    struct room room;
    struct failing failing = { .rank = rank };
    plait_function_op options = { .name = "brittle", .function = maybe_fail, .context = &failing };
    plait_op op;
    if (!room_open(rank, &room) || !rank_ok(rank, plait_op_create_function(&options, &op), "making it"))
        return;
    for (int turn = 0; turn < 24 && !rank_failed(rank); turn++) {
        int culprit = turn % rank->size, kind = turn % 2 == 0 ? 0 : 2;
        enum way way = (enum way)(turn / 2 % WAYS);
        size_t count = counts[1 + turn % 6];
        char who[64];
        rank_doing(rank, "rank %d fails, kind %d, count %zu, way %d", culprit, kind, count, way);
        failing.error = rank->number == culprit ? -5 : 0;
        plait_status status =
            make_call(rank, kind, room.input, place_output(rank, &room, kind, count, 8, way), count,
                      PLAIT_U64, op, 0, way);
        rank_status(rank, status, PLAIT_CALLER_FAILED, "a call whose function fails");
        snprintf(who, sizeof who, "\"brittle\" returned -5 on rank %d", culprit);
        rank_says(rank, who);
        plait_fault fault = { .struct_size = sizeof fault };
        rank_ok(rank, plait_comm_fault(rank->comm, &fault), "asking for the fault");
        rank_check(rank, fault.kind == PLAIT_FAULT_FUNCTION && fault.culprit == culprit,
                   "fault of kind %d, culprit %d", fault.kind, fault.culprit);
        failing.error = 0;
        rank_ok(rank, make_call(rank, 0, room.input, room.output, count, PLAIT_U64, op, 0, way),
                "the next call");
        rank_ok(rank, plait_barrier(rank->comm, NULL), "a barrier");
    }
    rank_check(rank, plait_status_remedy(PLAIT_CALLER_FAILED) == PLAIT_REMEDY_GO_ON, "the remedy is another");
    rank_ok(rank, plait_op_destroy(op), "destroying it");
    room_close(&room);
}

/* Ranks whose operations differ. */
static void run_mismatches(struct rank *rank)
{
    uint64_t value = 3, result = 77;
    plait_op mine, same;
    int64_t factor = rank->number + 1;
    plait_function_op options = { .name = rank->number == 0 ? "a name" : "another name",
                                  .function = add_all };
    rank_ok(rank, plait_op_create_function(&options, &mine), "making a function");
    rank_status(rank, plait_allreduce(rank->comm, &value, &result, 1, PLAIT_U64, mine, NULL), PLAIT_MISMATCH,
                "functions of two names");
    rank_says(rank, "u64, a name");
    rank_says(rank, "u64, another name");
    rank_ok(rank, plait_op_destroy(mine), "destroying it");

    options = (plait_function_op){ .name = "add", .function = add_all, .commutative = rank->number == 0 };
    rank_ok(rank, plait_op_create_function(&options, &mine), "making a function");
    rank_status(rank, plait_allreduce(rank->comm, &value, &result, 1, PLAIT_U64, mine, NULL), PLAIT_MISMATCH,
                "functions commutative and not");
    rank_ok(rank, plait_op_destroy(mine), "destroying it");

    rank_ok(rank, plait_op_create_premul(PLAIT_I64, &factor, &same), "making a multiplied sum");
    rank_status(rank,
                plait_allreduce(rank->comm, &value, &result, 1, PLAIT_I64,
                                rank->number == 0 ? PLAIT_SUM : same, NULL),
                PLAIT_MISMATCH, "a sum and a multiplied one");
    rank_says(rank, "i64, sum");
    rank_says(rank, "i64, pre-multiplied sum");
    rank_check(rank, result == 77, "the output was touched");
    for (int i = 0; i < 5; i++) { /* each time with another factor: never a mismatch */
        rank_ok(rank, plait_op_destroy(same), "destroying it");
        factor = rank->number + i;
        rank_ok(rank, plait_op_create_premul(PLAIT_I64, &factor, &same), "making a multiplied sum");
        rank_ok(rank, plait_allreduce(rank->comm, &value, &result, 1, PLAIT_I64, same, NULL),
                "a multiplied sum");
        uint64_t wanted = 3 * (uint64_t)(rank->size * i + rank->size * (rank->size - 1) / 2);
        rank_check(rank, result == wanted, "round %d: %llu, not %llu", i, (unsigned long long)result,
                   (unsigned long long)wanted);
    }
    rank_ok(rank, plait_op_destroy(same), "destroying it");
}

static void run_refusals(struct rank *rank)
{
    double factor = 2, value = 1, result = 0;
    plait_op op = PLAIT_SUM;
    plait_work *work = NULL;
    plait_function_op options = { .name = "nothing" };
    struct {
        plait_function_op known;
        char more[64];
    } later = { .known = { .struct_size = sizeof later, .function = add_all }, .more = { 1 } };
    rank_status(rank, plait_op_create_premul(PLAIT_F64, NULL, &op), PLAIT_INVALID_ARGUMENT, "no factor");
    rank_status(rank, plait_op_create_premul(PLAIT_F64, &factor, NULL), PLAIT_INVALID_ARGUMENT, "nowhere to");
    rank_status(rank, plait_op_create_premul((plait_type)99, &factor, &op), PLAIT_INVALID_ARGUMENT,
                "no type");
    rank_status(rank, plait_op_create_function(NULL, &op), PLAIT_INVALID_ARGUMENT, "no options");
    rank_status(rank, plait_op_create_function(&options, &op), PLAIT_INVALID_ARGUMENT, "no function");
    rank_status(rank, plait_op_create_function(&later.known, &op), PLAIT_UNSUPPORTED,
                "a later version's options");
    rank_check(rank, op == PLAIT_SUM, "op was set");
    rank_status(rank, plait_op_destroy(PLAIT_SUM), PLAIT_INVALID_ARGUMENT, "destroying the sum");
    rank_status(rank, plait_op_destroy((plait_op)5000), PLAIT_INVALID_ARGUMENT, "destroying what is none");

    rank_ok(rank, plait_op_create_premul(PLAIT_F64, &factor, &op), "making a multiplied sum");
    rank_check(rank, strcmp(plait_op_name(op), "?") == 0, "its name is %s", plait_op_name(op));
    rank_status(rank, plait_allreduce(rank->comm, &value, &result, 1, PLAIT_F32, op, NULL),
                PLAIT_INVALID_ARGUMENT, "another type");
    rank_says(rank, "pre-multiplied sum of f64");
    if (rank->number == 0)
        rank_meet(rank);
    rank_ok(rank, plait_allreduce(rank->comm, &value, &result, 1, PLAIT_F64, op, &work), "a work");
    rank_ok(rank, plait_op_destroy(op), "destroying an operation that is used");
    if (rank->number != 0)
        rank_meet(rank);
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);
    rank_check(rank, result == 2.0 * rank->size, "the sum is %g", result);
    rank_status(rank, plait_op_destroy(op), PLAIT_INVALID_ARGUMENT, "destroying it twice");
    rank_status(rank, plait_allreduce(rank->comm, &value, &result, 1, PLAIT_F64, op, NULL),
                PLAIT_INVALID_ARGUMENT, "an operation that is gone");
    rank_says(rank, "no living operation");
}

/* Prepared calls keep their operation. */
static void run_prepared(struct rank *rank)
{
    float factor = (float)rank->number, value = 2, result = 0;
    plait_op op;
    plait_prepared *prepared = NULL;
    rank_ok(rank, plait_op_create_premul(PLAIT_F32, &factor, &op), "making a multiplied sum");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &result, 1, PLAIT_F32, op, NULL), "all-reduce");
    rank_ok(rank, plait_group_prepare(&prepared), "preparing");
    rank_ok(rank, plait_op_destroy(op), "destroying the operation");
    for (int i = 0; i < 10; i++) {
        value = (float)i;
        rank_ok(rank, plait_prepared_start(prepared, NULL), "starting");
        rank_check(rank, result == (float)(i * rank->size * (rank->size - 1) / 2), "the sum is %g",
                   (double)result);
    }
    plait_prepared_release(prepared);
}

#define THREADS(title, function, ranks, how)                                                                 \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks, .plan = how }, NULL                          \
    }
#define PROCESSES(title, function, ranks)                                                                    \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks }, NULL                                          \
    }

static const struct scenario scenarios[] = {
    THREADS("multiplied sums", run_premul, 1, NULL),
    THREADS("multiplied sums", run_premul, 2, NULL),
    THREADS("multiplied sums", run_premul, 3, "ring"),
    THREADS("multiplied sums", run_premul, 4, "doubling"),
    THREADS("multiplied sums", run_premul, 5, "tree"),
    PROCESSES("multiplied sums", run_premul, 3),
    THREADS("functions", run_functions, 1, NULL),
    THREADS("functions", run_functions, 2, NULL),
    THREADS("functions", run_functions, 3, "direct-two-phase"),
    THREADS("functions by rings", run_functions, 3, "ring"),
    THREADS("functions by doubling", run_functions, 5, "doubling"),
    THREADS("functions by trees", run_functions, 4, "tree"),
    THREADS("functions by chains", run_functions, 4, "chain"),
    THREADS("functions", run_functions, 9, NULL),
    PROCESSES("functions", run_functions, 4),
    THREADS("functions that fail", run_failures, 2, NULL),
    THREADS("functions that fail", run_failures, 5, NULL),
    PROCESSES("functions that fail", run_failures, 3),
    THREADS("operations that differ", run_mismatches, 2, NULL),
    THREADS("operations that differ", run_mismatches, 4, NULL),
    THREADS("what is refused", run_refusals, 2, NULL),
    THREADS("prepared", run_prepared, 1, NULL),
    THREADS("prepared", run_prepared, 3, NULL),
};

int main(void)
{
    return scenarios_run("operations that callers make", scenarios, LENGTH(scenarios));
}
