/* Starts that can't come to anything: one sentence with the remedy, on every rank concerned. */
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "launcher_names.h"
#include "ranks.h"

enum { SORRY_MOST = 4 };

/* What is odd about one rank, and what all of them say then. */
struct start_case {
    const char *name;
    int size, odd;
    const char *variable, *value; /* of the odd one's environment */
    int rank, world_size;         /* what the odd one takes itself for; 0, 0: what it is */
    const char *version;          /* the odd one's */
    plait_status status;
    const char *odd_sorry[SORRY_MOST],
        *sorry[SORRY_MOST]; /* parts of the sentence: the odd one's, the others' */
    bool quick;             /* nobody has to wait for the deadline */
};

static const struct start_case cases[] = {
    { .name = "another plan",
      .size = 3,
      .odd = 1,
      .variable = "PLAIT_PLAN",
      .value = "ring",
      .status = PLAIT_INVALID_SETTING,
      .odd_sorry = { "rank 1 asks for plan ring and rank 0 for auto", "set PLAIT_PLAN alike on all ranks" },
      .sorry = { "rank 1", "set PLAIT_PLAN alike on all ranks" },
      .quick = true },
    { .name = "another staging size",
      .size = 2,
      .odd = 1,
      .variable = "PLAIT_STAGING_SIZE",
      .value = "64K",
      .status = PLAIT_INVALID_SETTING,
      .odd_sorry = { "rank 1 stages through 65536 bytes", "set PLAIT_STAGING_SIZE alike" },
      .sorry = { "rank 1 through 65536", "set PLAIT_STAGING_SIZE alike" },
      .quick = true },
    { .name = "another transport",
      .size = 2,
      .odd = 1,
      .variable = "PLAIT_TRANSPORT",
      .value = "ofi",
      .status = PLAIT_INVALID_SETTING,
      .odd_sorry = { "rank 1 uses transport ofi and rank 0 shm", "set PLAIT_TRANSPORT alike" },
      .sorry = { "rank 1 ofi; set PLAIT_TRANSPORT alike" },
      .quick = true },
    { .name = "another version",
      .size = 3,
      .odd = 2,
      .version = "9.8.7",
      .status = PLAIT_START_FAILED,
      .odd_sorry = { "runs Plait ", "Plait 9.8.7; install one and the same on all hosts" },
      .sorry = { "rank 2 runs Plait 9.8.7", "install one and the same on all hosts" },
      .quick = true },
    { .name = "another version at rank 0",
      .size = 2,
      .odd = 0,
      .version = "9.8.7",
      .status = PLAIT_START_FAILED,
      .odd_sorry = { "rank 1 runs Plait ", "Plait 9.8.7" },
      .sorry = { "rank 0 runs Plait 9.8.7" },
      .quick = true },
    { .name = "another key",
      .size = 3,
      .odd = 1,
      .variable = "PLAIT_JOB_KEY",
      .value = "open barley",
      .status = PLAIT_START_FAILED,
      .odd_sorry = { "rank 1 of 3, on ", "found no rank 0 within", "has another job key",
                     "set PLAIT_JOB_KEY alike on all ranks" },
      .sorry = { "rank 1 of 3 did not come within", "has another job key",
                 "set PLAIT_JOB_KEY alike on all ranks", ", host " } },
    { .name = "another key at rank 0",
      .size = 2,
      .odd = 0,
      .variable = "PLAIT_JOB_KEY",
      .value = "open barley",
      .status = PLAIT_START_FAILED,
      .odd_sorry = { "rank 1 of 2 did not come", "set PLAIT_JOB_KEY alike" },
      .sorry = { "found no rank 0 within", "set PLAIT_JOB_KEY alike" } },
    { .name = "a world of another size",
      .size = 3,
      .odd = 2,
      .rank = 2,
      .world_size = 4,
      .status = PLAIT_START_FAILED,
      .odd_sorry = { "rank 2 (pid ", "was started for a world of 4 ranks, rank 0 (pid ",
                     "give all of them the same size (WORLD_SIZE)" },
      .sorry = { "rank 2 of 3 did not come", "was started for a world of 4 ranks",
                 "the same size (WORLD_SIZE)" } },
    { .name = "a rank that is there twice",
      .size = 3,
      .odd = 2,
      .rank = 1,
      .world_size = 3,
      .status = PLAIT_START_FAILED,
      .odd_sorry = { "two processes claim rank 1 of 3: pid ", " and pid ", "give each its own number" },
      .sorry = { "two processes claim rank 1 of 3: pid ", "give each its own number" },
      .quick = true },
    { .name = "two rank 0",
      .size = 2,
      .odd = 1,
      .rank = 0,
      .world_size = 2,
      .status = PLAIT_START_FAILED,
      .odd_sorry = { "two processes claim rank 0 of 2: pid ", "give each its own number" },
      .sorry = { "two processes claim rank 0 of 2: pid ", "give each its own number" },
      .quick = true },
};

/* ----------------------------------------------------------------- versions */

const char *__real_plait_version(void);
const char *__wrap_plait_version(void);

static const char *other_version;

const char *__wrap_plait_version(void)
{
    return other_version != NULL ? other_version : __real_plait_version();
}

/* -------------------------------------------------------------------- ranks */

static void run_start(struct rank *rank)
{
    const struct start_case *try = rank->context;
    bool odd = rank->number == try->odd;
    plait_world_options options = rank_options(rank);
    options.start_timeout_ms = try->quick ? 20000 : 700;
    if (odd && try->variable != NULL)
        setenv(try->variable, try->value, 1);
    if (odd && try->world_size > 0) {
        options.rank = try->rank;
        options.size = try->world_size;
        setenv("WORLD_SIZE", try->world_size == 4 ? "4" : "3", 1);
    }
    if (odd)
        other_version = try->version;
    plait_status status = plait_world_create(&options, &rank->world);
    rank_status(rank, status, try->status, "creating the world");
    const char *const *sorry = odd ? try->odd_sorry : try->sorry;
    for (int i = 0; i < SORRY_MOST && sorry[i] != NULL; i++)
        rank_says(rank, sorry[i]);
}

static void starts_fail(void **state)
{
    const struct start_case *try = *state;
    struct ranks_setup setup = { .way = RANKS_ENVIRONMENT, .size = try->size, .bare = true };
    ranks_run(&setup, run_start, try);
}

/* Two jobs that were given one port come together side by side: the second takes the next port. */
static void run_two_jobs(struct rank *rank)
{
    plait_world_options options = rank_options(rank);
    float one = 1, sum = 0;
    options.rank = rank->number / 2;
    options.size = 2;
    options.job_key = rank->number % 2 ? "barley" : "sesame";
    options.job_key_size = 6;
    if (!rank_ok(rank, plait_world_create(&options, &rank->world), "creating the world"))
        return;
    rank_ok(rank, plait_allreduce(plait_world_comm(rank->world), &one, &sum, 1, PLAIT_F32, PLAIT_SUM, NULL),
            "all-reduce");
    rank_check(rank, (int)sum == 2, "the sum is %g", (double)sum);
}

static void two_jobs_share_a_port(void **state)
{
    (void)state;
    struct ranks_setup setup = { .way = RANKS_ENVIRONMENT, .size = 4, .bare = true };
    ranks_run(&setup, run_two_jobs, NULL);
}

/* A port that answers nothing, as behind a firewall: its queue is full. Or -1. */
static int deaf_port(int *fds, int count)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (fds[0] < 0 || bind(fds[0], (struct sockaddr *)&address, size) != 0 || listen(fds[0], 0) != 0 ||
        getsockname(fds[0], (struct sockaddr *)&address, &size) != 0)
        return -1;
    for (int i = 1; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(fds[i], (struct sockaddr *)&address, size) != 0 && errno != EINPROGRESS)
            return -1;
    }
    return ntohs(address.sin_port);
}

static void run_firewall(struct rank *rank)
{
    int fds[6];
    plait_world_options options = rank_options(rank);
    char port[16];
    if (rank->number == 0)
        return;
    options.start_timeout_ms = 900;
    snprintf(port, sizeof port, "%d", deaf_port(fds, (int)LENGTH(fds)));
    setenv("MASTER_PORT", port, 1);
    options.port = atoi(port);
    rank_status(rank, plait_world_create(&options, &rank->world), PLAIT_START_FAILED, "creating the world");
    rank_says(rank, "rank 1 of 2, on ");
    rank_says(rank, "no answer while connecting");
    rank_says(rank, "a firewall may drop what goes there");
}

static void a_firewall_is_suspected(void **state)
{
    (void)state;
    struct ranks_setup setup = { .way = RANKS_ENVIRONMENT, .size = 2, .bare = true };
    ranks_run(&setup, run_firewall, NULL);
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(cases) + 2];
    if (!ranks_can_fork())
        return 0;
    launcher_clear();
    for (size_t i = 0; i < LENGTH(cases); i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = starts_fail,
                                        .initial_state = (void *)(uintptr_t)&cases[i] };
    tests[LENGTH(cases)] = (struct CMUnitTest)cmocka_unit_test(two_jobs_share_a_port);
    tests[LENGTH(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(a_firewall_is_suspected);
    return check_run("start", tests, LENGTH(tests));
}
