/* Test data that every rank can make for all ranks, and what reductions of it must give.
 * The reference is independent of the library: integers exactly, floats in float64 with the
 * error that the library's documented way of summing may have, and no more. */
#ifndef PLAIT_TESTS_DATA_H
#define PLAIT_TESTS_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plait.h"

struct data {
    plait_type type;
    plait_op op;  /* bounds the values of a product; 0 is fine where nothing is reduced */
    bool special; /* floats: NaN, infinities, zeros of both signs, subnormals, the largest */
    uint64_t seed;
};

static const plait_type data_types[] = {
    PLAIT_I8,  PLAIT_U8,  PLAIT_I32,  PLAIT_U32, PLAIT_I64,
    PLAIT_U64, PLAIT_F16, PLAIT_BF16, PLAIT_F32, PLAIT_F64,
};
static const plait_op data_ops[] = { PLAIT_SUM, PLAIT_PRODUCT, PLAIT_MIN, PLAIT_MAX, PLAIT_AVERAGE };
enum {
    DATA_TYPES = sizeof data_types / sizeof data_types[0],
    DATA_OPS = sizeof data_ops / sizeof data_ops[0]
};

/* Bytes of an element, by this file's own knowledge; and whether it is a float. */
size_t data_size(plait_type type);
bool data_is_float(plait_type type);

/* Elements first, first + 1, ... of `rank`'s data. */
void data_fill(const struct data *data, int rank, size_t first, size_t count, void *to);

/* Is `got` element `index` of `rank`'s data, bit for bit? `count` of them; the first that
 * is not in `*wrong`. */
bool data_equal(const struct data *data, int rank, size_t first, size_t count, const void *got,
                size_t *wrong);

/* Is `got` the op over `ranks` ranks of elements first, first + 1, ...? If not, `why`
 * says which element, what it is and what it should be. */
bool data_reduced(const struct data *data, int ranks, size_t first, size_t count, const void *got, char *why,
                  size_t why_size);

/* Over bytes, for comparing buffers across ranks. */
uint64_t data_checksum(const void *bytes, size_t size);

#endif
