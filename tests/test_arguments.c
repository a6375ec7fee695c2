/* Bad input: each wrong argument of each function gets its status and a sentence that says which; nothing
 * crashes, nothing is sent, and the communicator goes on. */
#include "check.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

/* That `what` gave `wanted` and a sentence with `piece` in it. */
static void refused(struct rank *rank, plait_status got, plait_status wanted, const char *piece,
                    const char *what)
{
    if (rank_status(rank, got, wanted, what) && strstr(plait_last_error(), piece) == NULL)
        rank_check(rank, false, "%s: the sentence lacks \"%s\": \"%s\"", what, piece, plait_last_error());
}

/* A handle that is none: either status that says "mend the call" will do. */
static void no_handle(struct rank *rank, plait_status got, const char *what)
{
    rank_check(rank, got == PLAIT_INVALID_USAGE || got == PLAIT_INVALID_ARGUMENT, "%s gave %s: \"%s\"", what,
               plait_status_name(got), plait_last_error());
    rank_check(rank, plait_last_error()[0] != '\0', "%s: no sentence", what);
}

/* The communicator is none the worse. */
static void still_works(struct rank *rank, const char *after)
{
    int value = rank->number + 1, sum = 0;
    rank_doing(rank, "an all-reduce after %s", after);
    if (rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL), after))
        rank_check(rank, sum == rank->size * (rank->size + 1) / 2, "after %s: the sum is %d", after, sum);
}

/* -------------------------------------------------------------- collectives */

/* Room that any call of a few elements fits in; input and output apart. */
static int64_t input_room[RANKS_MOST][128], output_room[RANKS_MOST][128];

/* Operations that a type does not know, and what the sentence says of it. */
static const struct {
    plait_type type;
    plait_op op;
    const char *piece;
} bad_pairs[] = {
    { PLAIT_F32, PLAIT_BIT_AND,
      "f32 has no bit_and; it has sum, product, min, max, average; bit_and is for i8, u8," },
    { PLAIT_F8E4M3, PLAIT_OR, "f8e4m3 has no or; it has sum, product, min, max, average" },
    { PLAIT_C64, PLAIT_MIN, "c64 has no min; it has sum, product, average; min is for i8, u8," },
    { PLAIT_C128, PLAIT_MAX, "c128 has no max" },
    { PLAIT_BOOL, PLAIT_AVERAGE, "bool has no average; it has sum, product, min, max, bit_and," },
    { PLAIT_I32, PLAIT_MIN_LOCATION, "min_location is for f32_i32, f64_i64, i32_i32, i64_i64" },
    { PLAIT_F32_I32, PLAIT_SUM, "f32_i32 has no sum; it has min_location, max_location" },
    { PLAIT_I64_I64, PLAIT_AVERAGE, "i64_i64 has no average" },
    { PLAIT_BYTES, PLAIT_SUM, "bytes are moved and not reduced; sum is for i8, u8," },
};

/* `call` with one thing changed; blocking, then as a work, which must stay unset. */
static void refuse_call(struct rank *rank, const struct call *call, const void *input, void *output,
                        const char *piece, const char *what)
{
    char text[120], whole[200];
    plait_work *work = (plait_work *)(intptr_t)0x5a5a;
    snprintf(whole, sizeof whole, "%s with %s", call_text(call, text, sizeof text), what);
    rank_doing(rank, "%s", whole);
    refused(rank, call_make(call, rank->comm, input, output, NULL), PLAIT_INVALID_ARGUMENT, piece, whole);
    refused(rank, call_make(call, rank->comm, input, output, &work), PLAIT_INVALID_ARGUMENT, piece, whole);
    rank_check(rank, work == (plait_work *)(intptr_t)0x5a5a, "%s: a work was given", whole);
}

static void run_values(struct rank *rank)
{
    static const int bad_types[] = { 0, 23, -1, INT_MAX, INT_MIN },
                     bad_ops[] = { 0, 14, -1, INT_MAX, INT_MIN };
    int64_t *input = input_room[rank->number], *output = output_room[rank->number];
    char number[16];
    for (int kind = 0; kind < CALL_BARRIER; kind++) {
        const struct call good = { (enum call_kind)kind, PLAIT_I64, PLAIT_SUM, 0, 3 };
        for (size_t i = 0; i < LENGTH(bad_types); i++) {
            struct call bad = good;
            bad.type = (plait_type)bad_types[i];
            snprintf(number, sizeof number, "%d", bad_types[i]);
            refuse_call(rank, &bad, input, output, number, "an unknown type");
            bad.count = 0;
            refuse_call(rank, &bad, NULL, NULL, number, "an unknown type and no elements");
        }
        for (size_t i = 0; i < LENGTH(bad_ops) && call_reduces(good.kind); i++) {
            struct call bad = good;
            bad.op = (plait_op)bad_ops[i];
            snprintf(number, sizeof number, "%d", bad_ops[i]);
            refuse_call(rank, &bad, input, output, number, "an unknown operation");
        }
        for (size_t i = 0; i < LENGTH(bad_pairs) && call_reduces(good.kind); i++) {
            struct call bad = good;
            bad.type = bad_pairs[i].type;
            bad.op = bad_pairs[i].op;
            refuse_call(rank, &bad, input, output, bad_pairs[i].piece, "another type's operation");
        }
        const int bad_roots[] = { -1, rank->size, INT_MAX, INT_MIN };
        for (size_t i = 0; i < LENGTH(bad_roots) && call_has_root(good.kind); i++) {
            struct call bad = good;
            bad.root = bad_roots[i];
            snprintf(number, sizeof number, "%d", bad_roots[i]);
            refuse_call(rank, &bad, input, output, number, "no such root");
        }
    }
    still_works(rank, "bad types, operations and roots");
}

/* Counts whose bytes, or whose blocks' bytes, no memory can hold. */
static void run_counts(struct rank *rank)
{
    const size_t bad[] = { SIZE_MAX,        SIZE_MAX / 8,   PTRDIFF_MAX, (size_t)PTRDIFF_MAX / 8 + 1,
                           (size_t)1 << 61, (size_t)1 << 60 };
    int64_t *input = input_room[rank->number], *output = output_room[rank->number];
    char number[24];
    for (int kind = 0; kind < CALL_BARRIER; kind++)
        for (size_t i = 0; i < LENGTH(bad); i++) {
            struct call call = { (enum call_kind)kind, PLAIT_I64, PLAIT_SUM, 0, bad[i] };
            snprintf(number, sizeof number, "%zu", bad[i]);
            refuse_call(rank, &call, input, output, number, "too many elements");
        }
    /* A block that fits, times ranks that do not. */
    static const enum call_kind many_blocks[] = { CALL_ALLGATHER, CALL_REDUCE_SCATTER, CALL_GATHER,
                                                  CALL_SCATTER, CALL_ALLTOALL };
    for (size_t i = 0; i < LENGTH(many_blocks) && rank->size > 1; i++) {
        struct call call = { many_blocks[i], PLAIT_U8, PLAIT_SUM, 0, (size_t)PTRDIFF_MAX / 2 + 2 };
        snprintf(number, sizeof number, "%zu", call.count);
        refuse_call(rank, &call, input, output, number, "too many elements in all blocks");
    }
    const size_t size = SIZE_MAX / 4;
    refused(rank, plait_send(rank->comm, input, size, PLAIT_I64, (rank->number + 1) % rank->size, 0, NULL),
            PLAIT_INVALID_ARGUMENT, "", "a send of too many elements");
    refused(rank, plait_recv(rank->comm, output, size, PLAIT_I64, PLAIT_ANY_SOURCE, 0, NULL, NULL, NULL),
            PLAIT_INVALID_ARGUMENT, "", "a receive of too many elements");
    still_works(rank, "bad counts");
}

static void run_null(struct rank *rank)
{
    int64_t *input = input_room[rank->number], *output = output_room[rank->number];
    for (int kind = 0; kind < CALL_BARRIER; kind++) {
        /* The root has both buffers; where a rank has none, NULL is right and the call would be made. */
        struct call call = { (enum call_kind)kind, PLAIT_I64, PLAIT_SUM, 0, 2 };
        if (call_has_root(call.kind) && rank->size > 1)
            continue;
        if (call_input_blocks(&call, rank->size, rank->number) > 0)
            refuse_call(rank, &call, NULL, output, "input", "no input");
        if (call_output_blocks(&call, rank->size, rank->number) > 0 || call.kind == CALL_BROADCAST)
            refuse_call(rank, &call, input, NULL, call.kind == CALL_BROADCAST ? "data" : "output",
                        "no output");
    }
    const int peer = (rank->number + 1) % rank->size;
    if (rank->size > 1) {
        refused(rank, plait_send(rank->comm, NULL, 1, PLAIT_I8, peer, 0, NULL), PLAIT_INVALID_ARGUMENT,
                "data", "a send of nothing");
        refused(rank, plait_recv(rank->comm, NULL, 1, PLAIT_I8, peer, 0, NULL, NULL, NULL),
                PLAIT_INVALID_ARGUMENT, "data", "a receive into nothing");
    }
    still_works(rank, "NULL buffers");
}

static void run_scan_of_average(struct rank *rank)
{
    int64_t *input = input_room[rank->number], *output = output_room[rank->number];
    refused(rank, plait_scan(rank->comm, input, output, 2, PLAIT_I64, PLAIT_AVERAGE, NULL),
            PLAIT_INVALID_ARGUMENT, "average", "a scan of an average");
    refused(rank, plait_exscan(rank->comm, input, output, 2, PLAIT_I64, PLAIT_AVERAGE, NULL),
            PLAIT_INVALID_ARGUMENT, "average", "an exclusive scan of an average");
    still_works(rank, "a scan of an average");
}

/* Buffers of no bytes may be NULL. */
static void run_empty(struct rank *rank)
{
    for (int kind = 0; kind < CALL_KINDS; kind++) {
        struct call call = { (enum call_kind)kind, PLAIT_F32, PLAIT_SUM, 0, 0 };
        plait_work *work = NULL;
        rank_doing(rank, "an empty %s", call_name(call.kind));
        rank_ok(rank, call_make(&call, rank->comm, NULL, NULL, NULL), "an empty call");
        rank_ok(rank, call_make(&call, rank->comm, NULL, NULL, &work), "an empty call as a work");
        rank_ok(rank, plait_work_wait(work, -1), "waiting for an empty call");
        plait_work_release(work);
    }
    still_works(rank, "empty calls");
}

static void run_overlaps(struct rank *rank)
{
    int64_t *room = input_room[rank->number];
    char *bytes = (char *)room;
    const int me = rank->number, ranks = rank->size;
    struct call call = { CALL_ALLREDUCE, PLAIT_I64, PLAIT_SUM, 0, 4 };
    refuse_call(rank, &call, room, room + 3, "overlap", "an output that begins in the input");
    refuse_call(rank, &call, room + 3, room, "overlap", "an input that begins in the output");
    refuse_call(rank, &call, bytes, bytes + 1, "overlap", "an output one byte off");
    refuse_call(rank, &call, bytes + 31, bytes, "overlap", "an input at the last byte");
    call.kind = CALL_ALLTOALL;
    refuse_call(rank, &call, room, room + 1, "overlap", "an output one element off");
    refuse_call(rank, &call, room, room + 4 * ranks - 1, "overlap", "an output that begins in the input");
    call.kind = CALL_ALLGATHER;
    refuse_call(rank, &call, room + 1, room, "overlap", "an input inside the output, at a wrong place");
    if (ranks > 1)
        refuse_call(rank, &call, room + 4 * ((me + 1) % ranks), room, "overlap",
                    "an input at another rank's place");
    refuse_call(rank, &call, room + 4 * ranks - 1, room, "overlap", "an input over the output's end");
    call.kind = CALL_REDUCE_SCATTER;
    refuse_call(rank, &call, room, room + 1, "overlap", "an output inside the input, at a wrong place");
    if (ranks > 1)
        refuse_call(rank, &call, room, room + 4 * ((me + 1) % ranks), "overlap",
                    "an output at another rank's place");
    if (ranks == 1) { /* on a root; elsewhere the other buffer is ignored */
        call.kind = CALL_REDUCE;
        refuse_call(rank, &call, room, room + 1, "overlap", "an output that begins in the input");
        call.kind = CALL_GATHER;
        refuse_call(rank, &call, room + 1, room, "overlap", "an input at a wrong place");
        call.kind = CALL_SCATTER;
        refuse_call(rank, &call, room, room + 1, "overlap", "an output at a wrong place");
    }
    /* Neighbours that do not overlap are fine. */
    call.kind = CALL_ALLREDUCE;
    memset(room, 0, sizeof input_room[0]);
    rank_ok(rank, call_make(&call, rank->comm, room, room + 4, NULL), "buffers side by side");
    rank_ok(rank, call_make(&call, rank->comm, bytes + 33, bytes + 1, NULL),
            "buffers side by side, unaligned");
    call.kind = CALL_ALLGATHER;
    rank_ok(rank, call_make(&call, rank->comm, room + 4 * ranks, room, NULL),
            "an input right behind the output");
    still_works(rank, "overlapping buffers");
}

static void run_p2p(struct rank *rank)
{
    const int bad_peers[] = { -1, -2, rank->size, INT_MAX, INT_MIN, rank->number };
    int32_t value = 0;
    char number[16];
    for (size_t i = 0; i < LENGTH(bad_peers); i++) {
        snprintf(number, sizeof number, "%d", bad_peers[i]);
        refused(rank, plait_send(rank->comm, &value, 1, PLAIT_I32, bad_peers[i], 0, NULL),
                PLAIT_INVALID_ARGUMENT, number, "a send to nobody");
        if (bad_peers[i] != PLAIT_ANY_SOURCE)
            refused(rank, plait_recv(rank->comm, &value, 1, PLAIT_I32, bad_peers[i], 0, NULL, NULL, NULL),
                    PLAIT_INVALID_ARGUMENT, number, "a receive from nobody");
    }
    const int peer = (rank->number + 1) % rank->size;
    if (rank->size > 1) {
        refused(rank, plait_send(rank->comm, &value, 1, PLAIT_I32, peer, -1, NULL), PLAIT_INVALID_ARGUMENT,
                "-1", "tag -1");
        refused(rank, plait_recv(rank->comm, &value, 1, PLAIT_I32, peer, INT_MIN, NULL, NULL, NULL),
                PLAIT_INVALID_ARGUMENT, "tag", "tag INT_MIN");
        refused(rank, plait_send(rank->comm, &value, 1, (plait_type)99, peer, 0, NULL),
                PLAIT_INVALID_ARGUMENT, "99", "type 99");
        refused(rank, plait_recv(rank->comm, &value, 1, (plait_type)0, peer, 0, NULL, NULL, NULL),
                PLAIT_INVALID_ARGUMENT, "type", "type 0");
    }
    still_works(rank, "bad sends and receives");
}

/* One rank errs, again and again, before it makes the call that the others are in already. */
static void run_one_errs(struct rank *rank)
{
    int64_t *input = input_room[rank->number], *output = output_room[rank->number];
    for (int kind = 0; kind < CALL_KINDS && !rank_failed(rank); kind++) {
        const struct call good = { (enum call_kind)kind, PLAIT_I64, PLAIT_SUM, rank->size - 1, 3 };
        const struct call bad = { (enum call_kind)kind, (plait_type)77, PLAIT_SUM, rank->size - 1, 3 };
        struct trial trial;
        struct layout layout = { .in_place = false };
        if (rank->number == 0 && good.kind != CALL_BARRIER)
            for (int i = 0; i < 3; i++)
                refuse_call(rank, &bad, input, output, "77", "an unknown type");
        rank_check(rank, trial_open(&trial, 3 * 8, rank->size), "no memory");
        trial_run(rank, &trial, rank->comm, &good, &layout, (uint64_t)kind);
        trial_close(&trial);
    }
}

/* ------------------------------------------------- communicators and worlds */

static void run_comm_arguments(struct rank *rank)
{
    plait_comm *comm = (plait_comm *)(intptr_t)0x1234, *const unset = comm;
    refused(rank, plait_comm_split(rank->comm, -2, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT, "-2",
            "colour -2");
    refused(rank, plait_comm_split(rank->comm, INT_MIN, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT, "colour",
            "colour INT_MIN");
    refused(rank, plait_comm_split(rank->comm, 0, 0, NULL, NULL), PLAIT_INVALID_ARGUMENT, "comm",
            "a split for nobody");
    plait_comm_options options = { .struct_size = 3 };
    no_handle(rank, plait_comm_split(rank->comm, 0, 0, &options, &comm), "options of 3 bytes");

    const int me = rank->number, other = (me + 1) % rank->size;
    const int mine[] = { me }, twice[] = { me, me }, beyond[] = { me, rank->size }, negative[] = { -1, me },
              without[] = { other };
    refused(rank, plait_comm_group(rank->comm, NULL, 1, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT, "ranks",
            "a group of NULL");
    refused(rank, plait_comm_group(rank->comm, mine, 0, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT, "0",
            "a group of none");
    refused(rank, plait_comm_group(rank->comm, mine, -1, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT, "-1",
            "a group of -1");
    refused(rank, plait_comm_group(rank->comm, mine, INT_MAX, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT,
            "2147483647", "a huge group");
    refused(rank, plait_comm_group(rank->comm, twice, 2, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT, "",
            "a rank twice");
    refused(rank, plait_comm_group(rank->comm, beyond, 2, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT, "",
            "a rank beyond the last");
    refused(rank, plait_comm_group(rank->comm, negative, rank->size > 1 ? 2 : 1, 0, NULL, &comm),
            PLAIT_INVALID_ARGUMENT, "-1", "rank -1");
    refused(rank, plait_comm_group(rank->comm, mine, 1, -1, NULL, &comm), PLAIT_INVALID_ARGUMENT, "-1",
            "tag -1");
    if (rank->size > 1)
        refused(rank, plait_comm_group(rank->comm, without, 1, 0, NULL, &comm), PLAIT_INVALID_ARGUMENT, "",
                "a group without me");
    refused(rank, plait_comm_group(rank->comm, mine, 1, 0, NULL, NULL), PLAIT_INVALID_ARGUMENT, "comm",
            "a group for nobody");
    rank_check(rank, comm == unset, "a failed call gave a communicator");

    refused(rank, plait_comm_set_timeout(rank->comm, 0), PLAIT_INVALID_ARGUMENT, "0", "a deadline of 0");
    refused(rank, plait_comm_measure_line(rank->comm, NULL), PLAIT_INVALID_ARGUMENT, "",
            "measuring for nobody");
    no_handle(rank, plait_comm_destroy(rank->comm), "destroying the world's own communicator");
    refused(rank, plait_comm_fault(rank->comm, NULL), PLAIT_INVALID_ARGUMENT, "fault", "a fault for nobody");
    refused(rank, plait_world_fault(rank->world, NULL), PLAIT_INVALID_ARGUMENT, "fault",
            "a fault for nobody");
    refused(rank, plait_world_get_facts(rank->world, NULL), PLAIT_INVALID_ARGUMENT, "facts",
            "facts for nobody");
    plait_fault fault = { .struct_size = 0 };
    refused(rank, plait_comm_fault(rank->comm, &fault), PLAIT_INVALID_ARGUMENT, "struct_size",
            "a fault of 0 bytes");
    plait_world_facts facts = { .struct_size = 4 };
    refused(rank, plait_world_get_facts(rank->world, &facts), PLAIT_INVALID_ARGUMENT, "struct_size",
            "facts of 4 bytes");
    still_works(rank, "bad splits and groups");
}

/* A caller built against a later version: fine while what it adds is zero. */
static void run_later_options(struct rank *rank)
{
    plait_world *world = NULL;
    struct {
        plait_world_options known;
        char added[40];
    } later = { .known = { .struct_size = sizeof later, .size = 1 } };
    rank_ok(rank, plait_world_create(&later.known, &world), "a later version's options, all zero");
    rank_ok(rank, plait_world_destroy(world), "destroy");
    later.added[17] = 1;
    refused(rank, plait_world_create(&later.known, &world), PLAIT_UNSUPPORTED, "",
            "a later version's options");
}

/* What is wrong with options, and what the sentence must have in it. */
static void run_world_options(struct rank *rank)
{
    plait_world *world = (plait_world *)(intptr_t)0x77, *const unset = world;
    plait_thread_group *two = NULL;
    static const plait_store hollow = { .struct_size = sizeof hollow };
    if (!rank_ok(rank, plait_thread_group_create(2, &two), "a thread group"))
        return;
    const struct {
        const char *what;
        plait_world_options options;
        plait_status wanted;
        const char *piece;
    } rows[] = {
        { "rank -1", { .rank = -1, .size = 2, .threads = two }, PLAIT_INVALID_ARGUMENT, "-1" },
        { "rank 2 of 2", { .rank = 2, .size = 2, .threads = two }, PLAIT_INVALID_ARGUMENT, "2" },
        { "size -3", { .rank = 0, .size = -3, .threads = two }, PLAIT_INVALID_ARGUMENT, "-3" },
        { "size 3 in a group of 2", { .rank = 0, .size = 3, .threads = two }, PLAIT_INVALID_ARGUMENT, "3" },
        { "threads without a size", { .threads = two }, PLAIT_INVALID_ARGUMENT, "size" },
        { "a thread group that is none",
          { .size = 2, .threads = (plait_thread_group *)(intptr_t)0x30 },
          PLAIT_INVALID_USAGE,
          "" },
        { "a hollow store", { .size = 2, .store = &hollow }, PLAIT_INVALID_ARGUMENT, "store" },
        { "two ways at once is the first's matter, yet rank 9 is not",
          { .rank = 9, .size = 2, .store = &hollow, .threads = two },
          PLAIT_INVALID_ARGUMENT,
          "9" },
        { "a port of 70000",
          { .rank = 0, .size = 2, .address = "127.0.0.1", .port = 70000 },
          PLAIT_INVALID_ARGUMENT,
          "70000" },
        { "an unknown transport", { .size = 1, .transport = "pigeon" }, PLAIT_INVALID_SETTING, "shm" },
        { "an unknown plan", { .size = 1, .plan = "miracle" }, PLAIT_INVALID_SETTING, "ring" },
        { "a key of a size without bytes",
          { .size = 1, .job_key_size = 7 },
          PLAIT_INVALID_ARGUMENT,
          "job_key" },
        { "a structure of 5 bytes", { .struct_size = 5, .size = 1 }, PLAIT_INVALID_ARGUMENT, "struct_size" },
        { "a structure of 5 kB", { .struct_size = 5000, .size = 1 }, PLAIT_INVALID_ARGUMENT, "5000" },
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        plait_world_options options = rows[i].options;
        options.start_timeout_ms = 2000;
        if (options.struct_size == 0)
            options.struct_size = sizeof options;
        rank_doing(rank, "a world with %s", rows[i].what);
        plait_status status = plait_world_create(&options, &world);
        if (rows[i].wanted == PLAIT_INVALID_USAGE)
            no_handle(rank, status, rows[i].what);
        else
            refused(rank, status, rows[i].wanted, rows[i].piece, rows[i].what);
    }
    rank_check(rank, world == unset, "a failed creation gave a world");
    run_later_options(rank);
    plait_world_options alone = { .size = 1 };
    refused(rank, plait_world_create(&alone, NULL), PLAIT_INVALID_ARGUMENT, "world", "a world for nobody");
    plait_thread_group_destroy(two);

    plait_thread_group *group = NULL;
    static const int sizes[] = { 0, -1, 1025, INT_MAX, INT_MIN };
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", sizes[i]);
        refused(rank, plait_thread_group_create(sizes[i], &group), PLAIT_INVALID_ARGUMENT, number,
                "a thread group's size");
    }
    refused(rank, plait_thread_group_create(2, NULL), PLAIT_INVALID_ARGUMENT, "group",
            "a thread group for nobody");
    plait_thread_group_destroy(NULL);
}

/* Bad words from the environment; the caller's are none. */
static void run_environment(struct rank *rank)
{
    static const struct {
        const char *name, *value, *piece;
    } rows[] = {
        { "PLAIT_TRANSPORT", "pigeon", "shm" },
        { "PLAIT_PLAN", "miracle", "ring" },
        { "PLAIT_TIMEOUT_MS", "soon", "soon" },
        { "PLAIT_TIMEOUT_MS", "12x", "12x" },
        { "PLAIT_LOG", "loud", "debug" },
        { "PLAIT_KERNELS", "abacus", "scalar" },
        { "PLAIT_START_TIMEOUT_MS", "99999999999999999999999", "99999999999999999999999" },
        { "WORLD_SIZE", "two", "two" },
        { "WORLD_SIZE", "-1", "-1" },
        { "WORLD_SIZE", "0", "0" },
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        plait_world *world = NULL;
        rank_doing(rank, "%s=%s", rows[i].name, rows[i].value);
        setenv(rows[i].name, rows[i].value, 1);
        plait_status status = plait_world_create(NULL, &world);
        unsetenv(rows[i].name);
        refused(rank, status, PLAIT_INVALID_SETTING, rows[i].piece, rows[i].name);
        plait_world_destroy(world);
    }
    plait_world *world = NULL;
    if (rank_ok(rank, plait_world_create(NULL, &world), "a world of one from an empty environment"))
        rank_check(rank, plait_world_size(world) == 1, "it has %d ranks", plait_world_size(world));
    plait_world_destroy(world);
}

/* ------------------------------------------------------------------- handles */

/* Every function with handles that are none: a living one of another kind, an ended one, rubbish. */
static void try_handle(struct rank *rank, void *handle, const char *what)
{
    plait_world *world = handle;
    plait_comm *comm = handle, *made = NULL;
    plait_work *work = handle, *started = NULL;
    int64_t *input = input_room[rank->number], *output = output_room[rank->number];
    plait_fault fault = { .struct_size = sizeof fault };
    plait_profile profile = { .struct_size = sizeof profile };
    plait_world_facts facts = { .struct_size = sizeof facts };
    double line_ns;
    char whole[120];
    for (int kind = 0; kind < CALL_KINDS; kind++) {
        struct call call = { (enum call_kind)kind, PLAIT_I64, PLAIT_SUM, 0, 2 };
        snprintf(whole, sizeof whole, "%s on %s", call_name(call.kind), what);
        rank_doing(rank, "%s", whole);
        no_handle(rank, call_make(&call, comm, input, output, NULL), whole);
        no_handle(rank, call_make(&call, comm, input, output, &started), whole);
    }
    rank_doing(rank, "all functions with %s", what);
    no_handle(rank, plait_send(comm, input, 1, PLAIT_I64, 0, 0, NULL), what);
    no_handle(rank, plait_recv(comm, output, 1, PLAIT_I64, 0, 0, NULL, NULL, NULL), what);
    no_handle(rank, plait_comm_split(comm, 0, 0, NULL, &made), what);
    no_handle(rank, plait_comm_group(comm, &rank->number, 1, 0, NULL, &made), what);
    no_handle(rank, plait_comm_set_timeout(comm, 1000), what);
    no_handle(rank, plait_comm_abort(comm, "no reason"), what);
    no_handle(rank, plait_comm_fault(comm, &fault), what);
    no_handle(rank, plait_comm_measure_line(comm, &line_ns), what);
    no_handle(rank, plait_comm_set_profiling(comm, 1), what);
    no_handle(rank, plait_comm_profile(comm, &profile), what);
    no_handle(rank, plait_world_abort(world, NULL), what);
    no_handle(rank, plait_world_fault(world, &fault), what);
    no_handle(rank, plait_world_get_facts(world, &facts), what);
    no_handle(rank, plait_work_status(work), what);
    no_handle(rank, plait_work_test(work), what);
    no_handle(rank, plait_work_wait(work, -1), what);
    no_handle(rank, plait_work_fault(work, &fault), what);
    no_handle(rank, plait_work_on_done(work, NULL, NULL), what);
    if (handle != NULL) {
        no_handle(rank, plait_comm_destroy(comm), what);
        no_handle(rank, plait_world_destroy(world), what);
    }
    plait_work_release(work);
    rank_check(rank,
               plait_comm_rank(comm) == -1 && plait_comm_size(comm) == -1 &&
                   plait_comm_world_rank(comm, 0) == -1 && plait_world_rank(world) == -1 &&
                   plait_world_size(world) == -1 && plait_world_local_rank(world) == -1 &&
                   plait_world_local_size(world) == -1 && plait_world_comm(world) == NULL &&
                   plait_work_source(work) == -1 && plait_work_count(work) == 0,
               "%s has a number", what);
    rank_check(rank, plait_comm_last_plan(comm) != NULL, "%s has no last plan, not even \"\"", what);
    rank_check(rank, made == NULL && started == NULL, "%s gave a handle", what);
}

static void run_handles(struct rank *rank)
{
    plait_comm *comm = NULL;
    plait_work *work = NULL;
    char *memory = malloc(4096), *odd = memory + 1;
    memset(memory, 0xff, 4096);
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");
    rank_ok(rank, plait_barrier(rank->comm, &work), "barrier");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);

    try_handle(rank, NULL, "NULL");
    try_handle(rank, comm, "a communicator that was destroyed");
    try_handle(rank, work, "a work that was released");
    try_handle(rank, memory, "a pointer to memory");
    try_handle(rank, odd, "an odd pointer to memory");
    try_handle(rank, (void *)(intptr_t)1, "the pointer 1");
    try_handle(rank, (void *)(intptr_t)-1, "the pointer -1");
    try_handle(rank, (void *)(intptr_t)INTPTR_MAX, "the greatest pointer");
    for (int i = 0; i < 64 && rank->size == 1; i++) /* alone, or it might be another rank's */
        try_handle(rank, (void *)((uintptr_t)rank->comm ^ (uintptr_t)1 << i), "a handle with a flipped bit");
    free(memory);
    still_works(rank, "handles that are none");
}

/* A living handle of another kind. */
static void run_other_kinds(struct rank *rank)
{
    plait_fault fault = { .struct_size = sizeof fault };
    plait_work *work = NULL;
    void *comm = rank->comm, *world = rank->world;
    rank_ok(rank, plait_barrier(rank->comm, &work), "barrier");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    no_handle(rank, plait_barrier(world, NULL), "a barrier on a world");
    no_handle(rank, plait_barrier((void *)work, NULL), "a barrier on a work");
    no_handle(rank, plait_world_fault(comm, &fault), "the world fault of a communicator");
    no_handle(rank, plait_work_wait(comm, -1), "a wait for a communicator");
    no_handle(rank, plait_work_wait(world, -1), "a wait for a world");
    no_handle(rank, plait_world_destroy(comm), "destroying a communicator as a world");
    no_handle(rank, plait_comm_destroy(world), "destroying a world as a communicator");
    no_handle(rank, plait_comm_destroy((void *)work), "destroying a work as a communicator");
    plait_work_release(comm);
    plait_work_release(world);
    plait_thread_group_destroy(comm);
    still_works(rank, "handles of other kinds");
    plait_work_release(work);
    plait_work_release(work); /* twice */
}

/* After its end, a world's handles are none; an ended slot taken by another world does not revive them. */
static void run_after_destroy(struct rank *rank)
{
    plait_world *worlds[2] = { NULL };
    plait_comm *comms[2];
    for (int i = 0; i < 2; i++) {
        plait_world_options options = { .struct_size = sizeof options, .size = 1 };
        if (!rank_ok(rank, plait_world_create(&options, &worlds[i]), "a world of one"))
            return;
        comms[i] = plait_world_comm(worlds[i]);
        rank_ok(rank, plait_world_destroy(worlds[i]), "destroying it");
    }
    for (int i = 0; i < 2; i++) {
        try_handle(rank, worlds[i], "a world that was destroyed");
        try_handle(rank, comms[i], "a destroyed world's communicator");
    }
    still_works(rank, "destroyed worlds");
}

/* ---------------------------------------------------------------------- fork */

/* In the child: nothing works, nothing hangs, and the parent is not disturbed. */
static void be_child(struct rank *rank, plait_comm *split, plait_work *work)
{
    plait_comm *made = NULL;
    plait_fault fault = { .struct_size = sizeof fault };
    int64_t value = 1, sum = 0;
    alarm(10 * (unsigned)ranks_slowness());
    const plait_status got[] = {
        plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL),
        plait_barrier(split, NULL),
        plait_send(rank->comm, &value, 1, PLAIT_I64, 1, 0, NULL),
        plait_recv(rank->comm, &value, 1, PLAIT_I64, 1, 0, NULL, NULL, NULL),
        plait_comm_split(rank->comm, 0, 0, NULL, &made),
        plait_comm_abort(split, "from the child"),
        plait_world_abort(rank->world, "from the child"),
        plait_comm_destroy(split),
        plait_world_destroy(rank->world),
    };
    for (size_t i = 0; i < LENGTH(got); i++)
        rank_check(rank, got[i] == PLAIT_INVALID_USAGE, "in a child, call %zu gave %s", i,
                   plait_status_name(got[i]));
    rank_says(rank, "fork");
    const plait_status waited = plait_work_wait(work, -1);
    rank_check(rank, waited == PLAIT_INVALID_USAGE || (waited == PLAIT_OK && rank->size == 1),
               "in a child, a wait gave %s", plait_status_name(waited));
    plait_world_fault(rank->world, &fault);
    plait_work_release(work);

    plait_world *world = NULL;
    plait_world_options options = { .struct_size = sizeof options, .size = 1 };
    if (rank_ok(rank, plait_world_create(&options, &world), "a world of the child's own")) {
        rank_ok(rank, plait_allreduce(plait_world_comm(world), &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL),
                "all-reduce");
        rank_ok(rank, plait_world_destroy(world), "destroying it");
    }
    _exit(0);
}

static void run_fork(struct rank *rank)
{
    plait_comm *split = NULL;
    plait_work *work = NULL;
    int value = 1, sum = 0;
    if (!ranks_can_fork() || !rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &split), "split"))
        return;
    if (rank->number == 0)
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
    if (rank->number == 0) {
        rank_doing(rank, "a child calls");
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            be_child(rank, split, work);
        int status = 0;
        rank_check(rank, waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                   "the child ended with %#x", (unsigned)status);
    }
    rank_meet(rank);
    if (rank->number != 0)
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
    rank_ok(rank, plait_work_wait(work, -1), "the parent's work after a fork");
    rank_check(rank, sum == rank->size, "the sum is %d", sum);
    plait_work_release(work);
    rank_ok(rank, plait_barrier(split, NULL), "barrier");
    rank_ok(rank, plait_comm_destroy(split), "destroy");
    still_works(rank, "a fork");
}

/* ------------------------------------------------------------------- constants */

static void run_names(struct rank *rank)
{
    for (int status = -60; status <= 10; status++) {
        const char *name = plait_status_name((plait_status)status);
        rank_check(rank, name != NULL && name[0] != '\0', "status %d has no name", status);
        plait_remedy remedy = plait_status_remedy((plait_status)status);
        rank_check(rank, remedy >= PLAIT_REMEDY_NONE && remedy <= PLAIT_REMEDY_REPORT, "status %d: remedy %d",
                   status, remedy);
    }
    rank_check(rank,
               plait_status_remedy(PLAIT_OK) == PLAIT_REMEDY_NONE &&
                   plait_status_remedy(PLAIT_IN_PROGRESS) == PLAIT_REMEDY_NONE &&
                   plait_status_remedy(PLAIT_INVALID_USAGE) == PLAIT_REMEDY_MEND_CALL &&
                   plait_status_remedy(PLAIT_OUT_OF_RESOURCES) == PLAIT_REMEDY_RETRY &&
                   plait_status_remedy(PLAIT_MISMATCH) == PLAIT_REMEDY_GO_ON &&
                   plait_status_remedy(PLAIT_PEER_LOST) == PLAIT_REMEDY_REBUILD &&
                   plait_status_remedy((plait_status)-999) == PLAIT_REMEDY_REPORT,
               "a remedy is wrong");
    for (int i = 0; i < DATA_TYPES; i++)
        rank_check(rank, plait_type_size(data_types[i]) == data_size(data_types[i]), "the size of %s is %zu",
                   plait_type_name(data_types[i]), plait_type_size(data_types[i]));
    for (int type = -2; type < 30; type++)
        for (int op = -2; op < 20; op++) {
            bool known = type >= PLAIT_I8 && type <= PLAIT_I64_I64;
            rank_check(rank,
                       plait_type_reduces((plait_type)type, (plait_op)op) ==
                           (known && data_reduces((plait_type)type, (plait_op)op)),
                       "%s of %s", plait_op_name((plait_op)op), plait_type_name((plait_type)type));
        }
    static const int unknown[] = { 0, 23, -1, INT_MAX, INT_MIN };
    for (size_t i = 0; i < LENGTH(unknown); i++)
        rank_check(rank,
                   plait_type_size((plait_type)unknown[i]) == 0 &&
                       strcmp(plait_type_name((plait_type)unknown[i]), "?") == 0 &&
                       strcmp(plait_op_name((plait_op)unknown[i]), "?") == 0,
                   "%d is a type", unknown[i]);
    rank_check(rank, strcmp(plait_version(), "0.1.0") == 0, "version %s", plait_version());
}

#define EACH(title, function)                                                                                \
    { title, function, { .way = RANKS_THREADS, .size = 1 }, NULL },                                          \
        { title, function, { .way = RANKS_THREADS, .size = 2 }, NULL },                                      \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = 5 }, NULL                                           \
    }

static const struct scenario scenarios[] = {
    EACH("types, operations, roots", run_values),
    EACH("counts that overflow", run_counts),
    EACH("NULL buffers", run_null),
    EACH("empty buffers", run_empty),
    EACH("scans of averages", run_scan_of_average),
    EACH("overlapping buffers", run_overlaps),
    EACH("peers and tags", run_p2p),
    EACH("one rank errs, then calls rightly", run_one_errs),
    EACH("splits, groups, structures", run_comm_arguments),
    { "a world's options", run_world_options, { .way = RANKS_THREADS, .size = 1 }, NULL },
    { "the environment's words", run_environment, { .way = RANKS_THREADS, .size = 1 }, NULL },
    EACH("handles that are none", run_handles),
    EACH("handles of another kind", run_other_kinds),
    { "handles after the world's end", run_after_destroy, { .way = RANKS_THREADS, .size = 1 }, NULL },
    { "handles after the world's end", run_after_destroy, { .way = RANKS_THREADS, .size = 2 }, NULL },
    { "a forked child", run_fork, { .way = RANKS_THREADS, .size = 1 }, NULL },
    { "a forked child", run_fork, { .way = RANKS_FILE, .size = 1 }, NULL },
    { "a forked child", run_fork, { .way = RANKS_FILE, .size = 3 }, NULL },
    { "names and remedies", run_names, { .way = RANKS_THREADS, .size = 1 }, NULL },
};

int main(void)
{
    return scenarios_run("arguments", scenarios, LENGTH(scenarios));
}
