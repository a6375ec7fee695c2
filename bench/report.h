/* What people and scripts see: nccl-tests' table, and a JSON object for each measurement. */
#ifndef PLAIT_BENCH_REPORT_H
#define PLAIT_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "explain.h"
#include "options.h"

enum { OUT_OF_PLACE, IN_PLACE, PLACES };

/* A row's arguments. */
struct row {
    const struct collective *collective;
    plait_type type; /* 0 for a barrier */
    plait_op op;     /* 0 for a collective without */
    int root;        /* or NO_ROOT, ROOT_ROTATES */
    size_t count, bytes;
};

/* One half of a row. */
struct measurement {
    bool made; /* the API allows this place */
    struct timing timing;
    double algbw, busbw; /* GB/s */
    uint64_t checked, wrong;
    double line_before, line_after; /* ns */
    const struct share *shares;     /* a rank each, of --explain; NULL otherwise */
};

struct overlap;

/* A rank, as it introduces itself. */
struct introduction {
    int64_t pid;
    int32_t local_rank, cpu; /* NOT_BOUND: to none */
    char host[64];
};

/* Rank 0's. */
struct report {
    const struct options *options;
    const struct collective *section; /* whose rows are printed at present */
    const char *transport;
    int ranks;
    FILE *table, *json; /* NULL: not wanted */
    bool progress;
    double busbw_sum;
    uint64_t measurements; /* in that sum */
    uint64_t wrong;
};

/* False, with errno set, if the JSON file can't be written. */
bool report_open(struct report *report, const struct options *options, int ranks);
void report_header(struct report *report, const plait_world_facts *facts, uint64_t seed,
                   const struct introduction *introductions);
/* A remark between the rows. */
void report_note(struct report *report, const char *text);
void report_progress(const struct report *report, const struct row *row);
void report_row(struct report *report, const struct row *row, const struct measurement places[PLACES]);
void report_overlap(struct report *report, const struct row *row, const struct overlap *overlap);
/* The summary; then closes. False, with a line on stderr, if something could not be written. */
bool report_close(struct report *report, bool complete);

#endif
