/* Test data that every rank can make for all ranks, and what reductions of it must give.
 * The reference is independent of the library: integers exactly, floats and complex numbers in float64 with the
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

static const plait_type data_types[] = { PLAIT_I8,      PLAIT_U8,     PLAIT_I32,     PLAIT_U32,
                                         PLAIT_I64,     PLAIT_U64,    PLAIT_F16,     PLAIT_BF16,
                                         PLAIT_F32,     PLAIT_F64,    PLAIT_I16,     PLAIT_U16,
                                         PLAIT_BOOL,    PLAIT_C64,    PLAIT_C128,    PLAIT_F8E4M3,
                                         PLAIT_F8E5M2,  PLAIT_BYTES,  PLAIT_F32_I32, PLAIT_F64_I64,
                                         PLAIT_I32_I32, PLAIT_I64_I64 };
static const plait_op data_ops[] = { PLAIT_SUM,         PLAIT_PRODUCT, PLAIT_MIN,    PLAIT_MAX,
                                     PLAIT_AVERAGE,     PLAIT_BIT_AND, PLAIT_BIT_OR, PLAIT_BIT_XOR,
                                     PLAIT_AND,         PLAIT_OR,      PLAIT_XOR,    PLAIT_MIN_LOCATION,
                                     PLAIT_MAX_LOCATION };
enum {
    DATA_TYPES = sizeof data_types / sizeof data_types[0],
    DATA_OPS = sizeof data_ops / sizeof data_ops[0],
    DATA_MOST_SIZE = 16 /* bytes of the largest element */
};

/* Bytes of an element, by this file's own knowledge; and whether a type knows an operation. */
size_t data_size(plait_type type);
bool data_reduces(plait_type type, plait_op op);
/* A type drawn from `random`, with an operation that it knows if the call reduces. */
void data_choose(uint64_t random, bool reduces, plait_type *type, plait_op *op);

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
