/* What ranks and communicators take of memory: a lane at the first operation that needs one, a refusal that fails
 * on all ranks, little for a further communicator, and worlds of very many ranks. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/handle.h"
#include "calls.h"
#include "start.h"
#include "transport/segment.h"
#include "world.h"

/* ------------------------------------------------- memory, given and refused */

static _Atomic bool memory_is_short;
static _Atomic size_t reserved_bytes;

/* Instead of the C library's. */
int posix_fallocate(int fd, off_t offset, off_t size)
{
    if (atomic_load(&memory_is_short))
        return ENOMEM;
    atomic_fetch_add(&reserved_bytes, (size_t)size);
    return fallocate(fd, 0, offset, size) == 0 ? 0 : errno;
}

/* Bytes behind this process's segment; 0 if it has none. */
static size_t segment_bytes(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        char link[32], target[64] = "";
        struct stat facts;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) > 0 && strstr(target, "memfd:plait") != NULL &&
            fstat(fd, &facts) == 0)
            return (size_t)facts.st_blocks * 512;
    }
    return 0;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static plait_comm *twin(struct rank *rank)
{
    plait_comm *comm = NULL;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "a communicator");
    return comm;
}

/* A sum whose operation and result are as wanted: PLAIT_OUT_OF_MEMORY, and the output as it was, if a rank is to be
 * named. */
static bool sum(struct rank *rank, plait_comm *comm, int32_t *input, int32_t *output, size_t count,
                int refuser)
{
    char name[16];
    for (size_t i = 0; i < count; i++) {
        input[i] = (int32_t)i;
        output[i] = -7;
    }
    plait_status status = plait_allreduce(comm, input, output, count, PLAIT_I32, PLAIT_SUM, NULL);
    snprintf(name, sizeof name, "rank %d ", refuser);
    if (!rank_status(rank, status, refuser < 0 ? PLAIT_OK : PLAIT_OUT_OF_MEMORY, "an all-reduce") ||
        (refuser >= 0 && !rank_says(rank, name)))
        return false;
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += output[i] != (refuser < 0 ? (int32_t)i * rank->size : -7);
    return rank_check(rank, wrong == 0, "%zu of %zu elements are wrong", wrong, count);
}

enum { FEW = 100, MANY = 50000 };

static int32_t numbers[2][MANY];

static void set_short(bool value)
{
    atomic_store(&memory_is_short, value);
}

static void check_fault(struct rank *rank, plait_comm *comm, int refuser)
{
    plait_fault fault = { .struct_size = sizeof fault };
    rank_ok(rank, plait_comm_fault(comm, &fault), "asking for the fault");
    rank_check(rank, fault.kind == PLAIT_FAULT_NO_MEMORY && fault.culprit == refuser,
               "the fault is of kind %d, culprit %d", fault.kind, fault.culprit);
}

/* One rank after another is short of memory, then all. */
static void run_refused(struct rank *rank)
{
    for (int refuser = 0; refuser <= rank->size && !rank_failed(rank); refuser++) {
        plait_comm *comm = twin(rank);
        int named = refuser % rank->size;
        sum(rank, comm, numbers[0], numbers[1], FEW, -1);
        set_short(rank->number == refuser || refuser == rank->size);
        for (int again = 0; again < 2; again++) {
            sum(rank, comm, numbers[0], numbers[1], MANY, named);
            check_fault(rank, comm, named);
            sum(rank, comm, numbers[0], numbers[1], FEW, -1);
        }
        set_short(false);
        sum(rank, comm, numbers[0], numbers[1], MANY, -1);
        sum(rank, comm, numbers[0], numbers[1], FEW, -1);
        rank_ok(rank, plait_comm_destroy(comm), "destroying it");
    }
}

/* Without waiting in the call; a v-form, whose counts are compared first; and two works after each other. */
static void run_refused_works(struct rank *rank)
{
    plait_comm *comm = twin(rank);
    plait_work *works[3] = { NULL };
    size_t counts[RANKS_MOST];
    for (int peer = 0; peer < rank->size; peer++)
        counts[peer] = 5000u + (size_t)peer;
    set_short(rank->number == 1);
    rank_ok(rank, plait_allreduce(comm, numbers[0], numbers[1], MANY, PLAIT_I32, PLAIT_SUM, &works[0]),
            "a start");
    rank_ok(rank,
            plait_allgatherv(comm, numbers[0], counts[rank->number], numbers[1], counts, NULL, PLAIT_I32,
                             &works[1]),
            "a start");
    rank_ok(rank, plait_barrier(comm, &works[2]), "a start");
    for (int i = 0; i < 3; i++) {
        rank_status(rank, plait_work_wait(works[i], -1), i < 2 ? PLAIT_OUT_OF_MEMORY : PLAIT_OK, "the work");
        if (i < 2)
            rank_says(rank, "rank 1");
        plait_work_release(works[i]);
    }
    set_short(false);
    rank_ok(
        rank,
        plait_allgatherv(comm, numbers[0], counts[rank->number], numbers[1], counts, NULL, PLAIT_I32, NULL),
        "an all-gatherv");
}

/* Buffers that are read in place need no lane; where one rank's can't be, all need theirs. */
static void run_registered(struct rank *rank)
{
    plait_comm *comm = twin(rank);
    void *memory = NULL;
    if (!rank_ok(rank, plait_mem_alloc(rank->world, 2 * sizeof numbers[0], &memory), "memory"))
        return;
    int32_t *input = memory, *output = input + MANY;
    rank_meet(rank);
    set_short(true);
    sum(rank, comm, input, output, MANY, -1);
    rank_check(rank, strncmp(plait_comm_last_plan(comm), "in-place", 8) == 0, "the plan was %s",
               plait_comm_last_plan(comm));
    set_short(rank->number == 1);
    sum(rank, comm, rank->number == 0 ? numbers[0] : input, output, MANY, 1);
    set_short(false);
    sum(rank, comm, rank->number == 0 ? numbers[0] : input, output, MANY, -1);
    sum(rank, comm, input, output, MANY, -1);
    rank_ok(rank, plait_mem_free(rank->world, memory), "freeing it");
}

/* A refusal is no mismatch, and a mismatch takes no lane: the next operation changes to it as if there had been none. */
static void run_mismatch(struct rank *rank)
{
    plait_comm *comm = twin(rank);
    size_t count = rank->number == 0 ? MANY : FEW;
    rank_status(rank, plait_allreduce(comm, numbers[0], numbers[1], count, PLAIT_I32, PLAIT_SUM, NULL),
                PLAIT_MISMATCH, "an all-reduce of different counts");
    for (size_t size = 1; size < MANY; size = size * 3 + 1)
        sum(rank, comm, numbers[0], numbers[1], size, -1);
}

/* -------------------------------------------------------------------- amounts */

enum { COMMUNICATORS = 100, MOST_EACH = 64 << 10, MOST_IN_ALL = 8 << 20 };

/* A further communicator: its seat, some heap, and nothing else. Its lane comes at need and goes with it. */
static void run_further(struct rank *rank)
{
    static plait_comm *comms[COMMUNICATORS];
    size_t reserved = atomic_load(&reserved_bytes), heap = heap_bytes();
    for (int i = 0; i < COMMUNICATORS && !rank_failed(rank); i++) {
        comms[i] = twin(rank);
        sum(rank, comms[i], numbers[0], numbers[1], FEW, -1);
    }
    reserved = atomic_load(&reserved_bytes) - reserved;
    heap = heap_bytes() - heap;
    rank_check(rank, reserved == (size_t)COMMUNICATORS * CHANNEL_SIZE, "%zu bytes were reserved", reserved);
    rank_check(rank, reserved + heap <= (size_t)COMMUNICATORS * MOST_EACH,
               "%zu bytes of segment and %zu of heap", reserved, heap);

    sum(rank, comms[COMMUNICATORS - 1], numbers[0], numbers[1], MANY, -1);
    const struct comm *last = handle_find(HANDLE_COMM, comms[COMMUNICATORS - 1]);
    rank_check(rank, last->group.staging.size == SEAT_STAGING_BYTES, "one beyond those with lanes has one");
    size_t before = segment_bytes();
    sum(rank, comms[5], numbers[0], numbers[1], MANY, -1);
    size_t with_lane = segment_bytes();
    rank_check(rank, with_lane == before + FURTHER_LANE_BYTES, "from %zu to %zu bytes", before, with_lane);
    rank_ok(rank, plait_comm_destroy(comms[5]), "destroying it");
    rank_check(rank, segment_bytes() == before, "%zu bytes are left of %zu", segment_bytes(), before);
    for (int i = 0; i < COMMUNICATORS; i++)
        if (i != 5)
            rank_ok(rank, plait_comm_destroy(comms[i]), "destroying one");
}

/* All that a rank takes, whatever it does with its world. */
static void run_whole(struct rank *rank)
{
    size_t heap = heap_bytes();
    plait_world_options options = rank_options(rank);
    if (!rank_ok(rank, plait_world_create(&options, &rank->world), "creating the world"))
        return;
    rank->comm = plait_world_comm(rank->world);
    static const size_t counts[] = { 3, 1001, 300007 };
    for (int i = 0; i < (int)LENGTH(counts) * CALL_KINDS && !rank_failed(rank); i++) {
        struct call call = { (enum call_kind)(i % CALL_KINDS), i % 2 == 0 ? PLAIT_F32 : PLAIT_BF16, PLAIT_SUM,
                             0, counts[i / CALL_KINDS] };
        struct trial trial;
        if (!rank_check(rank, trial_open(&trial, counts[i / CALL_KINDS] * 4, rank->size),
                        "no memory for the test"))
            return;
        struct layout layout = { .in_place = false };
        trial_run(rank, &trial, rank->comm, &call, &layout, (uint64_t)i);
        trial_close(&trial);
    }
    heap = heap_bytes() - heap;
    rank_check(rank, segment_bytes() + heap <= MOST_IN_ALL, "%zu bytes of segment and %zu of heap",
               segment_bytes(), heap);
}

/* Whatever the caches are, for up to 8 ranks there is room for half as much beside the lane. */
static void lanes_are_short(void **state)
{
    (void)state;
    for (int size = 1; size <= 256; size++)
        for (size_t l2 = 0; l2 <= (size_t)64 << 20; l2 = l2 * 2 + (256 << 10)) {
            struct world world = { .size = size, .machine = { .l2_bytes = l2 } };
            assert_in_range(world_lane_size(&world), 256 << 10, MOST_IN_ALL / 2);
        }
}

/* ----------------------------------------------------------------- many ranks */

static void run_many(struct rank *rank)
{
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, 2048, rank->size), "no memory for the test"))
        return;
    static const size_t counts[] = { 150 }; /* more than notices carry */
    for (int i = 0; i < (int)LENGTH(counts) * CALL_KINDS && !rank_failed(rank); i++) {
        struct call call = { (enum call_kind)(i % CALL_KINDS), PLAIT_I32, PLAIT_SUM, rank->size - 1,
                             counts[i / CALL_KINDS] };
        struct layout layout = { .in_place = false };
        trial_run(rank, &trial, rank->comm, &call, &layout, (uint64_t)i);
    }
    trial_close(&trial);
}

#define ROW(title, function, meeting, ranks)                                                                 \
    {                                                                                                        \
        title, function, { .way = meeting, .size = ranks }, NULL                                             \
    }
#define WHOLE(ranks)                                                                                         \
    {                                                                                                        \
        "all memory of a rank", run_whole, { .way = RANKS_FILE, .size = ranks, .bare = true }, NULL          \
    }

int main(void)
{
    const struct scenario scenarios[] = {
        ROW("short of memory", run_refused, RANKS_FILE, 2),
        ROW("short of memory", run_refused, RANKS_FILE, 5),
        ROW("short of memory, works", run_refused_works, RANKS_FILE, 3),
        { "short of memory, registered",
          run_registered,
          { .way = RANKS_FILE, .size = 3, .plan = "in-place" },
          NULL },
        ROW("a mismatch at the first need", run_mismatch, RANKS_FILE, 4),
        ROW("further communicators", run_further, RANKS_FILE, 2),
        ROW("further communicators", run_further, RANKS_FILE, 8),
        WHOLE(1),
        WHOLE(2),
        WHOLE(3),
        WHOLE(4),
        WHOLE(8),
        ROW("many processes", run_many, RANKS_FILE, ranks_slowness() > 1 ? 24 : 64),
        ROW("many threads", run_many, RANKS_THREADS, ranks_slowness() > 1 ? 100 : 256),
    };
    const struct CMUnitTest tests[] = { cmocka_unit_test(lanes_are_short) };
    int failures = cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
    return failures + scenarios_run("memory of communicators", scenarios, LENGTH(scenarios));
}
