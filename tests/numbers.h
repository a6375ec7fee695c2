/* Numbers by their definition, for references that share nothing with the library: floats as a count of units in
 * their last place, integers in 128 bits, reductions in wider arithmetic that is rounded as plait.h says. */
#ifndef PLAIT_TESTS_NUMBERS_H
#define PLAIT_TESTS_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plait.h"

struct kind {
    plait_type type;
    const char *name;
    size_t size;                     /* bytes */
    int digits;                      /* of the significand; 0: an integer */
    int min_exponent;                /* of the smallest normal number, 2^min_exponent */
    bool is_signed;                  /* integers */
    bool saturates;                  /* what is finite and too large becomes the largest, not infinite */
    uint64_t largest, infinity, nan; /* floats: bits, the canonical ones; infinity 0: there is none */
};

/* The kind of a plain number's type; NULL for others. */
const struct kind *kind_of(plait_type type);

uint64_t number_sign(const struct kind *kind);

/* Exact. */
double number_decode(const struct kind *kind, uint64_t bits);
/* Rounds to nearest, ties to even. For types narrower than float64. */
uint64_t number_encode(const struct kind *kind, double value);

/* The bits of `op` over `count` values, folded from left to right; `divide` > 1 divides in the end. */
uint64_t number_reduce(const struct kind *kind, plait_op op, const uint64_t *values, int count,
                       unsigned divide);

/* Element i of an array of elements of `size` bytes (at most 8), and the way back. */
uint64_t number_get(const void *array, size_t i, size_t size);
void number_put(void *array, size_t i, size_t size, uint64_t bits);

/* A value of the kind from any bits: mostly ordinary numbers that meet and cancel, every fourth something odd. */
uint64_t number_draw(const struct kind *kind, uint64_t random);

#endif
