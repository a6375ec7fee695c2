#include "data.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ranks.h"

/* An IEEE format: sign, exponent, mantissa. */
struct format {
    int exponent_bits, mantissa_bits;
};

static struct format format_of(plait_type type)
{
    switch (type) {
    case PLAIT_F16: return (struct format){ 5, 10 };
    case PLAIT_BF16: return (struct format){ 8, 7 };
    case PLAIT_F32: return (struct format){ 8, 23 };
    default: return (struct format){ 11, 52 };
    }
}

size_t data_size(plait_type type)
{
    switch (type) {
    case PLAIT_I8:
    case PLAIT_U8: return 1;
    case PLAIT_F16:
    case PLAIT_BF16: return 2;
    case PLAIT_I32:
    case PLAIT_U32:
    case PLAIT_F32: return 4;
    default: return 8;
    }
}

bool data_is_float(plait_type type)
{
    return type == PLAIT_F16 || type == PLAIT_BF16 || type == PLAIT_F32 || type == PLAIT_F64;
}

/* ------------------------------------------------------------------- making */

static uint64_t float_bits(struct format format, bool negative, uint64_t exponent, uint64_t mantissa)
{
    return (uint64_t)negative << (format.exponent_bits + format.mantissa_bits) |
           exponent << format.mantissa_bits | (mantissa & ((UINT64_C(1) << format.mantissa_bits) - 1));
}

static uint64_t largest_exponent(struct format format)
{
    return (UINT64_C(1) << format.exponent_bits) - 1;
}

/* A number of ordinary size; near one for products, so that nine of them stay in a binary16's range. */
static uint64_t plain_bits(struct format format, plait_op op, uint64_t random)
{
    uint64_t bias = largest_exponent(format) / 2;
    uint64_t exponent = op == PLAIT_PRODUCT ? bias - (random & 1) : bias - 4 + (random & 15) % 5;
    return float_bits(format, random >> 4 & 1, exponent, random >> 5);
}

/* What goes wrong in floats, by themes: in one element all ranks have values of one theme, so
 * that each theme's result does not depend on the order in which ranks are summed. */
static uint64_t special_bits(struct format format, plait_op op, int rank, size_t index, uint64_t theme,
                             uint64_t random)
{
    const uint64_t top = largest_exponent(format), bias = top / 2;
    const bool negative = random & 1;
    const int pick = (int)(random >> 1 & 3);
    switch (theme % 8) {
    case 0: return float_bits(format, true, 0, 0);
    case 1: return float_bits(format, negative, 0, 0);
    case 2: return float_bits(format, negative, 0, random >> 3);
    case 3: /* one rank is infinite */
        return rank == (int)(index % 3) ? float_bits(format, theme >> 3 & 1, top, 0)
                                        : plain_bits(format, op, random);
    case 4: /* infinities, zeros and ones */
        return float_bits(format, negative, pick == 0 ? top : pick == 1 ? 0 : bias, 0);
    case 5: /* one rank has a NaN: quiet or signaling, with a payload */
        return rank == (int)(index % 2) ? float_bits(format, negative, top, random >> 3 | 1)
                                        : plain_bits(format, op, random);
    case 6: /* the largest numbers, of one sign; a mean of them overflows or not by the accumulator's range */
        if (op == PLAIT_AVERAGE && format.exponent_bits != 5)
            return plain_bits(format, op, random);
        return float_bits(format, theme >> 3 & 1, top - 1, UINT64_MAX);
    default: return plain_bits(format, op, random);
    }
}

static uint64_t element_bits(const struct data *data, int rank, size_t index)
{
    const uint64_t place = mix(data->seed ^ (uint64_t)index * 0x9e3779b1u);
    const uint64_t random = mix(place + (uint64_t)rank);
    if (!data_is_float(data->type))
        return random;
    if (data->special)
        return special_bits(format_of(data->type), data->op, rank, index, place >> 32, random);
    return plain_bits(format_of(data->type), data->op, random);
}

static void store(plait_type type, void *to, uint64_t bits)
{
    memcpy(to, &bits, data_size(type)); /* little-endian, as every machine Plait runs on */
}

static uint64_t load(plait_type type, const void *from)
{
    uint64_t bits = 0;
    memcpy(&bits, from, data_size(type));
    return bits;
}

void data_fill(const struct data *data, int rank, size_t first, size_t count, void *to)
{
    const size_t size = data_size(data->type);
    for (size_t i = 0; i < count; i++)
        store(data->type, (char *)to + i * size, element_bits(data, rank, first + i));
}

bool data_equal(const struct data *data, int rank, size_t first, size_t count, const void *got, size_t *wrong)
{
    const size_t size = data_size(data->type);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = element_bits(data, rank, first + i);
        if (memcmp((const char *)got + i * size, &bits, size) != 0) {
            *wrong = i;
            return false;
        }
    }
    return true;
}

/* --------------------------------------------------------------- integers */

static int64_t extended(plait_type type, uint64_t bits)
{
    switch (type) {
    case PLAIT_I8: return (int8_t)bits;
    case PLAIT_U8: return (uint8_t)bits;
    case PLAIT_I32: return (int32_t)bits;
    case PLAIT_U32: return (uint32_t)bits;
    default: return (int64_t)bits;
    }
}

static bool integer_less(plait_type type, uint64_t a, uint64_t b)
{
    if (type == PLAIT_U64)
        return a < b;
    return extended(type, a) < extended(type, b);
}

/* The sum, cut to the type's bits, divided and truncated toward zero. */
static uint64_t integer_average(plait_type type, uint64_t sum, int ranks)
{
    if (type == PLAIT_U64)
        return sum / (uint64_t)ranks;
    return (uint64_t)(extended(type, sum) / ranks);
}

static uint64_t integer_reduced(const struct data *data, int ranks, size_t index)
{
    uint64_t result = element_bits(data, 0, index);
    for (int rank = 1; rank < ranks; rank++) {
        uint64_t value = element_bits(data, rank, index);
        if (data->op == PLAIT_PRODUCT)
            result *= value;
        else if (data->op == PLAIT_MIN)
            result = integer_less(data->type, value, result) ? value : result;
        else if (data->op == PLAIT_MAX)
            result = integer_less(data->type, result, value) ? value : result;
        else
            result += value;
    }
    return data->op == PLAIT_AVERAGE ? integer_average(data->type, result, ranks) : result;
}

static bool integer_right(const struct data *data, int ranks, size_t index, const void *got, char *why,
                          size_t why_size)
{
    uint64_t wanted = integer_reduced(data, ranks, index);
    if (memcmp(got, &wanted, data_size(data->type)) == 0)
        return true;
    snprintf(why, why_size, "is %lld, not %lld", (long long)extended(data->type, load(data->type, got)),
             (long long)extended(data->type, wanted));
    return false;
}

/* ----------------------------------------------------------------- floats */

static double float_value(plait_type type, uint64_t bits)
{
    const struct format format = format_of(type);
    const uint64_t top = largest_exponent(format);
    const uint64_t exponent = bits >> format.mantissa_bits & top;
    const uint64_t mantissa = bits & ((UINT64_C(1) << format.mantissa_bits) - 1);
    const int bias = (int)(top / 2);
    const bool negative = bits >> (format.exponent_bits + format.mantissa_bits) & 1;
    double value;
    if (exponent == top)
        value = mantissa != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp((double)mantissa, 1 - bias - format.mantissa_bits);
    else
        value = ldexp((double)(mantissa | UINT64_C(1) << format.mantissa_bits),
                      (int)exponent - bias - format.mantissa_bits);
    return negative ? -value : value;
}

/* What a reduction of one element should give, and how far from it a right answer may be. */
struct expectation {
    double value, tolerance;
    bool exact_zero; /* the sign of the zero matters */
};

/* -0 below +0; a NaN wins. */
static double picked(plait_op op, double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    bool less = b < a || (b == a && signbit(b) && !signbit(a));
    return (op == PLAIT_MIN) == less ? b : a;
}

static double half_unit(int mantissa_bits)
{
    return ldexp(1, -mantissa_bits - 1);
}

/* `magnitude`: of what was added up. Float64's reference errs itself as much as the library may. */
static double tolerance_of(const struct data *data, int ranks, double value, double magnitude)
{
    const struct format format = format_of(data->type);
    const bool narrow = format.mantissa_bits < 23;
    const double unit = data->type == PLAIT_F64 ? 2 * half_unit(52) : half_unit(23);
    double tolerance = (ranks - 1) * unit * magnitude * 1.01;
    if (data->op == PLAIT_AVERAGE)
        tolerance = tolerance / ranks + unit * fabs(value);
    if (narrow)
        tolerance += half_unit(format.mantissa_bits) * (fabs(value) + tolerance);
    /* Half the distance of subnormals, for each rounding. */
    int least = 2 - (1 << (format.exponent_bits - 1)) - format.mantissa_bits;
    int roundings = data->op == PLAIT_PRODUCT ? ranks : 1;
    if (narrow || data->op == PLAIT_PRODUCT || data->op == PLAIT_AVERAGE)
        tolerance += data->type == PLAIT_F64 ? roundings * DBL_TRUE_MIN : roundings * ldexp(0.5, least);
    return tolerance;
}

static struct expectation float_expectation(const struct data *data, int ranks, size_t index)
{
    double result = float_value(data->type, element_bits(data, 0, index));
    double magnitude = fabs(result);
    bool any_zero = result == 0;
    for (int rank = 1; rank < ranks; rank++) {
        double value = float_value(data->type, element_bits(data, rank, index));
        magnitude += fabs(value);
        any_zero |= value == 0;
        if (data->op == PLAIT_PRODUCT)
            result *= value;
        else if (data->op == PLAIT_MIN || data->op == PLAIT_MAX)
            result = picked(data->op, result, value);
        else
            result += value;
    }
    if (data->op == PLAIT_AVERAGE)
        result /= ranks;
    struct expectation expectation = { .value = result };
    if (data->op == PLAIT_MIN || data->op == PLAIT_MAX) {
        expectation.exact_zero = true;
    } else {
        expectation.exact_zero = data->op == PLAIT_PRODUCT ? any_zero : magnitude == 0;
        expectation.tolerance =
            tolerance_of(data, ranks, result, data->op == PLAIT_PRODUCT ? fabs(result) : magnitude);
    }
    return expectation;
}

static double largest(plait_type type)
{
    const struct format format = format_of(type);
    return float_value(type, float_bits(format, false, largest_exponent(format) - 1, UINT64_MAX));
}

static bool float_right(const struct data *data, int ranks, size_t index, const void *got, char *why,
                        size_t why_size)
{
    const double is = float_value(data->type, load(data->type, got));
    struct expectation wanted = float_expectation(data, ranks, index);
    bool right;
    if (isfinite(wanted.value) && fabs(wanted.value) > largest(data->type))
        wanted.value = copysign(INFINITY, wanted.value);
    if (isnan(wanted.value))
        right = isnan(is);
    else if (isinf(wanted.value))
        right = is == wanted.value;
    else
        right = fabs(is - wanted.value) <= wanted.tolerance; /* false for a NaN */
    if (right && wanted.value == 0 && wanted.exact_zero)
        right = is == 0 && !signbit(is) == !signbit(wanted.value);
    if (!right)
        snprintf(why, why_size, "is %.17g (%#llx), not %.17g (tolerance %.3g)", is,
                 (unsigned long long)load(data->type, got), wanted.value, wanted.tolerance);
    return right;
}

/* -------------------------------------------------------------------------- */

bool data_reduced(const struct data *data, int ranks, size_t first, size_t count, const void *got, char *why,
                  size_t why_size)
{
    const size_t size = data_size(data->type);
    const bool is_float = data_is_float(data->type);
    for (size_t i = 0; i < count; i++) {
        const char *element = (const char *)got + i * size;
        char text[160];
        if (is_float ? float_right(data, ranks, first + i, element, text, sizeof text)
                     : integer_right(data, ranks, first + i, element, text, sizeof text))
            continue;
        snprintf(why, why_size, "element %zu %s", first + i, text);
        return false;
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
