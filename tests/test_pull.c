/* Private memory that peers pull: the copy itself, then every collective that moves blocks, in both ways. */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/pull.h"
#include "ranks.h"

enum { PAGE = 4096, LARGE = 1 << 20 };

static void pull_copies(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, PAGE - 1, PAGE + 1, LARGE - 7 };
    unsigned char *from = malloc(LARGE), *to = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        from[i] = (unsigned char)mix(i);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        memset(to, 0xa5, LARGE);
        assert_int_equal(pull(getpid(), to + 3, (uintptr_t)from + 5, sizes[i]), 0);
        assert_memory_equal(to + 3, from + 5, sizes[i]);
        assert_int_equal(to[2], 0xa5);
        assert_int_equal(to[3 + sizes[i]], 0xa5);
    }
    free(from);
    free(to);
}

static void pull_tells_what_is_wrong(void **state)
{
    (void)state;
    unsigned char to[2 * PAGE];
    unsigned char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(pull(getpid(), to, (uintptr_t)pages + PAGE, 1), EFAULT);
    assert_int_equal(pull(getpid(), to, (uintptr_t)pages, 2 * PAGE),
                     EFAULT); /* the first half could be had */
    munmap(pages, 2 * PAGE);

    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    assert_int_equal(pull(child, to, (uintptr_t)to, 1), ESRCH);
}

/* -------------------------------------------------------------- collectives */

static unsigned char byte_of(uint64_t call, int rank, size_t index)
{
    return (unsigned char)mix(call << 40 | (uint64_t)rank << 32 | index);
}

static bool holds(struct rank *rank, const unsigned char *got, uint64_t call, int from, size_t first,
                  size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (got[i] != byte_of(call, from, first + i))
            return rank_check(rank, false, "byte %zu of rank %d's is wrong", first + i, from);
    return true;
}

struct blocks {
    unsigned char *input, *output;
    size_t room; /* of each, in blocks */
};

static void fill(const struct blocks *data, uint64_t call, int rank, size_t count)
{
    for (size_t i = 0; i < data->room * count; i++)
        data->input[i] = byte_of(call, rank, i);
    memset(data->output, 0, data->room * count);
}

static bool check_one_way(struct rank *rank, const struct blocks *data, uint64_t call, size_t count,
                          char last_plan[64])
{
    int me = rank->number, root = (int)(call % (uint64_t)rank->size);
    bool good = true;
    fill(data, call, me, count);
    if (!rank_ok(rank, plait_allgather(rank->comm, data->input, data->output, count, PLAIT_U8, NULL),
                 "all-gather"))
        return false;
    for (int from = 0; from < rank->size; from++)
        good = holds(rank, data->output + (size_t)from * count, call, from, 0, count) && good;

    if (!rank_ok(rank, plait_alltoall(rank->comm, data->input, data->output, count, PLAIT_U8, NULL),
                 "all-to-all"))
        return false;
    for (int from = 0; from < rank->size; from++)
        good =
            holds(rank, data->output + (size_t)from * count, call, from, (size_t)me * count, count) && good;

    if (!rank_ok(rank, plait_scatter(rank->comm, data->input, data->output, count, PLAIT_U8, root, NULL),
                 "scatter"))
        return false;
    good = holds(rank, data->output, call, root, (size_t)me * count, count) && good;

    plait_work *work = NULL;
    if (!rank_ok(rank, plait_gather(rank->comm, data->input, data->output, count, PLAIT_U8, root, &work),
                 "gather") ||
        !rank_ok(rank, plait_work_wait(work, -1), "waiting for the gather"))
        return false;
    plait_work_release(work);
    for (int from = 0; from < rank->size && me == root; from++)
        good = holds(rank, data->output + (size_t)from * count, call, from, 0, count) && good;

    /* A broadcast is staged whatever the setting; so the plan is looked at before. */
    snprintf(last_plan, 64, "%s", plait_comm_last_plan(rank->comm));
    if (!rank_ok(rank, plait_broadcast(rank->comm, data->input, count, PLAIT_U8, root, NULL), "broadcast"))
        return false;
    return holds(rank, data->input, call, root, 0, count) && good;
}

static const size_t counts[] = { 100, (32 << 10) - 1, 32 << 10, 300001 };

static void run_private(struct rank *rank)
{
    const char *plan = rank->context;
    size_t room = (size_t)rank->size * 300001 + 1;
    unsigned char *memory = malloc(2 * room);
    const struct blocks data = { memory + 1, memory + room, (size_t)rank->size };
    for (size_t i = 0; i < LENGTH(counts); i++) {
        rank_doing(rank, "moving blocks of %zu bytes", counts[i]);
        char last_plan[64];
        if (!check_one_way(rank, &data, i * 7 + 3, counts[i], last_plan))
            break;
        bool large = counts[i] > 64 << 10; /* whatever the cost model says of smaller ones */
        rank_check(rank, !large || strcmp(last_plan, plan) == 0, "it went by %s", last_plan);
    }
    free(memory);
}

/* One rank's input can be read in place, the others' has to be pulled; and the other way round for the output. */
static void run_mixed(struct rank *rank)
{
    size_t room = (size_t)rank->size * 300001;
    void *input = NULL;
    unsigned char *output = malloc(room);
    if (rank->number == 1 ? !rank_ok(rank, plait_mem_alloc(rank->world, room, &input), "allocating")
                          : (input = malloc(room)) == NULL)
        return;
    const struct blocks data = { input, output, (size_t)rank->size };
    char last_plan[64];
    for (uint64_t call = 0; call < 4; call++)
        if (!check_one_way(rank, &data, call, 300001, last_plan))
            break;
    if (rank->number != 1)
        free(input);
    free(output);
}

/* Who gives a block to a pulled gather does not touch it, so what it hands in may turn out not to be there. */
static void run_unreadable(struct rank *rank)
{
    bool gives = rank->number == 1;
    size_t room = (size_t)LARGE * (size_t)(rank->size + 1);
    unsigned char *memory =
        mmap(NULL, room, gives ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    plait_status status = plait_gather(rank->comm, memory, memory + LARGE, LARGE, PLAIT_U8, 0, NULL);
    rank_check(rank, status != PLAIT_OK, "it succeeds");
    if (rank->number == 0)
        rank_check(rank,
                   status == PLAIT_SYSTEM_ERROR && rank_says(rank, "rank 1's memory") &&
                       rank_says(rank, "PLAIT_PULLS=never"),
                   "it says: %s", plait_last_error());
    munmap(memory, room);
}

static void run_always(void **state)
{
    setenv("PLAIT_PULLS", "always", 1);
    for (int size = 2; size <= 5; size++) {
        struct ranks_setup setup = { .way = *(const enum ranks_way *)*state, .size = size };
        ranks_run(&setup, run_private, "in-place-one-shot");
    }
}

static void run_never(void **state)
{
    setenv("PLAIT_PULLS", "never", 1);
    struct ranks_setup setup = { .way = *(const enum ranks_way *)*state, .size = 3 };
    ranks_run(&setup, run_private, "direct-one-shot");
}

static void run_both(void **state)
{
    setenv("PLAIT_PULLS", "always", 1);
    struct ranks_setup setup = { .way = *(const enum ranks_way *)*state, .size = 3 };
    ranks_run(&setup, run_mixed, NULL);
    ranks_run(&setup, run_unreadable, NULL);
}

int main(void)
{
    static const enum ranks_way threads = RANKS_THREADS, processes = RANKS_FILE;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pull_copies),
        cmocka_unit_test(pull_tells_what_is_wrong),
        { "threads always pull", run_always, NULL, NULL, (void *)(uintptr_t)&threads },
        { "threads never pull", run_never, NULL, NULL, (void *)(uintptr_t)&threads },
        { "threads pull and read in place", run_both, NULL, NULL, (void *)(uintptr_t)&threads },
        { "processes always pull", run_always, NULL, NULL, (void *)(uintptr_t)&processes },
        { "processes never pull", run_never, NULL, NULL, (void *)(uintptr_t)&processes },
        { "processes pull and read in place", run_both, NULL, NULL, (void *)(uintptr_t)&processes },
    };
    size_t count = LENGTH(tests);
    if (!ranks_can_fork())
        count -= 3;
    test_settings(); /* takes its variables out of the environment */
    return _cmocka_run_group_tests("pull", tests, count, NULL, NULL);
}
