#include "data.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { EDGE = 4, PICKS = 8, BORDER = 2 };

/* The parts of a float type, and how exact the type and its sums are. */
struct float_format {
    int mantissa_bits, bias, total_bits;
    double rounding;     /* the most one rounding to the type changes, relative */
    double sum_rounding; /* likewise of the type that sums are made in */
    double least;        /* half of the smallest step near zero */
};

static const struct float_format formats[] = {
    [PLAIT_F16] = { 10, 15, 16, 0x1p-11, 0x1p-24, 0x1p-25 },
    [PLAIT_BF16] = { 7, 127, 16, 0x1p-8, 0x1p-24, 0x1p-134 },
    [PLAIT_F32] = { 23, 127, 32, 0x1p-24, 0x1p-24, 0x1p-150 },
    [PLAIT_F64] = { 52, 1023, 64, 0x1p-53, 0x1p-53, 0 },
};

static bool is_float(plait_type type)
{
    return type == PLAIT_F16 || type == PLAIT_BF16 || type == PLAIT_F32 || type == PLAIT_F64;
}

static bool is_signed(plait_type type)
{
    return type == PLAIT_I8 || type == PLAIT_I32 || type == PLAIT_I64;
}

/* splitmix64: a counter in, 64 well mixed bits out. */
static inline uint64_t hash(uint64_t key, uint64_t counter)
{
    uint64_t z = key + (counter + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void data_keys(uint64_t seed, uint64_t check, int ranks, uint64_t *keys)
{
    uint64_t base = hash(seed, check);
    for (int rank = 0; rank < ranks; rank++)
        keys[rank] = hash(base, (uint64_t)rank);
}

/* Any sign and mantissa, so that rounding has work to do. Sums: magnitudes of 0.25 to 4.
 * Products: close to 1, so that those of a thousand ranks still fit binary16. */
static uint64_t float_bits(const struct float_format *format, plait_op op, uint64_t random)
{
    int bits = format->mantissa_bits;
    uint64_t sign = random >> 63, pick = (random >> 60) & 3;
    uint64_t mantissa = random & ((UINT64_C(1) << bits) - 1);
    uint64_t exponent = (uint64_t)format->bias - 2 + pick;
    if (op == PLAIT_PRODUCT) {
        bool above = pick & 1;
        exponent = (uint64_t)format->bias - (above ? 0 : 1);
        mantissa = above ? mantissa >> 3 : mantissa | (UINT64_C(3) << (bits - 2));
    }
    return sign << (format->total_bits - 1) | exponent << bits | mantissa;
}

uint64_t data_bits(plait_type type, plait_op op, uint64_t key, size_t index)
{
    uint64_t random = hash(key, index);
    if (is_float(type))
        return float_bits(&formats[type], op, random);
    if (op == PLAIT_PRODUCT)
        random |= 1; /* even factors would soon leave nothing but zeros */
    size_t size = plait_type_size(type);
    return size == 8 ? random : random & ((UINT64_C(1) << (8 * size)) - 1);
}

static void store(void *elements, size_t index, size_t size, uint64_t bits)
{
    unsigned char *to = (unsigned char *)elements + index * size;
    if (size == 1) {
        *to = (uint8_t)bits;
    } else if (size == 2) {
        uint16_t value = (uint16_t)bits;
        memcpy(to, &value, sizeof value);
    } else if (size == 4) {
        uint32_t value = (uint32_t)bits;
        memcpy(to, &value, sizeof value);
    } else {
        memcpy(to, &bits, sizeof bits);
    }
}

static uint64_t load(const void *elements, size_t index, size_t size)
{
    const unsigned char *from = (const unsigned char *)elements + index * size;
    if (size == 1)
        return *from;
    if (size == 2) {
        uint16_t value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    if (size == 4) {
        uint32_t value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

void data_fill(void *elements, size_t count, plait_type type, plait_op op, uint64_t key)
{
    size_t size = plait_type_size(type);
    for (size_t i = 0; i < count; i++)
        store(elements, i, size, data_bits(type, op, key, i));
}

/* A sum in place doubles or worse each time, unless it is zero; everything else stays at one. */
void data_fill_calm(void *elements, size_t count, plait_type type, plait_op op, bool in_place)
{
    size_t size = plait_type_size(type);
    uint64_t one = is_float(type) ? (uint64_t)formats[type].bias << formats[type].mantissa_bits : 1;
    uint64_t value = in_place && op == PLAIT_SUM && is_float(type) ? 0 : one;
    for (size_t i = 0; i < count; i++)
        store(elements, i, size, value);
}

static double double_of_float_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double double_of_f16(uint32_t bits)
{
    double sign = bits & 0x8000 ? -1 : 1;
    if ((bits & 0x7c00) == 0x7c00)
        return bits & 0x3ff ? (double)NAN : sign * (double)INFINITY;
    /* The fields at a binary32's place are 2^112 too small, subnormals included. */
    return sign * double_of_float_bits((bits & 0x7fff) << 13) * 0x1p112;
}

static int64_t signed_of(uint64_t bits, size_t size)
{
    int shift = 64 - 8 * (int)size;
    return (int64_t)(bits << shift) >> shift;
}

static double number(plait_type type, uint64_t bits)
{
    double value;
    switch (type) {
    case PLAIT_F16: return double_of_f16((uint32_t)bits);
    case PLAIT_BF16: return double_of_float_bits((uint32_t)bits << 16);
    case PLAIT_F32: return double_of_float_bits((uint32_t)bits);
    case PLAIT_F64: memcpy(&value, &bits, sizeof value); return value;
    default: return is_signed(type) ? (double)signed_of(bits, plait_type_size(type)) : (double)bits;
    }
}

static bool less(plait_type type, uint64_t a, uint64_t b)
{
    size_t size = plait_type_size(type);
    if (is_float(type))
        return number(type, a) < number(type, b);
    return is_signed(type) ? signed_of(a, size) < signed_of(b, size) : a < b;
}

static uint64_t divide(plait_type type, uint64_t sum, int ranks)
{
    if (!is_signed(type))
        return sum / (uint64_t)ranks;
    return (uint64_t)(signed_of(sum, plait_type_size(type)) / ranks);
}

/* The exact bits of a reduction of integers, or of a minimum or maximum of anything. */
static uint64_t reduce_exactly(const struct call *call, const uint64_t *keys, size_t index)
{
    size_t size = plait_type_size(call->type);
    uint64_t mask = size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1;
    uint64_t result = data_bits(call->type, call->op, keys[0], index);
    for (int rank = 1; rank < call->ranks; rank++) {
        uint64_t next = data_bits(call->type, call->op, keys[rank], index);
        if (call->op == PLAIT_SUM || call->op == PLAIT_AVERAGE)
            result = (result + next) & mask;
        else if (call->op == PLAIT_PRODUCT)
            result = (result * next) & mask;
        else if (less(call->type, next, result) == (call->op == PLAIT_MIN))
            result = next;
    }
    return call->op == PLAIT_AVERAGE ? divide(call->type, result, call->ranks) & mask : result;
}

/* The reference of a float sum, average or product, and how far off a right result may be. */
static double reduce_floats(const struct call *call, const uint64_t *keys, size_t index, double *tolerance)
{
    const struct float_format *format = &formats[call->type];
    double sum = 0, magnitude = 0, product = 1;
    for (int rank = 0; rank < call->ranks; rank++) {
        double value = number(call->type, data_bits(call->type, call->op, keys[rank], index));
        sum += value;
        magnitude += fabs(value);
        product *= value;
    }
    if (call->op == PLAIT_PRODUCT) {
        sum = product;
        magnitude = fabs(product);
    } else if (call->op == PLAIT_AVERAGE) {
        sum /= call->ranks;
        magnitude /= call->ranks;
    }
    /* Twice: the reference rounds as well, which shows for f64. One more rank: the average's division. */
    *tolerance = 2 * (call->ranks + 1) * format->sum_rounding * magnitude + format->rounding * fabs(sum) +
                 format->least;
    if (call->ranks == 1)
        *tolerance = 0;
    return sum;
}

static void note(struct tally *tally, size_t index, double got, double want)
{
    if (tally->wrong++ == 0) {
        tally->first = index;
        tally->got = got;
        tally->want = want;
    }
}

static void check_element(const struct call *call, const uint64_t *keys, size_t index, struct tally *tally)
{
    uint64_t got = load(call->output, index, plait_type_size(call->type));
    struct origin origin = call->collective->origin(call, index);
    tally->checked++;

    bool exact = !is_float(call->type) || call->op == PLAIT_MIN || call->op == PLAIT_MAX;
    if (origin.rank == ALL_RANKS && !exact) {
        double tolerance, want = reduce_floats(call, keys, origin.index, &tolerance);
        double value = number(call->type, got);
        if (!(fabs(value - want) <= tolerance)) /* a NaN is wrong, too */
            note(tally, index, value, want);
        return;
    }
    uint64_t want = origin.rank == ALL_RANKS
                        ? reduce_exactly(call, keys, origin.index)
                        : data_bits(call->type, call->op, keys[origin.rank], origin.index);
    if (got != want)
        note(tally, index, number(call->type, got), number(call->type, want));
}

static void check_run(const struct call *call, const uint64_t *keys, size_t first, size_t end,
                      struct tally *tally)
{
    for (size_t index = first; index < end; index++)
        check_element(call, keys, index, tally);
}

/* `total` is well above DATA_RUN here. The picks come from the keys: others in each check. */
static void check_sample(const struct call *call, const uint64_t *keys, size_t total, struct tally *tally)
{
    for (size_t first = 0; first < total; first += DATA_RUN) {
        size_t end = first + DATA_RUN < total ? first + DATA_RUN : total;
        if (end - first <= 2 * EDGE + PICKS) {
            check_run(call, keys, first, end, tally);
            continue;
        }
        check_run(call, keys, first, first + EDGE, tally);
        for (size_t i = 0; i < PICKS; i++) {
            size_t pick = first + EDGE + hash(~keys[0], first + i) % (end - first - 2 * EDGE);
            check_element(call, keys, pick, tally);
        }
        check_run(call, keys, end - EDGE, end, tally);
    }
    for (int part = 1; part < call->ranks; part++) {
        size_t border = total / (size_t)call->ranks * (size_t)part;
        check_run(call, keys, border - BORDER, border + BORDER, tally);
    }
}

struct tally data_check(const struct call *call, const uint64_t *keys)
{
    struct tally tally = { 0 };
    size_t total = collective_output_count(call);
    if (total <= DATA_CHECK_ALL)
        check_run(call, keys, 0, total, &tally);
    else
        check_sample(call, keys, total, &tally);
    return tally;
}
