/* The values of options, from text. Each says false to what it can't read whole. */
#ifndef PLAIT_BENCH_VALUES_H
#define PLAIT_BENCH_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plait.h"

/* A whole decimal number within [least, most]. */
bool value_number(const char *text, int64_t least, int64_t most, int64_t *number);

/* "8", "64K", "1MiB", "2G": powers of 1024, as nccl-tests has them. */
bool value_size(const char *text, size_t *size);

/* Plait's names and nccl-tests' ("f32" and "float", "average" and "avg"). 0 for an unknown one. */
plait_type value_type(const char *name);
plait_op value_op(const char *name);

#endif
