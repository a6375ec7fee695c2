/* What plait-perf was asked for: nccl-tests' options where they make sense here. */
#ifndef PLAIT_BENCH_OPTIONS_H
#define PLAIT_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives.h"

enum {
    NO_ROOT = -1,
    ROOT_ALL = -2,     /* a row for each rank */
    ROOT_ROTATES = -3, /* another root with each operation */
    LIST_MAX = 32,
    RANKS_MAX = 1024,
    EXIT_USAGE = 2,
};

struct options {
    const struct collective *collectives[LIST_MAX];
    plait_type types[LIST_MAX];
    plait_op ops[LIST_MAX];
    int collective_count, type_count, op_count;
    int root; /* or ROOT_ALL, ROOT_ROTATES */

    size_t least_bytes, most_bytes;
    double step_factor; /* 0 where step_bytes is set */
    size_t step_bytes;  /* 0 where step_factor is */
    bool measure_end;   /* measure most_bytes even where no step lands on it */

    int samples; /* 0: as many as fit */
    int warmups, checks;
    bool cold;    /* buffers that no cache holds */
    bool explain; /* where the time went */
    bool overlap; /* how much of operations is hidden behind what their caller does meanwhile */
    bool seeded;
    uint64_t seed;

    int ranks, threads; /* started here; 0: neither */
    bool launched;      /* one of the ranks that --ranks started */
    bool bind;          /* each rank to a core */
    bool registered;    /* buffers in memory that peers read in place */
    int64_t timeout_ms; /* 0: the library's */
    const char *json;   /* a file, "-" for stdout; NULL: none */
};

/* Fills `options` from the command line. For a bad value says what the good ones are, and exits with
 * EXIT_USAGE. */
void options_parse(struct options *options, int argc, char **argv);

/* Moves `bytes` on to the next size; false after the last. */
bool options_next_size(const struct options *options, size_t *bytes);

#endif
