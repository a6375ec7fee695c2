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
    [PLAIT_F8E4M3] = { 3, 7, 8, 0x1p-4, 0x1p-24, 0x1p-10 },
    [PLAIT_F8E5M2] = { 2, 15, 8, 0x1p-3, 0x1p-24, 0x1p-17 },
};

static bool is_float(plait_type type)
{
    switch (type) {
    case PLAIT_F8E4M3:
    case PLAIT_F8E5M2:
    case PLAIT_F16:
    case PLAIT_BF16:
    case PLAIT_F32:
    case PLAIT_F64: return true;
    default: return false;
    }
}

static bool is_signed(plait_type type)
{
    return type == PLAIT_I8 || type == PLAIT_I16 || type == PLAIT_I32 || type == PLAIT_I64;
}

static bool is_logical(plait_type type, plait_op op)
{
    return type == PLAIT_BOOL || op == PLAIT_AND || op == PLAIT_OR || op == PLAIT_XOR;
}

/* Complex numbers and pairs are two plain numbers: a first one and a second one. */
static const struct {
    plait_type first, second;
} doubles[] = {
    [PLAIT_C64] = { PLAIT_F32, PLAIT_F32 },     [PLAIT_C128] = { PLAIT_F64, PLAIT_F64 },
    [PLAIT_F32_I32] = { PLAIT_F32, PLAIT_I32 }, [PLAIT_F64_I64] = { PLAIT_F64, PLAIT_I64 },
    [PLAIT_I32_I32] = { PLAIT_I32, PLAIT_I32 }, [PLAIT_I64_I64] = { PLAIT_I64, PLAIT_I64 },
};

static size_t part_count(plait_type type)
{
    return type == PLAIT_C64 || type == PLAIT_C128 || (type >= PLAIT_F32_I32 && type <= PLAIT_I64_I64) ? 2
                                                                                                       : 1;
}

static plait_type part_type(plait_type type, size_t part)
{
    if (part_count(type) == 1)
        return type;
    return part == 0 ? doubles[type].first : doubles[type].second;
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
    if (is_logical(type, op) && random >> 62 == 0)
        random = 0; /* now and then nothing is true */
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
    size_t parts = part_count(type), size = plait_type_size(type) / parts;
    for (size_t i = 0; i < count * parts; i++)
        store(elements, i, size, data_bits(part_type(type, i % parts), op, key, i));
}

/* A sum in place doubles or worse each time, unless it is zero; everything else stays at one. */
void data_fill_calm(void *elements, size_t count, plait_type type, plait_op op, bool in_place)
{
    size_t parts = part_count(type), size = plait_type_size(type) / parts;
    plait_type first = part_type(type, 0);
    uint64_t one = is_float(first) ? (uint64_t)formats[first].bias << formats[first].mantissa_bits : 1;
    uint64_t value = in_place && op == PLAIT_SUM && is_float(first) ? 0 : one;
    for (size_t i = 0; i < count * parts; i++)
        store(elements, i, size, i % parts == 0 ? value : 0);
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
    case PLAIT_F8E4M3: /* a binary16's fields, but 2^8 too small, and its one NaN */
        if ((bits & 0x7f) == 0x7f)
            return (double)NAN;
        return double_of_f16((uint32_t)((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 0x1p8;
    case PLAIT_F8E5M2: return double_of_f16((uint32_t)bits << 8);
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

static uint64_t fold(plait_type type, plait_op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case PLAIT_PRODUCT: return a * b;
    case PLAIT_MIN: return less(type, b, a) ? b : a;
    case PLAIT_MAX: return less(type, b, a) ? a : b;
    case PLAIT_BIT_AND:
    case PLAIT_AND: return a & b;
    case PLAIT_BIT_OR:
    case PLAIT_OR: return a | b;
    case PLAIT_BIT_XOR:
    case PLAIT_XOR: return a ^ b;
    default: return a + b;
    }
}

/* The exact bits of a reduction of integers, or of a minimum or maximum of anything. */
static uint64_t reduce_exactly(const struct call *call, const uint64_t *keys, size_t index)
{
    size_t size = plait_type_size(call->type);
    uint64_t mask = size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1, result = 0;
    bool logical = is_logical(call->type, call->op);
    plait_op op = call->op == PLAIT_SUM && logical ? PLAIT_OR : call->op; /* of bools */
    for (int rank = 0; rank < call->ranks; rank++) {
        uint64_t next = data_bits(call->type, call->op, keys[rank], index);
        if (logical)
            next = next != 0;
        result = rank == 0 ? next : fold(call->type, op, result, next) & mask;
    }
    return call->op == PLAIT_AVERAGE ? divide(call->type, result, call->ranks) & mask : result;
}

/* Which rank's pair is the result: the best value's, of equal ones that of the lowest index. */
static int best_rank(const struct call *call, const uint64_t *keys, size_t index)
{
    plait_type value = part_type(call->type, 0), place = part_type(call->type, 1);
    int best = 0;
    for (int rank = 1; rank < call->ranks; rank++) {
        uint64_t old[2], next[2];
        for (size_t part = 0; part < 2; part++) {
            old[part] = data_bits(part_type(call->type, part), call->op, keys[best], 2 * index + part);
            next[part] = data_bits(part_type(call->type, part), call->op, keys[rank], 2 * index + part);
        }
        bool below = less(value, next[0], old[0]), above = less(value, old[0], next[0]);
        if (call->op == PLAIT_MIN_LOCATION ? below : above)
            best = rank;
        else if (!below && !above && less(place, next[1], old[1]))
            best = rank;
    }
    return best;
}

/* The reference of a float sum, average or product, and how far off a right result may be. */
static double reduce_floats(const struct call *call, plait_type type, const uint64_t *keys, size_t index,
                            double *tolerance)
{
    const struct float_format *format = &formats[type];
    double sum = 0, magnitude = 0, product = 1;
    for (int rank = 0; rank < call->ranks; rank++) {
        double value = number(type, data_bits(type, call->op, keys[rank], index));
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

/* Part `part` of a complex product. Each of its multiplications rounds four times. */
static double multiply_complex(const struct call *call, const uint64_t *keys, size_t index, size_t part,
                               double *tolerance)
{
    plait_type type = part_type(call->type, 0);
    double re = 1, im = 0;
    for (int rank = 0; rank < call->ranks; rank++) {
        double x = number(type, data_bits(type, call->op, keys[rank], 2 * index));
        double y = number(type, data_bits(type, call->op, keys[rank], 2 * index + 1));
        double old = re;
        re = re * x - im * y;
        im = old * y + im * x;
    }
    *tolerance = call->ranks == 1 ? 0 : 8 * call->ranks * formats[type].sum_rounding * (fabs(re) + fabs(im));
    return part == 0 ? re : im;
}

static void note(struct tally *tally, size_t index, double got, double want)
{
    if (tally->wrong++ == 0) {
        tally->first = index;
        tally->got = got;
        tally->want = want;
    }
}

/* Is a part of an element as it should be? */
static bool check_part(const struct call *call, const uint64_t *keys, struct origin origin, size_t part,
                       uint64_t got, double *value, double *want)
{
    plait_type type = part_type(call->type, part);
    size_t number_at = origin.index * part_count(call->type) + part;
    bool reduced = origin.rank == ALL_RANKS, exact = !is_float(type);
    exact |= call->op == PLAIT_MIN || call->op == PLAIT_MAX;
    *value = number(type, got);
    if (reduced && part_count(call->type) == 2 && is_float(part_type(call->type, 1))) {
        exact = false; /* complex */
    } else if (reduced && part_count(call->type) == 2) {
        origin.rank = best_rank(call, keys, origin.index);
        reduced = false;
    }
    if (reduced && !exact) {
        double tolerance;
        *want = call->op == PLAIT_PRODUCT && part_count(call->type) == 2
                    ? multiply_complex(call, keys, origin.index, part, &tolerance)
                    : reduce_floats(call, type, keys, number_at, &tolerance);
        return fabs(*value - *want) <= tolerance; /* a NaN is wrong, too */
    }
    uint64_t bits = reduced ? reduce_exactly(call, keys, origin.index)
                            : data_bits(type, call->op, keys[origin.rank], number_at);
    *want = number(type, bits);
    return got == bits;
}

static void check_element(const struct call *call, const uint64_t *keys, size_t index, struct tally *tally)
{
    size_t parts = part_count(call->type), size = plait_type_size(call->type) / parts;
    struct origin origin = call->collective->origin(call, index);
    tally->checked++;
    for (size_t part = 0; part < parts; part++) {
        double value, want;
        uint64_t got = load(call->output, index * parts + part, size);
        if (!check_part(call, keys, origin, part, got, &value, &want)) {
            note(tally, index, value, want);
            return;
        }
    }
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
