/* What data.c makes and data_reduced.c judges: elements as one or two plain numbers. */
#ifndef PLAIT_TESTS_DATA_PARTS_H
#define PLAIT_TESTS_DATA_PARTS_H

#include "data.h"

/* A float format: sign, exponent, mantissa. With `finite` the largest exponent is an ordinary one,
 * but for the largest mantissa, which is NaN. */
struct format {
    int exponent_bits, mantissa_bits;
    bool finite;
};

/* Of a plain number's type; no float has 0 exponent bits. Here, for the tests ask for it at every element. */
static inline struct format format_of(plait_type type)
{
    static const struct format formats[] = {
        [PLAIT_F8E4M3] = { 4, 3, true }, [PLAIT_F8E5M2] = { 5, 2, false }, [PLAIT_F16] = { 5, 10, false },
        [PLAIT_BF16] = { 8, 7, false },  [PLAIT_F32] = { 8, 23, false },   [PLAIT_F64] = { 11, 52, false },
        [PLAIT_I64_I64] = { 0 }, /* the last type */
    };
    return formats[type];
}

bool data_is_float(plait_type type);
bool data_is_complex(plait_type type);
bool data_is_pair(plait_type type);

/* The plain numbers that make up an element of `type`. */
int data_parts(plait_type type);
plait_type data_part_type(plait_type type, int part);

/* The bits of one part of element `index` of `rank`. */
uint64_t data_bits(const struct data *data, int rank, size_t index, int part);

uint64_t data_float_bits(struct format format, bool negative, uint64_t exponent, uint64_t mantissa);
uint64_t data_largest_exponent(struct format format);

/* A part as it lies in memory. */
uint64_t data_load(plait_type part_type, const void *from);

#endif
