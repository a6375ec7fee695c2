/* Machines that give little: a /dev/shm of 1 MiB, 64 file descriptors, no locked memory, small files, little
 * address space. Plait works there, or says in a sentence what it lacks; it is never killed for it. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

/* Sets a limit for this process; `value` bytes or things. */
static void limit(struct rank *rank, int resource, rlim_t value)
{
    struct rlimit limits = { value, value };
    rank_check(rank, setrlimit((__rlimit_resource_t)resource, &limits) == 0, "setting limit %d failed: %s",
               resource, strerror(errno));
}

static bool join_world(struct rank *rank, plait_status *status)
{
    plait_world_options options = rank_options(rank);
    rank_doing(rank, "creating the world under a limit");
    *status = plait_world_create(&options, &rank->world);
    if (*status == PLAIT_OK)
        rank->comm = plait_world_comm(rank->world);
    return *status == PLAIT_OK;
}

/* Large and small calls, and messages, in the world. */
static void use_world(struct rank *rank)
{
    static const struct call calls[] = {
        { CALL_ALLREDUCE, PLAIT_F32, PLAIT_SUM, 0, 3 },
        { CALL_ALLREDUCE, PLAIT_F32, PLAIT_SUM, 0, 1048583 },
        { CALL_ALLGATHER, PLAIT_I64, PLAIT_SUM, 0, 131101 },
        { CALL_BROADCAST, PLAIT_U8, PLAIT_SUM, 0, 3000017 },
        { CALL_ALLTOALL, PLAIT_I32, PLAIT_SUM, 0, 131101 },
    };
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, 4u << 20, rank->size), "no memory for the test"))
        return;
    for (size_t i = 0; i < LENGTH(calls) && !rank_failed(rank); i++) {
        struct layout layout = { .in_place = false };
        trial_run(rank, &trial, rank->comm, &calls[i], &layout, i);
    }
    trial_close(&trial);
}

/* It must work. */
static void works_here(struct rank *rank)
{
    plait_status status = PLAIT_OK;
    if (rank_check(rank, join_world(rank, &status), "creating the world gave %s: %s",
                   plait_status_name(status), plait_last_error()))
        use_world(rank);
}

/* It works, or fails with a status that says what to give more of; one rank's lack may be another's
 * missing rank. */
static void works_or_says_why(struct rank *rank)
{
    plait_status status = PLAIT_OK;
    if (join_world(rank, &status)) {
        use_world(rank);
        return;
    }
    rank_check(rank,
               status == PLAIT_OUT_OF_RESOURCES || status == PLAIT_OUT_OF_MEMORY ||
                   status == PLAIT_SYSTEM_ERROR || status == PLAIT_START_FAILED,
               "creating the world gave %s: %s", plait_status_name(status), plait_last_error());
    rank_check(rank, strlen(plait_last_error()) > 20, "the sentence is \"%s\"", plait_last_error());
}

/* A mount namespace whose /dev/shm, /tmp aside, holds 1 MiB. Only root may make one. */
static void run_small_shm(struct rank *rank)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
        if (rank->number == 0)
            fprintf(stderr, "  not root enough for a small /dev/shm (%s): nothing was tested\n",
                    strerror(errno));
        return;
    }
    works_here(rank);
}

static void run_few_fds(struct rank *rank)
{
    limit(rank, RLIMIT_NOFILE, 64);
    works_here(rank);
}

/* Hardly any descriptors are left; every number from none to enough. */
static void run_hardly_any_fds(struct rank *rank)
{
    const int *left = rank->context;
    int fd = dup(0);
    close(fd);
    limit(rank, RLIMIT_NOFILE, (rlim_t)(fd + *left));
    works_or_says_why(rank);
}

static void run_no_locked_memory(struct rank *rank)
{
    limit(rank, RLIMIT_MEMLOCK, 0);
    works_here(rank);
}

/* A memfd is a file: its size has a limit too, and going beyond it would be a signal. */
static void run_small_files(struct rank *rank)
{
    limit(rank, RLIMIT_FSIZE, 65536);
    works_or_says_why(rank);
}

/* Little address space: `context` MiB beyond what is used. A sanitizer needs terabytes. */
static void run_little_space(struct rank *rank)
{
    if (ranks_slowness() > 1)
        return;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!rank_check(rank, file != NULL && fscanf(file, "%ld", &pages) == 1, "no statm"))
        return;
    fclose(file);
    limit(rank, RLIMIT_AS, (rlim_t)pages * 4096 + ((rlim_t)(*(const int *)rank->context) << 20));
    plait_status status = PLAIT_OK;
    if (!join_world(rank, &status)) {
        rank_check(rank,
                   status == PLAIT_OUT_OF_MEMORY || status == PLAIT_OUT_OF_RESOURCES ||
                       status == PLAIT_START_FAILED,
                   "creating the world gave %s: %s", plait_status_name(status), plait_last_error());
        return;
    }
    float value = 1, sum = 0;
    status = plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_F32, PLAIT_SUM, NULL);
    rank_check(rank, status != PLAIT_OK || sum == (float)rank->size, "the sum is %g", (double)sum);
}

/* No environment to speak of: no HOME, no TMPDIR, standard descriptors closed, a directory that is gone. */
static void run_bare(struct rank *rank)
{
    unsetenv("HOME");
    unsetenv("USER");
    setenv("TMPDIR", "/nonexistent", 1);
    rank_check(rank, chdir("/") == 0, "no /");
    close(0);
    close(1);
    works_here(rank);
}

static void run_closed_stdio(struct rank *rank)
{
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    works_here(rank);
}

static const int numbers[] = { 0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24 };
static const int mebibytes[] = { 0, 1, 4, 16, 64 };

#define ROW(title, function, meeting, ranks, what)                                                           \
    {                                                                                                        \
        title, function, { .way = meeting, .size = ranks, .bare = true, .start_timeout_ms = 1000 }, what     \
    }
#define FEW(index) ROW("hardly any descriptors", run_hardly_any_fds, RANKS_FILE, 2, &numbers[index])
#define FEWER(index)                                                                                         \
    ROW("hardly any descriptors, environment", run_hardly_any_fds, RANKS_ENVIRONMENT, 3, &numbers[index])
#define SPACE(index) ROW("little address space", run_little_space, RANKS_FILE, 2, &mebibytes[index])

/* clang-format off */
static const struct scenario scenarios[] = {
    ROW("a /dev/shm of 1 MiB", run_small_shm, RANKS_ENVIRONMENT, 4, NULL),
    ROW("64 descriptors", run_few_fds, RANKS_FILE, 8, NULL),
    ROW("64 descriptors, environment", run_few_fds, RANKS_ENVIRONMENT, 8, NULL),
    ROW("no locked memory", run_no_locked_memory, RANKS_FILE, 4, NULL),
    ROW("small files", run_small_files, RANKS_FILE, 2, NULL),
    ROW("small files", run_small_files, RANKS_ENVIRONMENT, 2, NULL),
    ROW("a bare environment", run_bare, RANKS_FILE, 2, NULL),
    ROW("standard descriptors closed", run_closed_stdio, RANKS_FILE, 3, NULL),
    ROW("standard descriptors closed", run_closed_stdio, RANKS_ENVIRONMENT, 3, NULL),
    FEW(0), FEW(1), FEW(2), FEW(3), FEW(4), FEW(5), FEW(6), FEW(7), FEW(8), FEW(9), FEW(10), FEW(11),
    FEWER(0), FEWER(1), FEWER(2), FEWER(3), FEWER(4), FEWER(5),
    FEWER(6), FEWER(7), FEWER(8), FEWER(9), FEWER(10), FEWER(11),
    SPACE(0), SPACE(1), SPACE(2), SPACE(3), SPACE(4),
};
/* clang-format on */

int main(void)
{
    return scenarios_run("limits", scenarios, LENGTH(scenarios));
}
