/* What reductions of the data must give: integers exactly, floats within what the documented order of
 * operations may err. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data_parts.h"

/* ------------------------------------------------------- integers and truths */

static int64_t extended(plait_type type, uint64_t bits)
{
    switch (type) {
    case PLAIT_I8: return (int8_t)bits;
    case PLAIT_BOOL:
    case PLAIT_U8: return (uint8_t)bits;
    case PLAIT_I16: return (int16_t)bits;
    case PLAIT_U16: return (uint16_t)bits;
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

static uint64_t integer_folded(plait_type type, plait_op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case PLAIT_PRODUCT: return a * b;
    case PLAIT_MIN: return integer_less(type, b, a) ? b : a;
    case PLAIT_MAX: return integer_less(type, a, b) ? b : a;
    case PLAIT_BIT_AND: return a & b;
    case PLAIT_BIT_OR: return a | b;
    case PLAIT_BIT_XOR: return a ^ b;
    case PLAIT_AND: return a && b;
    case PLAIT_OR: return a || b;
    case PLAIT_XOR: return !a != !b;
    default: return a + b;
    }
}

/* What an operation on truths is in logic. */
static plait_op bool_meaning(plait_op op)
{
    switch (op) {
    case PLAIT_SUM:
    case PLAIT_MAX:
    case PLAIT_BIT_OR: return PLAIT_OR;
    case PLAIT_PRODUCT:
    case PLAIT_MIN:
    case PLAIT_BIT_AND: return PLAIT_AND;
    case PLAIT_BIT_XOR: return PLAIT_XOR;
    default: return op;
    }
}

static uint64_t integer_reduced(const struct data *data, int ranks, size_t index)
{
    const plait_op op = data->type == PLAIT_BOOL ? bool_meaning(data->op) : data->op;
    const bool logical = op == PLAIT_AND || op == PLAIT_OR || op == PLAIT_XOR;
    uint64_t result = 0;
    for (int rank = 0; rank < ranks; rank++) {
        uint64_t value = (uint64_t)extended(data->type, data_bits(data, rank, index, 0));
        if (logical)
            value = value != 0;
        result = rank == 0 ? value : integer_folded(data->type, op, result, value);
    }
    return op == PLAIT_AVERAGE ? integer_average(data->type, result, ranks) : result;
}

static bool integer_right(const struct data *data, int ranks, size_t index, const void *got, char *why,
                          size_t why_size)
{
    const int64_t wanted = extended(data->type, integer_reduced(data, ranks, index));
    const int64_t is = extended(data->type, data_load(data->type, got));
    if (is == wanted)
        return true;
    snprintf(why, why_size, "is %lld, not %lld", (long long)is, (long long)wanted);
    return false;
}

/* ----------------------------------------------------------------- floats */

static double float_value(plait_type type, uint64_t bits)
{
    const struct format format = format_of(type);
    const uint64_t top = data_largest_exponent(format);
    const uint64_t exponent = bits >> format.mantissa_bits & top;
    const uint64_t mantissa = bits & ((UINT64_C(1) << format.mantissa_bits) - 1);
    const int bias = (int)(top / 2);
    const bool negative = bits >> (format.exponent_bits + format.mantissa_bits) & 1;
    double value;
    if (exponent == top && !format.finite)
        value = mantissa != 0 ? NAN : INFINITY;
    else if (exponent == top && mantissa + 1 == UINT64_C(1) << format.mantissa_bits)
        value = NAN;
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
    const plait_type type = data_part_type(data->type, 0);
    const struct format format = format_of(type);
    const bool narrow = format.mantissa_bits < 23;
    const double unit = type == PLAIT_F64 ? 2 * half_unit(52) : half_unit(23);
    double tolerance = (ranks - 1) * unit * magnitude * 1.01;
    if (data->op == PLAIT_AVERAGE)
        tolerance = tolerance / ranks + unit * fabs(value);
    if (narrow)
        tolerance += half_unit(format.mantissa_bits) * (fabs(value) + tolerance);
    /* Half the distance of subnormals, for each rounding. */
    int least = 2 - (1 << (format.exponent_bits - 1)) - format.mantissa_bits;
    int roundings = data->op == PLAIT_PRODUCT ? ranks : 1;
    if (narrow || data->op == PLAIT_PRODUCT || data->op == PLAIT_AVERAGE)
        tolerance += type == PLAIT_F64 ? roundings * DBL_TRUE_MIN : roundings * ldexp(0.5, least);
    return tolerance;
}

static struct expectation float_expectation(const struct data *data, int ranks, size_t index, int part)
{
    const plait_type type = data_part_type(data->type, part);
    double result = float_value(type, data_bits(data, 0, index, part));
    double magnitude = fabs(result);
    bool any_zero = result == 0;
    for (int rank = 1; rank < ranks; rank++) {
        double value = float_value(type, data_bits(data, rank, index, part));
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
    if (format.finite)
        return float_value(type,
                           data_float_bits(format, false, data_largest_exponent(format), UINT64_MAX - 1));
    return float_value(type, data_float_bits(format, false, data_largest_exponent(format) - 1, UINT64_MAX));
}

/* `wanted` as the type holds it: 8-bit floats stop at the largest, the others go on to infinity. */
static double held(plait_type type, double wanted)
{
    const struct format format = format_of(type);
    /* In float32 first, where an infinity is one. */
    const bool saturates =
        format.exponent_bits + format.mantissa_bits == 7 && (format.finite || fabs(wanted) <= FLT_MAX);
    if (isinf(wanted) ? format.finite : fabs(wanted) > largest(type))
        return copysign(saturates ? largest(type) : (double)INFINITY, wanted);
    return wanted;
}

static bool part_right(plait_type type, struct expectation wanted, const void *got, char *why,
                       size_t why_size)
{
    const double is = float_value(type, data_load(type, got));
    bool right;
    wanted.value = held(type, wanted.value);
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
                 (unsigned long long)data_load(type, got), wanted.value, wanted.tolerance);
    return right;
}

/* The product's parts, in wider arithmetic for c64; each product of two rounds four times. */
static void complex_product(const struct data *data, int ranks, size_t index, struct expectation wanted[2])
{
    const plait_type type = data_part_type(data->type, 0);
    long double re = 1, im = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const long double x = float_value(type, data_bits(data, rank, index, 0));
        const long double y = float_value(type, data_bits(data, rank, index, 1));
        const long double old = re;
        re = re * x - im * y;
        im = old * y + im * x;
    }
    const double magnitude = (double)(fabsl(re) + fabsl(im));
    const double tolerance = 4 * tolerance_of(data, ranks, magnitude, magnitude);
    wanted[0] = (struct expectation){ .value = (double)re, .tolerance = tolerance };
    wanted[1] = (struct expectation){ .value = (double)im, .tolerance = tolerance };
}

static bool float_right(const struct data *data, int ranks, size_t index, const void *got, char *why,
                        size_t why_size)
{
    const plait_type type = data_part_type(data->type, 0);
    const int parts = data_parts(data->type);
    struct expectation wanted[2];
    if (parts == 2 && data->op == PLAIT_PRODUCT)
        complex_product(data, ranks, index, wanted);
    else
        for (int part = 0; part < parts; part++)
            wanted[part] = float_expectation(data, ranks, index, part);
    for (int part = 0; part < parts; part++)
        if (!part_right(type, wanted[part], (const char *)got + (size_t)part * data_size(type), why,
                        why_size))
            return false;
    return true;
}

/* --------------------------------------------------------------------- pairs */

struct pair {
    double value;
    int64_t index;
};

static double pair_value(plait_type type, uint64_t bits)
{
    return data_is_float(type) ? float_value(type, bits) : (double)extended(type, bits);
}

/* The better value; the lower index of equal ones and of NaNs, which are better than all. */
static bool pair_better(plait_op op, struct pair a, struct pair b)
{
    if (isnan(a.value) || isnan(b.value)) {
        if (isnan(a.value) != isnan(b.value))
            return isnan(a.value);
    } else if (a.value != b.value) {
        return (op == PLAIT_MIN_LOCATION) == (a.value < b.value);
    }
    return a.index < b.index;
}

static bool pair_right(const struct data *data, int ranks, size_t index, const void *got, char *why,
                       size_t why_size)
{
    const plait_type type = data_part_type(data->type, 0), index_type = data_part_type(data->type, 1);
    struct pair wanted = { 0, 0 };
    for (int rank = 0; rank < ranks; rank++) {
        const struct pair next = { pair_value(type, data_bits(data, rank, index, 0)),
                                   extended(index_type, data_bits(data, rank, index, 1)) };
        if (rank == 0 || pair_better(data->op, next, wanted))
            wanted = next;
    }
    const double is = pair_value(type, data_load(type, got));
    const int64_t at = extended(index_type, data_load(index_type, (const char *)got + data_size(type)));
    if (at == wanted.index && (is == wanted.value || (isnan(is) && isnan(wanted.value))))
        return true;
    snprintf(why, why_size, "is %.17g at %lld, not %.17g at %lld", is, (long long)at, wanted.value,
             (long long)wanted.index);
    return false;
}

/* -------------------------------------------------------------------------- */

static bool element_right(const struct data *data, int ranks, size_t index, const void *got, char *why,
                          size_t why_size)
{
    if (data_is_pair(data->type))
        return pair_right(data, ranks, index, got, why, why_size);
    if (data_is_float(data_part_type(data->type, 0)))
        return float_right(data, ranks, index, got, why, why_size);
    return integer_right(data, ranks, index, got, why, why_size);
}

bool data_reduced(const struct data *data, int ranks, size_t first, size_t count, const void *got, char *why,
                  size_t why_size)
{
    const size_t size = data_size(data->type);
    for (size_t i = 0; i < count; i++) {
        char text[160];
        if (element_right(data, ranks, first + i, (const char *)got + i * size, text, sizeof text))
            continue;
        snprintf(why, why_size, "element %zu %s", first + i, text);
        return false;
    }
    return true;
}
