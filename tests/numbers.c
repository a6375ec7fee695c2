#include "numbers.h"

#include <math.h>
#include <string.h>

/* Wide enough that a float64 operation done in it and rounded once more gives what one rounding gives. */
#if defined(__x86_64__)
__extension__ typedef __float128 wide_float;
#else
typedef long double wide_float;
#endif
__extension__ typedef __int128 wide_int;

static const struct kind kinds[] = {
    { PLAIT_I8, "i8", 1, .is_signed = true },
    { PLAIT_U8, "u8", 1, .is_signed = false },
    { PLAIT_I16, "i16", 2, .is_signed = true },
    { PLAIT_U16, "u16", 2, .is_signed = false },
    { PLAIT_I32, "i32", 4, .is_signed = true },
    { PLAIT_U32, "u32", 4, .is_signed = false },
    { PLAIT_I64, "i64", 8, .is_signed = true },
    { PLAIT_U64, "u64", 8, .is_signed = false },
    { PLAIT_F8E4M3, "f8e4m3", 1, 4, -6, true, true, 0x7e, 0, 0x7f },
    { PLAIT_F8E5M2, "f8e5m2", 1, 3, -14, true, true, 0x7b, 0x7c, 0x7f },
    { PLAIT_F16, "f16", 2, 11, -14, true, false, 0x7bff, 0x7c00, 0x7e00 },
    { PLAIT_BF16, "bf16", 2, 8, -126, true, false, 0x7f7f, 0x7f80, 0x7fc0 },
    { PLAIT_F32, "f32", 4, 24, -126, true, false, 0x7f7fffff, 0x7f800000, 0x7fc00000 },
    { PLAIT_F64, "f64", 8, 53, -1022, true, false, 0x7fefffffffffffff, 0x7ff0000000000000,
      0x7ff8000000000000 },
};

const struct kind *kind_of(plait_type type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].type == type)
            return &kinds[i];
    return NULL;
}

uint64_t number_get(const void *array, size_t i, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * size, size);
    return bits;
}

void number_put(void *array, size_t i, size_t size, uint64_t bits)
{
    memcpy((char *)array + i * size, &bits, size);
}

/* -------------------------------------------------------------------- floats */

uint64_t number_sign(const struct kind *kind)
{
    return UINT64_C(1) << (kind->size * 8 - 1);
}

double number_decode(const struct kind *kind, uint64_t bits)
{
    uint64_t magnitude = bits & (number_sign(kind) - 1);
    double value;
    if (magnitude > kind->largest) {
        value = magnitude == kind->infinity ? (double)INFINITY : (double)NAN;
    } else {
        uint64_t fraction = magnitude & ((UINT64_C(1) << (kind->digits - 1)) - 1);
        int exponent = (int)(magnitude >> (kind->digits - 1));
        if (exponent > 0)
            fraction |= UINT64_C(1) << (kind->digits - 1);
        value = ldexp((double)fraction,
                      kind->min_exponent + (exponent > 0 ? exponent - 1 : 0) - kind->digits + 1);
    }
    return bits & number_sign(kind) ? -value : value;
}

uint64_t number_encode(const struct kind *kind, double value)
{
    if (isnan(value))
        return kind->nan;
    uint64_t sign = signbit(value) ? number_sign(kind) : 0;
    value = fabs(value);
    if (isinf(value))
        return sign | (kind->infinity != 0 ? kind->infinity : kind->largest);
    int exponent = value == 0 ? kind->min_exponent : ilogb(value);
    if (exponent < kind->min_exponent)
        exponent = kind->min_exponent;
    double units = rint(ldexp(value, kind->digits - 1 - exponent));
    /* Units of a subnormal are its bits; a carry into the exponent comes out right by itself. */
    uint64_t bits = (uint64_t)units + ((uint64_t)(exponent - kind->min_exponent) << (kind->digits - 1));
    if (bits > kind->largest)
        bits = kind->saturates ? kind->largest : kind->infinity;
    return sign | bits;
}

static double fold_floats(plait_op op, double a, double b, bool single)
{
    wide_float x = a, y = b, folded;
    switch (op) {
    case PLAIT_PRODUCT: folded = x * y; break;
    case PLAIT_MIN:
    case PLAIT_MAX:
        if (isnan(a) || isnan(b))
            return (double)NAN;
        if (a == b)
            return (signbit(a) != 0) == (op == PLAIT_MIN) ? a : b;
        return (a < b) == (op == PLAIT_MIN) ? a : b;
    default: folded = x + y;
    }
    return single ? (double)(float)(double)folded : (double)folded;
}

static uint64_t reduce_floats(const struct kind *kind, plait_op op, const uint64_t *values, int count,
                              unsigned divide)
{
    bool single = kind->type != PLAIT_F64; /* folded in float32 */
    double result = number_decode(kind, values[0]);
    for (int i = 1; i < count; i++)
        result = fold_floats(op, result, number_decode(kind, values[i]), single);
    if (divide > 1) {
        result = (double)((wide_float)result / (wide_float)divide);
        if (single)
            result = (double)(float)result;
    }
    if (kind->type != PLAIT_F64)
        return number_encode(kind, result);
    uint64_t bits;
    memcpy(&bits, &result, sizeof bits);
    return isnan(result) ? kind->nan : bits;
}

/* ------------------------------------------------------------------ integers */

static wide_int integer_of(const struct kind *kind, uint64_t bits)
{
    wide_int value = (wide_int)(bits & (number_sign(kind) | (number_sign(kind) - 1)));
    bool negative = kind->is_signed && (bits & number_sign(kind)) != 0;
    return negative ? value - (wide_int)number_sign(kind) * 2 : value;
}

/* Of values of the type; what comes out is brought back to it. */
static uint64_t fold_integers(plait_op op, wide_int a, wide_int b)
{
    switch (op) {
    case PLAIT_PRODUCT: return (uint64_t)a * (uint64_t)b;
    case PLAIT_MIN: return (uint64_t)(b < a ? b : a);
    case PLAIT_MAX: return (uint64_t)(b > a ? b : a);
    case PLAIT_BIT_AND: return (uint64_t)a & (uint64_t)b;
    case PLAIT_BIT_OR: return (uint64_t)a | (uint64_t)b;
    case PLAIT_BIT_XOR: return (uint64_t)a ^ (uint64_t)b;
    case PLAIT_AND: return a != 0 && b != 0;
    case PLAIT_OR: return a != 0 || b != 0;
    case PLAIT_XOR: return (a != 0) != (b != 0);
    default: return (uint64_t)(a + b);
    }
}

static uint64_t reduce_integers(const struct kind *kind, plait_op op, const uint64_t *values, int count,
                                unsigned divide)
{
    wide_int result = integer_of(kind, values[0]);
    for (int i = 1; i < count; i++)
        result = integer_of(kind, fold_integers(op, result, integer_of(kind, values[i])));
    if (op == PLAIT_AND || op == PLAIT_OR || op == PLAIT_XOR)
        result = result != 0; /* of one value, too */
    if (divide > 1)
        result /= (wide_int)divide;
    return (uint64_t)result & (number_sign(kind) | (number_sign(kind) - 1));
}

uint64_t number_reduce(const struct kind *kind, plait_op op, const uint64_t *values, int count,
                       unsigned divide)
{
    return kind->digits > 0 ? reduce_floats(kind, op, values, count, divide)
                            : reduce_integers(kind, op, values, count, divide);
}

/* ------------------------------------------------------------------- drawing */

uint64_t number_draw(const struct kind *kind, uint64_t random)
{
    unsigned choice = (unsigned)(random >> 60);
    if (kind->digits == 0)
        return choice < 4 ? 0 : random; /* false often enough */
    if (choice >= 14)
        return random; /* any bits: half of all F16 exponents, most of the NaNs */
    uint64_t sign = random & 1 ? number_sign(kind) : 0;
    const uint64_t odd[] = { 0,
                             kind->infinity,
                             kind->largest + 2, /* a NaN, or there is but one */
                             kind->nan,
                             kind->largest,
                             1,
                             random >> 8 & 7,
                             UINT64_C(1) << (kind->digits - 1) };
    if (choice >= 10)
        return sign | (odd[random >> 8 & 7] & (number_sign(kind) - 1));
    /* An exponent near 1's, so that sums round, tie and cancel. */
    uint64_t one = (uint64_t)(1 - kind->min_exponent);
    uint64_t exponent = one - 3 + (random >> 8 & 7);
    uint64_t fraction = random >> 16 & ((UINT64_C(1) << (kind->digits - 1)) - 1);
    if (choice >= 5 && kind->digits > 5) /* few digits: ties */
        fraction &= ~((UINT64_C(1) << (kind->digits - 5)) - 1);
    return sign | exponent << (kind->digits - 1) | fraction;
}
