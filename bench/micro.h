/* Micro-benchmarks: what a collective is made of, measured by itself. They need no ranks:
 *
 *     plait-perf kernels | copy | line | wake */
#ifndef PLAIT_BENCH_MICRO_H
#define PLAIT_BENCH_MICRO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "options.h"

struct micro {
    const char *name;
    plait_type types[LIST_MAX];
    plait_op ops[LIST_MAX];
    int type_count, op_count;
    const char *set;                /* of kernels: a name, or "all" */
    size_t least_bytes, most_bytes; /* each size is four times the one before */
    FILE *table, *json;             /* NULL: not wanted */
};

struct micro_tool {
    const char *name, *accepts; /* the letters of its options */
    size_t least_bytes, most_bytes;
    const char *doc, *explanation;
    bool (*run)(struct micro *micro); /* false after a failure, which it has told */
};

extern const struct micro_tool micro_kernels, micro_copy, micro_line, micro_wake;

/* The tool called `name`, or NULL. */
const struct micro_tool *micro_find(const char *name);

/* Runs it with the arguments that follow its name; the exit status. */
int micro_run(const struct micro_tool *tool, int argc, char **argv);

/* Nanoseconds of a call of `function`, the median over batches of a millisecond and more. */
double micro_time(void (*function)(void *context), void *context);

/* Memory that has been touched, for free(); exits when there is none. */
void *micro_memory(size_t size);

/* CPU number `index` of those this process may use; -1 past the end. */
int micro_cpu(int index);
/* Keeps the calling thread on one. */
void micro_bind(int cpu);

#endif
