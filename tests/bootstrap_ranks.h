/* Ranks as threads that start a world and report how it went. For the bootstrap's tests. */
#ifndef PLAIT_TESTS_BOOTSTRAP_RANKS_H
#define PLAIT_TESTS_BOOTSTRAP_RANKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "bootstrap/bootstrap.h"

enum { START_RANKS_MAX = 64 };

/* One process that takes itself for a rank. */
struct start {
    struct bootstrap_options options;
    int64_t timeout_ms;
    int delay_ms;     /* before it begins */
    atomic_int *gate; /* not before this is set; NULL: none */
    /* what came of it */
    plait_status status;
    char sentence[1024];
    struct bootstrap_result result;
    struct card *cards; /* options.size; freed by starts_end() */
    double seconds;
    pthread_t thread;
};

/* All `count` starts at once, each on its own thread; returns when all have ended. */
void starts_run(struct start *starts, int count);
void starts_end(struct start *starts, int count);

/* `size` starts with ranks 0, 1, ... and these options, with a deadline after `timeout_ms`. */
void starts_fill(struct start *starts, int size, struct bootstrap_options options, int64_t timeout_ms);

/* All ended well, with the same table, key and generation, and each card where it belongs. */
void starts_check(const struct start *starts, int size);

/* A caller's store in memory. */
plait_store *test_store_create(void);
void test_store_destroy(plait_store *store);

/* A port of whose next 16 none is in use, outside the range of outgoing connections. */
int free_port(void);

/* Log lines, from here on, that contain `text`; NULL counts all. */
void log_capture(void);
int log_count(const char *text);
void log_release(void);

int open_descriptors(void);

#endif
