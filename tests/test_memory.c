/* Memory that peers read in place: allocating, registering, and collectives of such buffers, of private ones,
 * and of both at once. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"

enum { PAGE = 4096 };

static unsigned char *private_pages(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static void fill(unsigned char *memory, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i++)
        memory[i] = (unsigned char)mix(seed + i);
}

static bool is_filled(const unsigned char *memory, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i++)
        if (memory[i] != (unsigned char)mix(seed + i))
            return false;
    return true;
}

static bool is_zero(const unsigned char *memory, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (memory[i] != 0)
            return false;
    return true;
}

static bool refused(struct rank *rank, plait_status got, plait_status wanted, const char *says)
{
    return rank_status(rank, got, wanted, says) && rank_says(rank, says);
}

/* ------------------------------------------------------------------ allocating */

static void run_alloc(struct rank *rank)
{
    static const size_t sizes[] = { 1, PAGE, PAGE + 1, 3 << 20, 100 };
    unsigned char *memory[LENGTH(sizes)];
    for (int round = 0; round < 2; round++) { /* again where other bytes have been */
        for (size_t i = 0; i < LENGTH(sizes); i++) {
            void *given = NULL;
            if (!rank_ok(rank, plait_mem_alloc(rank->world, sizes[i], &given), "allocating"))
                return;
            memory[i] = given;
            rank_check(rank, (uintptr_t)given % PAGE == 0, "%zu bytes are at %p", sizes[i], given);
            rank_check(rank, is_zero(given, sizes[i]), "%zu bytes are not zero", sizes[i]);
            fill(given, sizes[i], i);
        }
        for (size_t i = 0; i < LENGTH(sizes); i++)
            rank_check(rank, is_filled(memory[i], sizes[i], i), "%zu bytes have changed", sizes[i]);
        for (size_t i = 0; i < LENGTH(sizes); i++)
            rank_ok(rank, plait_mem_free(rank->world, memory[(i * 3) % LENGTH(sizes)]), "freeing");
    }
}

static void run_bad_alloc(struct rank *rank)
{
    void *memory = NULL;
    unsigned char *private = private_pages(PAGE);
    refused(rank, plait_mem_alloc(NULL, 1, &memory), PLAIT_INVALID_ARGUMENT, "world is NULL");
    refused(rank, plait_mem_alloc(rank->world, 1, NULL), PLAIT_INVALID_ARGUMENT, "memory is NULL");
    refused(rank, plait_mem_alloc(rank->world, 0, &memory), PLAIT_INVALID_ARGUMENT, "size is 0");
    refused(rank, plait_mem_alloc(rank->world, SIZE_MAX, &memory), PLAIT_OUT_OF_MEMORY, "in a row");
    refused(rank, plait_mem_alloc(rank->world, (size_t)1 << 50, &memory), PLAIT_OUT_OF_MEMORY, "in a row");
    rank_check(rank, memory == NULL, "a failed allocation gave %p", memory);

    rank_ok(rank, plait_mem_alloc(rank->world, 3 * PAGE, &memory), "allocating");
    rank_ok(rank, plait_mem_free(rank->world, NULL), "freeing NULL");
    refused(rank, plait_mem_free(NULL, memory), PLAIT_INVALID_ARGUMENT, "world is NULL");
    refused(rank, plait_mem_free(rank->world, private), PLAIT_INVALID_USAGE, "not allocated");
    refused(rank, plait_mem_free(rank->world, (char *)memory + 5), PLAIT_INVALID_USAGE, "5 bytes into");
    rank_ok(rank, plait_mem_register(rank->world, (char *)memory + 1, 77), "registering a part");
    refused(rank, plait_mem_free(rank->world, memory), PLAIT_INVALID_USAGE, "still registered");
    rank_ok(rank, plait_mem_deregister(rank->world, (char *)memory + 1), "deregistering a part");
    rank_ok(rank, plait_mem_free(rank->world, memory), "freeing");
    refused(rank, plait_mem_free(rank->world, memory), PLAIT_INVALID_USAGE, "freed already");
    munmap(private, PAGE);
}

/* ----------------------------------------------------------------- registering */

static void run_register(struct rank *rank)
{
    const size_t size = 5 * PAGE;
    unsigned char *buffer = private_pages(size);
    fill(buffer, size, 1);
    if (!rank_ok(rank, plait_mem_register(rank->world, buffer, size), "registering"))
        return;
    rank_check(rank, is_filled(buffer, size, 1), "registering changed the content");
    fill(buffer, size, 2);
    rank_ok(rank, plait_mem_register(rank->world, buffer, size), "registering again");
    refused(rank, plait_mem_register(rank->world, buffer + PAGE, PAGE), PLAIT_INVALID_ARGUMENT, "overlap");
    refused(rank, plait_mem_register(rank->world, buffer, size - PAGE), PLAIT_INVALID_ARGUMENT, "overlap");
    refused(rank, plait_mem_free(rank->world, buffer), PLAIT_INVALID_USAGE, "registered, not allocated");
    rank_ok(rank, plait_mem_deregister(rank->world, buffer), "deregistering once");
    refused(rank, plait_mem_deregister(rank->world, buffer + 9), PLAIT_INVALID_USAGE, "9 bytes into");
    rank_ok(rank, plait_mem_deregister(rank->world, buffer), "deregistering twice");
    rank_check(rank, is_filled(buffer, size, 2), "deregistering changed the content");
    refused(rank, plait_mem_deregister(rank->world, buffer), PLAIT_INVALID_USAGE, "not registered");
    munmap(buffer, size);
}

/* Three pages whose middle isn't there: at an address of its rank's own, far from where the
 * system puts other mappings, so that no other thread fills the hole. */
static unsigned char *torn_pages(struct rank *rank)
{
    void *at = (void *)(UINT64_C(0x200000000000) + (uint64_t)rank->number * 1024 * PAGE);
    unsigned char *pages = mmap(at, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rank_check(rank, pages == at, "the address %p is taken", at);
    munmap(pages + PAGE, PAGE);
    return pages;
}

static void run_bad_register(struct rank *rank)
{
    unsigned char *buffer = private_pages(3 * PAGE);
    unsigned char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *program = fopen("/proc/self/exe", "re");
    unsigned char *file = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(program), 0);
    refused(rank, plait_mem_register(rank->world, NULL, PAGE), PLAIT_INVALID_ARGUMENT, "at least one byte");
    refused(rank, plait_mem_register(rank->world, buffer, 0), PLAIT_INVALID_ARGUMENT, "at least one byte");
    refused(rank, plait_mem_register(rank->world, buffer, SIZE_MAX), PLAIT_INVALID_ARGUMENT, "can't hold");
    refused(rank, plait_mem_register(rank->world, buffer + 8, PAGE), PLAIT_UNSUPPORTED, "whole pages");
    refused(rank, plait_mem_register(rank->world, buffer, PAGE + 8), PLAIT_UNSUPPORTED, "whole pages");
    refused(rank, plait_mem_register(rank->world, shared, PAGE), PLAIT_UNSUPPORTED, "shared with other");
    refused(rank, plait_mem_register(rank->world, file, PAGE), PLAIT_UNSUPPORTED, "belongs to a file");
    unsigned char *here = (unsigned char *)((uintptr_t)__builtin_frame_address(0) / PAGE * PAGE);
    refused(rank, plait_mem_register(rank->world, here - 4 * PAGE, 5 * PAGE), PLAIT_UNSUPPORTED, "stack");
    mprotect(buffer + PAGE, PAGE, PROT_READ);
    refused(rank, plait_mem_register(rank->world, buffer, 3 * PAGE), PLAIT_UNSUPPORTED, "read and written");
    unsigned char *torn = torn_pages(rank);
    refused(rank, plait_mem_register(rank->world, torn, 3 * PAGE), PLAIT_UNSUPPORTED, "not mapped");
    refused(rank, plait_mem_deregister(rank->world, buffer), PLAIT_INVALID_USAGE, "not registered");
    munmap(torn, 3 * PAGE);
    munmap(buffer, 3 * PAGE);
    munmap(shared, PAGE);
    munmap(file, PAGE);
    fclose(program);
}

/* What is registered outlives the world, as private memory; what is allocated goes with it. */
static void run_outlive(struct rank *rank)
{
    const size_t size = 3 * PAGE;
    unsigned char *buffer = private_pages(size);
    void *memory = NULL;
    plait_world *world = rank->world;
    fill(buffer, size, 3);
    rank_ok(rank, plait_mem_alloc(world, size, &memory), "allocating");
    rank_ok(rank, plait_mem_register(world, buffer, size), "registering");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_ok(rank, plait_world_destroy(world), "destroying the world");
    rank->world = NULL;
    rank_check(rank, is_filled(buffer, size, 3), "the end of the world changed the content");
    fill(buffer, size, 4);
    refused(rank, plait_mem_free(world, memory), PLAIT_INVALID_USAGE, "not a living world");
    refused(rank, plait_mem_deregister(world, buffer), PLAIT_INVALID_USAGE, "not a living world");
    munmap(buffer, size);
}

/* ------------------------------------------------------------------------ in use */

enum { USED = 64 * 1024 };

static void *call_blocking(void *context)
{
    struct rank *rank = ((void **)context)[0];
    float *memory = ((void **)context)[1];
    rank_ok(rank, plait_allreduce(rank->comm, memory, memory, USED / 4, PLAIT_F32, PLAIT_SUM, NULL),
            "all-reduce");
    return NULL;
}

/* Neither a work's memory nor that of another thread's call can be taken away. */
static void run_in_use(struct rank *rank)
{
    void *memory = NULL;
    unsigned char *buffer = private_pages(USED);
    plait_work *work = NULL;
    pthread_t thread;
    rank_ok(rank, plait_mem_alloc(rank->world, 2 * USED, &memory), "allocating");
    rank_ok(rank, plait_mem_register(rank->world, buffer, USED), "registering");
    rank_meet(rank);
    if (rank->number == 0) {
        rank_ok(rank, plait_allreduce(rank->comm, buffer, memory, USED / 4, PLAIT_F32, PLAIT_SUM, &work),
                "all-reduce");
        refused(rank, plait_mem_free(rank->world, memory), PLAIT_INVALID_USAGE,
                "all-reduce of 16384 f32, sum");
        refused(rank, plait_mem_deregister(rank->world, buffer), PLAIT_INVALID_USAGE,
                "in use by the all-reduce");
        rank_meet(rank);
    } else {
        rank_meet(rank);
        rank_ok(rank, plait_allreduce(rank->comm, buffer, memory, USED / 4, PLAIT_F32, PLAIT_SUM, &work),
                "all-reduce");
    }
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);
    rank_ok(rank, plait_mem_deregister(rank->world, buffer), "deregistering");

    void *context[] = { rank, memory };
    if (rank->number == 0) {
        pthread_create(&thread, NULL, call_blocking, context);
        for (int i = 0; i < 100 && plait_comm_rank(rank->comm) == 0; i++) {
            sleep_ms(5);
            void *probe = NULL; /* a question to the driver, in the midst of its wait */
            rank_ok(rank, plait_mem_alloc(rank->world, 1, &probe), "allocating");
            rank_ok(rank, plait_mem_free(rank->world, probe), "freeing");
        }
        refused(rank, plait_mem_free(rank->world, memory), PLAIT_INVALID_USAGE, "in use by the all-reduce");
        rank_meet(rank);
        pthread_join(thread, NULL);
    } else {
        rank_meet(rank);
        call_blocking(context);
    }
    rank_ok(rank, plait_mem_free(rank->world, memory), "freeing");
    munmap(buffer, USED);
}

static void free_in_callback(void *context, plait_work *work, plait_status status)
{
    (void)work;
    void **both = context;
    struct rank *rank = both[0];
    rank_ok(rank, status, "all-reduce");
    rank_ok(rank, plait_mem_free(rank->world, both[1]), "freeing in a callback");
}

static void run_callback(struct rank *rank)
{
    void *memory = NULL;
    plait_work *work = NULL;
    rank_ok(rank, plait_mem_alloc(rank->world, USED, &memory), "allocating");
    void *context[] = { rank, memory };
    rank_ok(rank, plait_allreduce(rank->comm, memory, memory, USED / 4, PLAIT_F32, PLAIT_SUM, &work),
            "all-reduce");
    rank_ok(rank, plait_work_on_done(work, free_in_callback, context), "callback");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
}

/* ------------------------------------------------------------------- collectives */

/* Which ranks' buffers are registered. */
enum mixture { ALL_OF_THEM, NONE_OF_THEM, FIRST_ONLY, ODD_ONES, INPUTS_ONLY, MIXTURES };

static bool is_registered(enum mixture mixture, int rank, bool input)
{
    switch (mixture) {
    case ALL_OF_THEM: return true;
    case FIRST_ONLY: return rank == 0;
    case ODD_ONES: return rank % 2 == 1;
    case INPUTS_ONLY: return input;
    default: return false;
    }
}

/* Under the forced plan all that can does run in place; what comes out must be right in any mixture. */
static void run_mixtures(struct rank *rank)
{
    enum { MOST = 200000 };
    const uint64_t counts = test_settings()->whole ? 12 : 4; /* ./test --all tries more */
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, MOST * 8, rank->size), "no memory"))
        return;
    for (int mixture = 0; mixture < MIXTURES; mixture++) {
        struct guarded *rooms[] = { &trial.input_room, &trial.output_room };
        for (int i = 0; i < 2; i++)
            if (is_registered((enum mixture)mixture, rank->number, i == 0))
                rank_ok(rank, plait_mem_register(rank->world, rooms[i]->room, rooms[i]->room_size),
                        "registering");
        for (uint64_t i = 0; i < counts * CALL_KINDS * (uint64_t)test_settings()->scale / 100; i++) {
            uint64_t random = mix(test_settings()->seed + i + (uint64_t)mixture * 1000);
            static const plait_type types[] = { PLAIT_F32, PLAIT_BF16, PLAIT_I64, PLAIT_U8 };
            struct call call = { .kind = (enum call_kind)(i % CALL_KINDS),
                                 .type = types[random % LENGTH(types)],
                                 .op = random & 64 ? PLAIT_SUM : PLAIT_MAX,
                                 .root = (int)(random >> 8 & 255) % rank->size,
                                 .count = (size_t)(random >> 16) % (i % 4 == 0 ? MOST : 3000) };
            struct layout layout = layout_drawn(call.kind, mix(random + (uint64_t)rank->number));
            layout.special = random & 128;
            if (!trial_run(rank, &trial, rank->comm, &call, &layout, random))
                break;
        }
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        for (int i = 0; i < 2; i++)
            if (is_registered((enum mixture)mixture, rank->number, i == 0))
                rank_ok(rank, plait_mem_deregister(rank->world, rooms[i]->room), "deregistering");
    }
    trial_close(&trial);
}

/* Private, then registered, then on another communicator: the same bits, and in place when told. */
static void run_bits(struct rank *rank)
{
    static const size_t counts[] = { 700, 4099, 300001 };
    const size_t most = 300001 * 4;
    void *input = NULL, *output = NULL;
    float *private_input = malloc(most), *private_output = malloc(most);
    plait_comm *comm = NULL;
    rank_ok(rank, plait_mem_alloc(rank->world, most, &input), "allocating");
    rank_ok(rank, plait_mem_alloc(rank->world, most, &output), "allocating");
    rank_ok(rank, plait_comm_split(rank->comm, 0, rank->number, NULL, &comm), "splitting");
    for (size_t i = 0; i < most / 4; i++)
        private_input[i] = (float)(int32_t)mix(i * 64 + (uint64_t)rank->number) * 0x1p-20f;
    memcpy(input, private_input, most);
    for (size_t i = 0; i < LENGTH(counts) && !rank_failed(rank); i++) {
        size_t count = counts[i];
        for (int again = 0; again < 2; again++) {
            plait_comm *with = again ? comm : rank->comm;
            rank_ok(rank,
                    plait_allreduce(with, private_input, private_output, count, PLAIT_F32, PLAIT_SUM, NULL),
                    "private");
            rank_check(rank, strncmp(plait_comm_last_plan(with), "direct-", 7) == 0, "private went by %s",
                       plait_comm_last_plan(with));
            rank_ok(rank, plait_allreduce(with, input, output, count, PLAIT_F32, PLAIT_SUM, NULL),
                    "registered");
            rank_check(rank, strcmp(plait_comm_last_plan(with), "in-place-two-phase") == 0,
                       "registered went by %s", plait_comm_last_plan(with));
            rank_check(rank, memcmp(private_output, output, count * 4) == 0, "%zu sums differ in their bits",
                       count);
            memset(output, 0, most);
        }
    }
    rank_ok(rank, plait_comm_destroy(comm), "destroying");
    free(private_input);
    free(private_output);
}

/* Where it pays, and by itself: no plan is forced. What peers have read is staged if its owner writes it again, unless
 * it is large. */
static void run_chosen(struct rank *rank)
{
    const size_t count = 1 << 20;
    void *memory = NULL, *output = NULL;
    rank_ok(rank, plait_mem_alloc(rank->world, count * 4, &memory), "allocating");
    rank_ok(rank, plait_mem_alloc(rank->world, count * 4, &output), "allocating");
    rank_ok(rank, plait_allreduce(rank->comm, memory, memory, count / 16, PLAIT_F32, PLAIT_SUM, NULL),
            "all-reduce in place");
    rank_check(rank, strncmp(plait_comm_last_plan(rank->comm), "direct-", 7) == 0, "in place it went by %s",
               plait_comm_last_plan(rank->comm));
    rank_ok(rank, plait_allreduce(rank->comm, memory, output, count, PLAIT_F32, PLAIT_SUM, NULL),
            "all-reduce");
    rank_check(rank, strcmp(plait_comm_last_plan(rank->comm), "in-place-two-phase") == 0, "it went by %s",
               plait_comm_last_plan(rank->comm));
    rank_ok(rank, plait_broadcast(rank->comm, memory, count, PLAIT_F32, rank->size - 1, NULL), "broadcast");
    rank_check(rank, strcmp(plait_comm_last_plan(rank->comm), "in-place-one-shot") == 0, "it went by %s",
               plait_comm_last_plan(rank->comm));
    rank_status(rank,
                plait_allreduce(rank->comm, memory, memory, count - (size_t)(rank->number == 1), PLAIT_F32,
                                PLAIT_SUM, NULL),
                PLAIT_MISMATCH, "counts that differ");
    rank_check(rank, is_zero(memory, count * 4), "a mismatch touched the output");
}

/* ---------------------------------------------------------------------- a death */

/* Until a peer is gone; reading its memory must go on without a fault. */
static void run_until_death(struct rank *rank)
{
    const size_t count = 1 << 21;
    void *memory = NULL;
    plait_status status = PLAIT_OK;
    rank_ok(rank, plait_mem_alloc(rank->world, count * 4, &memory), "allocating");
    while (status == PLAIT_OK) {
        status = plait_allreduce(rank->comm, memory, memory, count, PLAIT_F32, PLAIT_SUM, NULL);
        atomic_fetch_add((atomic_int *)rank->shared, 1);
    }
    rank_status(rank, status, PLAIT_PEER_LOST, "all-reduce with a dead rank");
    rank_ok(rank, plait_mem_free(rank->world, memory), "freeing");
}

static void a_reader_survives_its_peer(void **state)
{
    (void)state;
    if (!ranks_can_fork())
        skip();
    struct ranks_setup setup = { .way = RANKS_FILE, .size = 3, .shared_size = sizeof(atomic_int) };
    struct ranks *ranks = ranks_start(&setup, run_until_death, NULL);
    for (int i = 0; i < 10000 && atomic_load((atomic_int *)ranks_shared(ranks)) < 30; i++)
        sleep_ms(5);
    ranks_excuse(ranks, 1);
    ranks_signal(ranks, 1, SIGKILL);
    ranks_finish(ranks);
}

#define BOTH(title, function, ranks, name)                                                                   \
    { title " (threads)", function, { .way = RANKS_THREADS, .size = ranks, .plan = name }, NULL },           \
    {                                                                                                        \
        title " (processes)", function, { .way = RANKS_FILE, .size = ranks, .plan = name }, NULL             \
    }

static const struct scenario scenarios[] = {
    BOTH("allocating", run_alloc, 1, NULL),
    BOTH("allocating", run_alloc, 3, NULL),
    BOTH("bad allocations", run_bad_alloc, 2, NULL),
    BOTH("registering", run_register, 2, NULL),
    BOTH("bad registrations", run_bad_register, 2, NULL),
    BOTH("what outlives the world", run_outlive, 2, NULL),
    BOTH("memory in use", run_in_use, 2, NULL),
    BOTH("freeing in a callback", run_callback, 3, NULL),
    BOTH("mixtures", run_mixtures, 2, "in-place"),
    BOTH("mixtures", run_mixtures, 3, "in-place"),
    BOTH("mixtures", run_mixtures, 5, NULL),
    BOTH("bits", run_bits, 2, "in-place"),
    BOTH("bits", run_bits, 5, "in-place"),
    BOTH("chosen by cost", run_chosen, 2, NULL),
};

int main(void)
{
    const struct CMUnitTest deaths[] = { cmocka_unit_test(a_reader_survives_its_peer) };
    int failed = scenarios_run("memory", scenarios, LENGTH(scenarios));
    return failed + cmocka_run_group_tests_name("memory and deaths", deaths, NULL, NULL);
}
