#include "data.h"

#include <string.h>

#include "data_parts.h"
#include "ranks.h"

bool data_is_float(plait_type type)
{
    return format_of(type).exponent_bits > 0;
}

bool data_is_complex(plait_type type)
{
    return type == PLAIT_C64 || type == PLAIT_C128;
}

bool data_is_pair(plait_type type)
{
    return type >= PLAIT_F32_I32 && type <= PLAIT_I64_I64;
}

int data_parts(plait_type type)
{
    return data_is_complex(type) || data_is_pair(type) ? 2 : 1;
}

plait_type data_part_type(plait_type type, int part)
{
    switch (type) {
    case PLAIT_C64: return PLAIT_F32;
    case PLAIT_C128: return PLAIT_F64;
    case PLAIT_F32_I32: return part == 0 ? PLAIT_F32 : PLAIT_I32;
    case PLAIT_F64_I64: return part == 0 ? PLAIT_F64 : PLAIT_I64;
    case PLAIT_I32_I32: return PLAIT_I32;
    case PLAIT_I64_I64: return PLAIT_I64;
    default: return type;
    }
}

static size_t part_size(plait_type type)
{
    switch (type) {
    case PLAIT_I8:
    case PLAIT_U8:
    case PLAIT_BOOL:
    case PLAIT_BYTES:
    case PLAIT_F8E4M3:
    case PLAIT_F8E5M2: return 1;
    case PLAIT_I16:
    case PLAIT_U16:
    case PLAIT_F16:
    case PLAIT_BF16: return 2;
    case PLAIT_I32:
    case PLAIT_U32:
    case PLAIT_F32: return 4;
    default: return 8;
    }
}

size_t data_size(plait_type type)
{
    return (size_t)data_parts(type) * part_size(data_part_type(type, 0));
}

bool data_reduces(plait_type type, plait_op op)
{
    const bool sums = op == PLAIT_SUM || op == PLAIT_PRODUCT || op == PLAIT_AVERAGE;
    if (op < PLAIT_SUM || op > PLAIT_MAX_LOCATION || type == PLAIT_BYTES)
        return false;
    if (data_is_pair(type))
        return op == PLAIT_MIN_LOCATION || op == PLAIT_MAX_LOCATION;
    if (data_is_complex(type))
        return sums;
    if (data_is_float(type))
        return sums || op == PLAIT_MIN || op == PLAIT_MAX;
    if (type == PLAIT_BOOL && op == PLAIT_AVERAGE)
        return false;
    return op < PLAIT_MIN_LOCATION;
}

void data_choose(uint64_t random, bool reduces, plait_type *type, plait_op *op)
{
    do {
        *type = data_types[(random >> 8) % DATA_TYPES];
        *op = reduces ? data_ops[(random >> 16) % DATA_OPS] : PLAIT_SUM;
        random = mix(random);
    } while (reduces && !data_reduces(*type, *op));
}

/* ------------------------------------------------------------------- making */

uint64_t data_float_bits(struct format format, bool negative, uint64_t exponent, uint64_t mantissa)
{
    return (uint64_t)negative << (format.exponent_bits + format.mantissa_bits) |
           exponent << format.mantissa_bits | (mantissa & ((UINT64_C(1) << format.mantissa_bits) - 1));
}

uint64_t data_largest_exponent(struct format format)
{
    return (UINT64_C(1) << format.exponent_bits) - 1;
}

/* A number of ordinary size; near one for products, so that nine of them stay in a binary16's range. */
static uint64_t plain_bits(struct format format, plait_op op, uint64_t random)
{
    uint64_t bias = data_largest_exponent(format) / 2;
    uint64_t exponent = op == PLAIT_PRODUCT ? bias - (random & 1) : bias - 4 + (random & 15) % 5;
    return data_float_bits(format, random >> 4 & 1, exponent, random >> 5);
}

/* What goes wrong in floats, by themes: in one element all ranks have values of one theme, so
 * that each theme's result does not depend on the order in which ranks are summed. */
static uint64_t special_bits(struct format format, plait_op op, int rank, size_t index, uint64_t theme,
                             uint64_t random)
{
    const uint64_t top = data_largest_exponent(format), bias = top / 2;
    const bool negative = random & 1;
    const int pick = (int)(random >> 1 & 3);
    switch (theme % 8) {
    case 0: return data_float_bits(format, true, 0, 0);
    case 1: return data_float_bits(format, negative, 0, 0);
    case 2: return data_float_bits(format, negative, 0, random >> 3);
    case 3: /* one rank is infinite */
        return rank == (int)(index % 3) ? data_float_bits(format, theme >> 3 & 1, top, 0)
                                        : plain_bits(format, op, random);
    case 4: /* infinities, zeros and ones */
        return data_float_bits(format, negative, pick == 0 ? top : pick == 1 ? 0 : bias, 0);
    case 5: /* one rank has a NaN: quiet or signaling, with a payload */
        return rank == (int)(index % 2)
                   ? data_float_bits(format, negative, top, format.finite ? UINT64_MAX : random >> 3 | 1)
                   : plain_bits(format, op, random);
    case 6: /* the largest numbers, of one sign; a mean of them overflows or not by the accumulator's range */
        if (op == PLAIT_AVERAGE && format.exponent_bits > 5)
            return plain_bits(format, op, random);
        if (format.finite)
            return data_float_bits(format, theme >> 3 & 1, top, UINT64_MAX - 1);
        return data_float_bits(format, theme >> 3 & 1, top - 1, UINT64_MAX);
    default: return plain_bits(format, op, random);
    }
}

/* Of few values, so that ranks have equal ones and all kinds of numbers meet. */
static uint64_t value_bits(const struct data *data, plait_type type, int rank, size_t index, uint64_t place,
                           uint64_t random)
{
    if (!data_is_float(type))
        return (uint64_t)((int64_t)(random % 7) - 3);
    if (data->special)
        return special_bits(format_of(type), data->op, rank, index, place >> 32, random & 15);
    return plain_bits(format_of(type), data->op, random & 15);
}

uint64_t data_bits(const struct data *data, int rank, size_t index, int part)
{
    const plait_type type = data_part_type(data->type, part);
    const uint64_t place = mix(data->seed ^ (uint64_t)index * 0x9e3779b1u);
    const uint64_t random = mix(place + (uint64_t)rank + (uint64_t)part * 1000);
    if (data_is_pair(data->type))
        return part == 0 ? value_bits(data, type, rank, index, place, random)
                         : (uint64_t)((int64_t)(random % 100) - 10);
    if (data->type == PLAIT_BOOL || (data->op >= PLAIT_AND && data->op <= PLAIT_XOR))
        return random >> 60 < 5 ? 0 : random; /* false often enough */
    if (!data_is_float(type))
        return random;
    /* What infinities give in complex products is not told. */
    if (data->special && !(data_is_complex(data->type) && data->op == PLAIT_PRODUCT))
        return special_bits(format_of(type), data->op, rank, index, place >> 32, random);
    return plain_bits(format_of(type), data->op, random);
}

static void store(plait_type part_type, void *to, uint64_t bits)
{
    memcpy(to, &bits, part_size(part_type)); /* little-endian, as every machine Plait runs on */
}

uint64_t data_load(plait_type part_type, const void *from)
{
    uint64_t bits = 0;
    memcpy(&bits, from, part_size(part_type));
    return bits;
}

static void make_element(const struct data *data, int rank, size_t index, void *to)
{
    char *at = to;
    for (int part = 0; part < data_parts(data->type); part++) {
        const plait_type type = data_part_type(data->type, part);
        store(type, at, data_bits(data, rank, index, part));
        at += part_size(type);
    }
}

void data_fill(const struct data *data, int rank, size_t first, size_t count, void *to)
{
    const size_t size = data_size(data->type);
    for (size_t i = 0; i < count; i++)
        make_element(data, rank, first + i, (char *)to + i * size);
}

bool data_equal(const struct data *data, int rank, size_t first, size_t count, const void *got, size_t *wrong)
{
    const size_t size = data_size(data->type);
    for (size_t i = 0; i < count; i++) {
        char element[DATA_MOST_SIZE];
        make_element(data, rank, first + i, element);
        if (memcmp((const char *)got + i * size, element, size) != 0) {
            *wrong = i;
            return false;
        }
    }
    return true;
}

uint64_t data_checksum(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t sum = size;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        sum = (sum ^ word) * 0x9fb21c651e98df25u;
        sum ^= sum >> 32;
    }
    for (; size > 0; at++, size--)
        sum = (sum ^ *at) * 0x9fb21c651e98df25u;
    return sum ^ sum >> 29;
}
