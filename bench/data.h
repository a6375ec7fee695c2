/* Test data that every rank can compute for every other one, and the check of what came out.
 *
 * An element is a hash of a key and its index; a rank's key comes from the run's seed, the
 * number of the check and the rank. So data is fresh for each check, and a result that is
 * left over from an earlier one is seen to be wrong.
 *
 * Moved data must be equal to the bit, integers too (modulo 2^bits). Float sums are compared
 * with a float64 reference and may be off by what rounding can do at most: one rounding of a
 * float32 (float64 for f64) addition per rank, one to the type at the end. */
#ifndef PLAIT_BENCH_DATA_H
#define PLAIT_BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives.h"

/* What a check found on one rank. */
struct tally {
    uint64_t checked, wrong;
    size_t first;     /* index in the output of the first wrong element */
    double got, want; /* there; rounded for 64-bit integers */
};

/* keys[r] for each of `ranks` ranks in check number `check` of the run. */
void data_keys(uint64_t seed, uint64_t check, int ranks, uint64_t *keys);

/* Bits of element `index` of the rank with `key`, in the low bytes. */
uint64_t data_bits(plait_type type, plait_op op, uint64_t key, size_t index);

/* Fills `count` elements, the first of them being number 0. */
void data_fill(void *elements, size_t count, plait_type type, plait_op op, uint64_t key);

/* Fills with a value that operations in place, repeated, leave as it is or can't make overflow. */
void data_fill_calm(void *elements, size_t count, plait_type type, plait_op op, bool in_place);

/* Compares this rank's output. Up to DATA_CHECK_ALL elements all are looked at; beyond, in
 * each run of DATA_RUN the first and last four and eight at random, and the four at each
 * border between ranks' parts. */
enum { DATA_CHECK_ALL = 1 << 18, DATA_RUN = 1024 };
struct tally data_check(const struct call *call, const uint64_t *keys);

#endif
