/* Ranks for tests: runs a function as every rank of a world, as threads of this process or as
 * processes of their own. What a rank finds wrong is recorded with its number and fails
 * the cmocka test once all have ended; a hang is cut short with what each rank was doing.
 *
 * cmocka's own assertions may be used only outside of the function (they jump, and a rank's
 * thread has nowhere to jump to); inside, rank_check() and its like say whether to go on. */
#ifndef PLAIT_TESTS_RANKS_H
#define PLAIT_TESTS_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "plait.h"

enum { RANKS_MOST = 256 };

enum ranks_way {
    RANKS_THREADS,    /* threads that meet in a thread group: inproc */
    RANKS_FILE,       /* processes that meet over a file: shm */
    RANKS_ENVIRONMENT /* processes that meet as torchrun's do: shm */
};

struct ranks;

struct rank {
    int number, size;
    plait_world *world;  /* the harness destroys it, unless the function has and set it to NULL */
    plait_comm *comm;    /* the world's */
    const void *context; /* what the test handed in */
    void *shared;        /* memory of all ranks and the test, zero at first */
    struct ranks *ranks;
};

struct ranks_setup {
    enum ranks_way way;
    int size;
    const char *plan;         /* options.plan */
    int64_t timeout_ms;       /* options.timeout_ms; 0: 20 s */
    int64_t start_timeout_ms; /* likewise */
    size_t shared_size;       /* bytes of rank.shared */
    int limit_s;              /* the watchdog's; 0: 150 s, for busy machines */
    bool bare;                /* the function creates its world itself, with rank_options() */
    uint64_t absent;          /* bit r: rank r < 64 is not started */
    size_t stack_size;        /* bytes, of the ranks that are threads; 0: the system's choice */
};

typedef void (*rank_function)(struct rank *rank);

/* Runs `function` as all ranks; fails the test if any of them found something wrong, ended otherwise, or hung. */
void ranks_run(const struct ranks_setup *setup, rank_function function, const void *context);

/* A row of a table of tests that are no more than a function run as ranks. */
struct scenario {
    const char *name;
    rank_function function;
    struct ranks_setup setup;
    const void *context;
};

/* All rows as one cmocka group; main's result. */
int scenarios_run(const char *group, const struct scenario *scenarios, size_t count);

/* The same in pieces, so that the test can meddle. ranks_finish() frees `ranks`. */
struct ranks *ranks_start(const struct ranks_setup *setup, rank_function function, const void *context);
void ranks_finish(struct ranks *ranks);
void *ranks_shared(struct ranks *ranks);
pid_t ranks_pid(struct ranks *ranks, int rank);
void ranks_signal(struct ranks *ranks, int rank, int signal);
/* From now on nothing that becomes of `rank` fails the test. Before ranks_finish(). */
void ranks_excuse(struct ranks *ranks, int rank);
/* Waits for a rank that is a process; its wait status. */
int ranks_wait(struct ranks *ranks, int rank);

/* Options that bring `rank` into its world. Strings live as long as the rank. */
plait_world_options rank_options(const struct rank *rank);

/* Notes what the rank is about to do, for failures and for the watchdog. */
void rank_doing(struct rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Records a failure unless `good`; returns `good`. */
bool rank_check(struct rank *rank, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* That `what` gave `wanted`; the sentence is recorded when not. */
bool rank_status(struct rank *rank, plait_status got, plait_status wanted, const char *what);

/* That `what` gave PLAIT_OK. */
bool rank_ok(struct rank *rank, plait_status status, const char *what);

/* That this thread's sentence has `piece` in it. */
bool rank_says(struct rank *rank, const char *piece);

/* Is this rank a thread among others, not a process? */
bool rank_is_thread(const struct rank *rank);

/* Has this rank found anything wrong? */
bool rank_failed(const struct rank *rank);

/* Waits for all ranks, without the library. False when one has failed and won't come. */
bool rank_meet(struct rank *rank);

/* Processes can't be had under ThreadSanitizer. */
bool ranks_can_fork(void);

/* How many times slower than usual this build may be: 1, or more under a sanitizer. */
int ranks_slowness(void);

/* From the environment: PLAIT_TEST_SCALE (percent of the cases; by default 100, less under a
 * sanitizer), PLAIT_TEST_WHOLE (nothing takes turns), PLAIT_TEST_SEED, PLAIT_TEST_HUGE, PLAIT_TEST_LOG, PLAIT_TEST_ONLY (a pattern with * and ?
 * of the tests to run). They are taken out of it, for the library would warn of them; so all are read
 * at the first call. */
struct test_settings {
    int scale;
    uint64_t seed;
    bool whole;
    bool huge;
    bool log; /* let the library's log lines through to stderr */
};
const struct test_settings *test_settings(void);

/* A good mixer of 64 bits (splitmix64's), for data and choices that depend on nothing but numbers. */
uint64_t mix(uint64_t value);

/* Monotonic. */
int64_t now_ns(void);
void sleep_ms(int64_t ms);

#endif
