/* Life and death of worlds, communicators and works: a thousand times over nothing grows; an end is bounded. */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"

/* What a process holds. */
struct holdings {
    long heap; /* bytes in use; 0 where a sanitizer's allocator does not tell */
    int fds, threads, mappings;
};

static int count_entries(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;
    while (directory != NULL && readdir(directory) != NULL)
        count++;
    if (directory != NULL)
        closedir(directory);
    return count;
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int count = 0, c;
    while (file != NULL && (c = getc(file)) != EOF)
        count += c == '\n';
    if (file != NULL)
        fclose(file);
    return count;
}

static struct holdings count_holdings(void)
{
    sleep_ms(5); /* a joined thread stays in /proc for a moment */
    struct mallinfo2 info = mallinfo2();
    return (struct holdings){ .heap = ranks_slowness() > 1 ? 0 : (long)(info.uordblks + info.hblkhd),
                              .fds = count_entries("/proc/self/fd"),
                              .threads = count_entries("/proc/self/task"),
                              .mappings = count_lines("/proc/self/maps") };
}

/* Once all have come; in threads it is the process's, so one rank counts for all. */
static struct holdings holdings_now(struct rank *rank)
{
    struct holdings holdings = { 0 };
    if (rank_meet(rank) && (rank->number == 0 || !rank_is_thread(rank)))
        holdings = count_holdings();
    rank_meet(rank);
    return holdings;
}

static void no_growth(struct rank *rank, struct holdings before, int times, const char *what)
{
    struct holdings after = holdings_now(rank);
    if (before.fds == 0) /* another rank counts */
        return;
    rank_check(rank, after.fds == before.fds, "%d times %s: %d fds became %d", times, what, before.fds,
               after.fds);
    rank_check(rank, after.threads == before.threads, "%d times %s: %d threads became %d", times, what,
               before.threads, after.threads);
    /* malloc's arenas and thread stacks that glibc keeps come once and vary a little. */
    rank_check(rank, after.mappings <= before.mappings + (ranks_slowness() > 1 ? 100 : 8),
               "%d times %s: %d mappings became %d", times, what, before.mappings, after.mappings);
    rank_check(rank, after.heap <= before.heap + 32768, "%d times %s: %ld bytes of heap became %ld", times,
               what, before.heap, after.heap);
}

/* -------------------------------------------------------------------- worlds */

static bool live_once(struct rank *rank, const plait_world_options *options, int turn)
{
    plait_world *world = NULL;
    plait_comm *half = NULL;
    plait_work *work = NULL;
    int64_t value = turn, sum = 0;
    rank_doing(rank, "world %d: create", turn);
    if (!rank_ok(rank, plait_world_create(options, &world), "creating a world"))
        return false;
    rank_doing(rank, "world %d: use", turn);
    rank_ok(rank, plait_allreduce(plait_world_comm(world), &value, &sum, 1, PLAIT_I64, PLAIT_SUM, &work),
            "all-reduce");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    rank_check(rank, sum == (int64_t)turn * rank->size, "the sum is %lld", (long long)sum);
    plait_work_release(work);
    if (turn % 4 == 0) /* left to the world */
        rank_ok(rank, plait_comm_split(plait_world_comm(world), 0, 0, NULL, &half), "split");
    rank_doing(rank, "world %d: destroy", turn);
    rank_ok(rank, plait_world_destroy(world), "destroying a world");
    return !rank_failed(rank);
}

/* `context`: how many. In threads the counts are the process's, so rank 0 counts while the others wait. */
static void run_worlds(struct rank *rank)
{
    const int all = *(const int *)rank->context * test_settings()->scale / 100, settled = all / 5;
    struct holdings before = { 0 };
    plait_world_options options = rank_options(rank);
    for (int turn = 0; turn < all; turn++) {
        if (turn == settled)
            before = holdings_now(rank);
        if (!live_once(rank, &options, turn))
            return;
    }
    no_growth(rank, before, all - settled, "a world");
}

/* Many at a time in one process. */
static void run_worlds_at_once(struct rank *rank)
{
    enum { MANY = 20 };
    plait_world *worlds[MANY] = { NULL };
    plait_world_options options = rank_options(rank);
    for (int i = 0; i < MANY; i++) {
        rank_doing(rank, "creating world %d", i);
        if (!rank_ok(rank, plait_world_create(&options, &worlds[i]), "creating a world"))
            return;
    }
    for (int i = MANY - 1; i >= 0; i--) {
        int value = i, sum = 0;
        rank_doing(rank, "using world %d", i);
        rank_ok(rank,
                plait_allreduce(plait_world_comm(worlds[i]), &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL),
                "all-reduce");
        rank_check(rank, sum == i * rank->size, "world %d: the sum is %d", i, sum);
    }
    for (int i = 0; i < MANY; i++) {
        rank_doing(rank, "destroying world %d", i);
        rank_ok(rank, plait_world_destroy(worlds[i]), "destroying a world");
    }
}

/* -------------------------------------------------- communicators and works */

static void run_comms(struct rank *rank)
{
    const int all = 10 * test_settings()->scale, settled = all / 5;
    struct holdings before = { 0 };
    for (int turn = 0; turn < all; turn++) {
        plait_comm *comm = NULL;
        if (turn == settled)
            before = holdings_now(rank);
        rank_doing(rank, "communicator %d", turn);
        if (!rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split") ||
            !rank_ok(rank, plait_barrier(comm, NULL), "barrier") ||
            !rank_ok(rank, plait_comm_destroy(comm), "destroy"))
            return;
    }
    no_growth(rank, before, all - settled, "a communicator");
}

static void run_works(struct rank *rank)
{
    const int all = 40 * test_settings()->scale, settled = all / 5;
    struct holdings before = { 0 };
    for (int turn = 0; turn < all; turn++) {
        plait_work *works[3] = { NULL };
        float value = 1, sums[3] = { 0 };
        if (turn == settled)
            before = holdings_now(rank);
        rank_doing(rank, "works, turn %d", turn);
        for (int i = 0; i < 3; i++)
            rank_ok(rank, plait_allreduce(rank->comm, &value, &sums[i], 1, PLAIT_F32, PLAIT_SUM, &works[i]),
                    "all-reduce");
        for (int i = 2; i >= 0; i--) {
            rank_ok(rank, plait_work_wait(works[i], -1), "waiting");
            plait_work_release(works[i]);
        }
        if (rank_failed(rank))
            return;
    }
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    no_growth(rank, before, all - settled, "three works");
}

/* Failed calls leave nothing behind either. */
static void run_failures(struct rank *rank)
{
    struct holdings before = { 0 };
    plait_world_options options = { .struct_size = sizeof options, .size = 1, .transport = "pigeon" };
    for (int turn = 0; turn < 500; turn++) {
        plait_world *world = NULL;
        plait_work *work = NULL;
        int value = 1, sum = 0;
        if (turn == 100)
            before = holdings_now(rank);
        rank_status(rank, plait_world_create(&options, &world), PLAIT_INVALID_SETTING, "a bad setting");
        rank_status(rank, plait_allreduce(rank->comm, &value, &sum, 1, (plait_type)50, PLAIT_SUM, &work),
                    PLAIT_INVALID_ARGUMENT, "a bad type");
        if (rank_failed(rank))
            return;
    }
    no_growth(rank, before, 400, "failures");
}

/* ------------------------------------------------------------------- the end */

/* Destroy with a work that can't come to its end takes about a second, and the work is aborted. */
static void run_unfinished(struct rank *rank)
{
    int value = 1, sum = 0;
    plait_work *work = NULL;
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    if (rank->number == 0) {
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
        rank_doing(rank, "destroying the world with a work that can't end");
        const int64_t start = now_ns();
        rank_ok(rank, plait_world_destroy(rank->world), "destroying the world");
        rank->world = NULL;
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms < 2000 * ranks_slowness(), "it took %lld ms", (long long)took_ms);
        plait_status status = plait_work_status(work);
        rank_check(rank, status == PLAIT_ABORTED || status == PLAIT_PEER_LOST, "the work is %s",
                   plait_status_name(status));
        plait_work_release(work);
    }
    rank_meet(rank);
    if (rank->number != 0) {
        rank_doing(rank, "entering after rank 0 left");
        plait_status status = plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL);
        if (status == PLAIT_OK) { /* rank 0 had left its part before it went */
            rank_check(rank, sum == rank->size, "the sum is %d", sum);
            status = plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL);
        }
        rank_check(rank, status == PLAIT_PEER_LOST || status == PLAIT_ABORTED,
                   "an all-reduce with one who left gave %s", plait_status_name(status));
        rank_says(rank, "rank 0");
        plait_fault fault = { .struct_size = sizeof fault };
        rank_ok(rank, plait_comm_fault(rank->comm, &fault), "asking for the fault");
        rank_check(rank, fault.culprit == 0, "the culprit is %d", fault.culprit);
    }
}

/* Nobody has to wait for a world in which nothing runs. */
static void run_quick(struct rank *rank)
{
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    const int64_t start = now_ns();
    rank_ok(rank, plait_world_destroy(rank->world), "destroying the world");
    rank->world = NULL;
    const int64_t took_ms = (now_ns() - start) / 1000000;
    rank_check(rank, took_ms < 300 * ranks_slowness(), "destroying an idle world took %lld ms",
               (long long)took_ms);
}

/* The group of threads may end before its worlds. */
static void run_group_first(struct rank *rank)
{
    plait_thread_group **group = rank->shared;
    if (rank->number == 0)
        rank_ok(rank, plait_thread_group_create(rank->size, group), "a thread group");
    rank_meet(rank);
    plait_world_options options = {
        .struct_size = sizeof options, .rank = rank->number, .size = rank->size, .threads = *group
    };
    rank_ok(rank, plait_world_create(&options, &rank->world), "creating the world");
    rank_meet(rank);
    if (rank->number == 0)
        plait_thread_group_destroy(*group);
    rank_meet(rank);
    rank_ok(rank, plait_barrier(plait_world_comm(rank->world), NULL), "barrier");
    plait_world *late = NULL;
    plait_status status = plait_world_create(&options, &late);
    rank_check(rank, status < 0, "a world through a group that ended: %s", plait_status_name(status));
}

/* What the library opens is closed in programs that the process starts. */
static void run_exec(struct rank *rank)
{
    for (int fd = 3; fd < 256; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        char link[64], target[200] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (flags < 0 || readlink(link, target, sizeof target - 1) < 0)
            continue;
        const char *slash = strrchr(target, '/'); /* the folder may well be called plait */
        if (strstr(target, "memfd") != NULL || strstr(target, "socket") != NULL ||
            strstr(target, "event") != NULL || strstr(target, "pidfd") != NULL ||
            strstr(slash != NULL ? slash : target, "plait") != NULL)
            rank_check(rank, flags & FD_CLOEXEC, "fd %d, %s, would be inherited by other programs", fd,
                       target);
    }
    rank_meet(rank);
}

static const int thousand = 1000, hundred = 100;

#define THREADS(title, function, ranks, unmade)                                                              \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks, .bare = unmade, .shared_size = 64 },         \
            &thousand                                                                                        \
    }
#define FILES(title, function, ranks, unmade)                                                                \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks, .bare = unmade }, &hundred                      \
    }

static const struct scenario scenarios[] = {
    THREADS("a thousand worlds", run_worlds, 1, true),
    THREADS("a thousand worlds", run_worlds, 2, true),
    THREADS("a thousand worlds", run_worlds, 4, true),
    FILES("a hundred worlds", run_worlds, 2, true),
    FILES("a hundred worlds", run_worlds, 4, true),
    THREADS("twenty worlds at once", run_worlds_at_once, 1, true),
    THREADS("twenty worlds at once", run_worlds_at_once, 3, true),
    FILES("twenty worlds at once", run_worlds_at_once, 3, true),
    THREADS("a thousand communicators", run_comms, 2, false),
    FILES("a thousand communicators", run_comms, 2, false),
    THREADS("four thousand turns of works", run_works, 2, false),
    FILES("four thousand turns of works", run_works, 2, false),
    THREADS("failures leave nothing", run_failures, 1, false),
    THREADS("an end with a work that can't end", run_unfinished, 2, false),
    THREADS("an end with a work that can't end", run_unfinished, 3, false),
    FILES("an end with a work that can't end", run_unfinished, 3, false),
    THREADS("a quick end", run_quick, 1, false),
    THREADS("a quick end", run_quick, 4, false),
    FILES("a quick end", run_quick, 4, false),
    THREADS("a group that ends before its worlds", run_group_first, 3, true),
    FILES("nothing is inherited by other programs", run_exec, 3, false),
};

int main(void)
{
    return scenarios_run("life cycle", scenarios, LENGTH(scenarios));
}
