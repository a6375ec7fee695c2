/* Reduction kernels. The scalar set is held against wider arithmetic, written here again from the contract;
 * every other set is held against the scalar one, bit by bit, and may touch nothing outside its results. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "device/reduce.h"

/* Wide enough that a float64 operation done in it and rounded once more gives what one rounding gives. */
#if defined(__x86_64__)
__extension__ typedef __float128 wide_float;
#else
typedef long double wide_float;
#endif
__extension__ typedef __int128 wide_int;

enum { MAX_SOURCES = 8, MAX_COUNT = 4099, GUARD = 128 };

struct kind {
    plait_type type;
    const char *name;
    size_t size;      /* bytes */
    int digits;       /* of the significand; 0: an integer */
    int min_exponent; /* of the smallest normal number, 2^min_exponent */
    bool is_signed;   /* integers */
};

static const struct kind kinds[] = {
    { PLAIT_I8, "i8", 1, 0, 0, true },       { PLAIT_U8, "u8", 1, 0, 0, false },
    { PLAIT_I32, "i32", 4, 0, 0, true },     { PLAIT_U32, "u32", 4, 0, 0, false },
    { PLAIT_I64, "i64", 8, 0, 0, true },     { PLAIT_U64, "u64", 8, 0, 0, false },
    { PLAIT_F16, "f16", 2, 11, -14, true },  { PLAIT_BF16, "bf16", 2, 8, -126, true },
    { PLAIT_F32, "f32", 4, 24, -126, true }, { PLAIT_F64, "f64", 8, 53, -1022, true },
};

static const struct {
    plait_op op;
    const char *name;
} ops[] = {
    { PLAIT_SUM, "sum" }, { PLAIT_PRODUCT, "product" }, { PLAIT_MIN, "min" },
    { PLAIT_MAX, "max" }, { PLAIT_AVERAGE, "average" },
};

static const char *const set_names[] = { "avx512", "avx2", "neon", "scalar" };

static const size_t counts[] = { 0,  1,  2,  3,  4,  5,  7,   8,   9,    15,
                                 16, 17, 31, 33, 64, 65, 100, 129, 1000, MAX_COUNT };
static const int source_counts[] = { 1, 2, 3, 5, 8 };
static const size_t offsets[] = { 0, 1, 8, 36 }; /* bytes past an aligned address */

static uint64_t random_state;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * 0x2545f4914f6cdd1du;
}

static uint64_t get_bits(const void *array, size_t i, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * size, size);
    return bits;
}

static void put_bits(void *array, size_t i, size_t size, uint64_t bits)
{
    memcpy((char *)array + i * size, &bits, size);
}

/* ---------------------------------------------------- floats by their definition */

static int exponent_bits(const struct kind *kind)
{
    return (int)kind->size * 8 - kind->digits;
}

static uint64_t infinity_bits(const struct kind *kind)
{
    return ((UINT64_C(1) << exponent_bits(kind)) - 1) << (kind->digits - 1);
}

static uint64_t nan_bits(const struct kind *kind)
{
    return infinity_bits(kind) | UINT64_C(1) << (kind->digits - 2);
}

static uint64_t sign_bit(const struct kind *kind)
{
    return UINT64_C(1) << (kind->size * 8 - 1);
}

static double decode(const struct kind *kind, uint64_t bits)
{
    uint64_t magnitude = bits & (sign_bit(kind) - 1);
    double value;
    if (magnitude >= infinity_bits(kind)) {
        value = magnitude == infinity_bits(kind) ? (double)INFINITY : (double)NAN;
    } else {
        uint64_t fraction = magnitude & ((UINT64_C(1) << (kind->digits - 1)) - 1);
        int exponent = (int)(magnitude >> (kind->digits - 1));
        if (exponent > 0)
            fraction |= UINT64_C(1) << (kind->digits - 1);
        value = ldexp((double)fraction,
                      kind->min_exponent + (exponent > 0 ? exponent - 1 : 0) - kind->digits + 1);
    }
    return bits & sign_bit(kind) ? -value : value;
}

/* Rounds to nearest, ties to even, by counting in units of the last place. For types narrower than float64. */
static uint64_t encode(const struct kind *kind, double value)
{
    if (isnan(value))
        return nan_bits(kind);
    uint64_t sign = signbit(value) ? sign_bit(kind) : 0;
    value = fabs(value);
    if (isinf(value))
        return sign | infinity_bits(kind);
    int exponent = value == 0 ? kind->min_exponent : ilogb(value);
    if (exponent < kind->min_exponent)
        exponent = kind->min_exponent;
    double units = rint(ldexp(value, kind->digits - 1 - exponent));
    /* Units of a subnormal are its bits; a carry into the exponent comes out right by itself. */
    uint64_t bits = (uint64_t)units + ((uint64_t)(exponent - kind->min_exponent) << (kind->digits - 1));
    return sign | (bits < infinity_bits(kind) ? bits : infinity_bits(kind));
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

static uint64_t expect_float(const struct kind *kind, plait_op op, const uint64_t *values, int count,
                             unsigned divide)
{
    bool single = kind->type != PLAIT_F64; /* folded in float32 */
    double result = decode(kind, values[0]);
    for (int i = 1; i < count; i++)
        result = fold_floats(op, result, decode(kind, values[i]), single);
    if (divide > 1) {
        result = (double)((wide_float)result / (wide_float)divide);
        if (single)
            result = (double)(float)result;
    }
    if (kind->type != PLAIT_F64)
        return encode(kind, result);
    uint64_t bits;
    memcpy(&bits, &result, sizeof bits);
    return isnan(result) ? nan_bits(kind) : bits;
}

/* ---------------------------------------------------------- integers by 128 bits */

static wide_int integer_of(const struct kind *kind, uint64_t bits)
{
    wide_int value = (wide_int)(bits & (sign_bit(kind) | (sign_bit(kind) - 1)));
    bool negative = kind->is_signed && (bits & sign_bit(kind)) != 0;
    return negative ? value - (wide_int)sign_bit(kind) * 2 : value;
}

static uint64_t expect_integer(const struct kind *kind, plait_op op, const uint64_t *values, int count,
                               unsigned divide)
{
    wide_int result = integer_of(kind, values[0]);
    for (int i = 1; i < count; i++) {
        wide_int next = integer_of(kind, values[i]);
        if (op == PLAIT_PRODUCT) /* brought back to the type each time, so 128 bits hold it */
            result = integer_of(kind, (uint64_t)result * (uint64_t)next);
        else if (op == PLAIT_MIN)
            result = next < result ? next : result;
        else if (op == PLAIT_MAX)
            result = next > result ? next : result;
        else
            result = integer_of(kind, (uint64_t)(result + next));
    }
    if (divide > 1)
        result /= (wide_int)divide;
    return (uint64_t)result & (sign_bit(kind) | (sign_bit(kind) - 1));
}

/* ------------------------------------------------------------------------- data */

/* A value of a kind: mostly ordinary numbers that meet and cancel, every fourth something odd. */
static uint64_t draw(const struct kind *kind)
{
    uint64_t bits = random_bits();
    unsigned choice = (unsigned)(bits >> 60);
    if (kind->digits == 0 || choice >= 14)
        return bits; /* any bits: half of all F16 exponents, most of the NaNs */
    uint64_t sign = bits & 1 ? sign_bit(kind) : 0;
    uint64_t infinity = infinity_bits(kind);
    const uint64_t odd[] = { 0,
                             infinity,
                             infinity | 1,
                             nan_bits(kind) | 5,
                             infinity - 1,
                             1,
                             bits >> 8 & 7,
                             UINT64_C(1) << (kind->digits - 1) };
    if (choice >= 10)
        return sign | odd[bits >> 8 & 7];
    /* An exponent near 1's, so that sums round, tie and cancel. */
    uint64_t exponent = (UINT64_C(1) << (exponent_bits(kind) - 1)) - 4 + (bits >> 8 & 7);
    uint64_t fraction = bits >> 16 & ((UINT64_C(1) << (kind->digits - 1)) - 1);
    if (choice >= 5) /* few digits: ties */
        fraction &= ~((UINT64_C(1) << (kind->digits - 5)) - 1);
    return sign | exponent << (kind->digits - 1) | fraction;
}

static char *sources[MAX_SOURCES]; /* each MAX_COUNT elements of any kind, drawn anew for each test */
static char *places[MAX_SOURCES];  /* where they are put for a call, with an offset */
static char *result_place, *copy_place, *expected;

enum { PLACE_SIZE = MAX_COUNT * 8 + 2 * GUARD };

static char *make_place(void)
{
    void *place = aligned_alloc(GUARD, PLACE_SIZE - PLACE_SIZE % GUARD + GUARD);
    assert_non_null(place);
    return place;
}

static int make_places(void **state)
{
    (void)state;
    for (int s = 0; s < MAX_SOURCES; s++) {
        sources[s] = make_place();
        places[s] = make_place();
    }
    result_place = make_place();
    copy_place = make_place();
    expected = make_place();
    return 0;
}

static int free_places(void **state)
{
    (void)state;
    for (int s = 0; s < MAX_SOURCES; s++) {
        free(sources[s]);
        free(places[s]);
    }
    free(result_place);
    free(copy_place);
    free(expected);
    return 0;
}

static void draw_sources(const struct kind *kind)
{
    random_state = 0x9e3779b97f4a7c15u + (uint64_t)kind->type;
    for (int s = 0; s < MAX_SOURCES; s++) {
        for (size_t i = 0; i < MAX_COUNT; i++)
            put_bits(sources[s], i, kind->size, draw(kind));
    }
}

/* Fails unless `size` bytes at `place` + GUARD + offset are those expected, with nothing touched around them. */
static void check_place(const char *place, size_t offset, size_t size)
{
    static const unsigned char untouched[2 * GUARD] = { [0 ... 2 * GUARD - 1] = 0xa5 };
    size_t start = GUARD + offset;
    assert_memory_equal(place, untouched, start);
    assert_memory_equal(place + start, expected, size);
    assert_memory_equal(place + start + size, untouched, 2 * GUARD - start);
}

/* ------------------------------------------------------------------------ cases */

struct test_case {
    char name[48];
    const char *set;
    const struct kind *kind;
    plait_op op;
};

static unsigned divisor(const struct test_case *test, int source_count)
{
    return test->op == PLAIT_AVERAGE ? (unsigned)source_count : 0;
}

static void reference_is_right(void **state)
{
    const struct test_case *test = *state;
    const struct kind *kind = test->kind;
    reduce_fn reference = reduce_reference(kind->type, test->op);
    assert_non_null(reference);
    draw_sources(kind);

    for (int k = 1; k <= MAX_SOURCES; k++) {
        struct reduction r = { .result = result_place,
                               .sources = (const void *const *)sources,
                               .source_count = k,
                               .count = MAX_COUNT,
                               .divide = divisor(test, k) };
        reference(&r);
        for (size_t i = 0; i < MAX_COUNT; i++) {
            uint64_t values[MAX_SOURCES];
            for (int s = 0; s < k; s++)
                values[s] = get_bits(sources[s], i, kind->size);
            uint64_t wanted = kind->digits > 0 ? expect_float(kind, test->op, values, k, r.divide)
                                               : expect_integer(kind, test->op, values, k, r.divide);
            uint64_t got = get_bits(result_place, i, kind->size);
            if (got != wanted)
                fail_msg("element %zu of %d sources is %#llx, not %#llx; the first two were %#llx and %#llx",
                         i, k, (unsigned long long)got, (unsigned long long)wanted,
                         (unsigned long long)values[0],
                         (unsigned long long)get_bits(sources[1], i, kind->size));
        }
    }
}

/* One call with results at `offset`, in place of source `in_place` unless that is negative. copies: 0 none,
 * 1 ordinary, 2 streamed. */
static void check_call(const struct test_case *test, reduce_fn kernel, int k, size_t count, size_t offset,
                       int in_place, int copies)
{
    size_t size = count * test->kind->size;
    const void *from[MAX_SOURCES];
    memset(result_place, 0xa5, size + 2 * GUARD);
    memset(copy_place, 0xa5, size + 2 * GUARD);
    for (int s = 0; s < k; s++) {
        size_t own_offset = offset * (size_t)(s + 1) % GUARD;
        char *place = s == in_place ? result_place + GUARD + offset : places[s] + GUARD + own_offset;
        from[s] = memcpy(place, sources[s], size);
    }
    struct reduction r = { .result = result_place + GUARD + offset,
                           .copy = copies > 0 ? copy_place + GUARD + offset : NULL,
                           .sources = from,
                           .source_count = k,
                           .count = count,
                           .divide = divisor(test, k),
                           .stream_copy = copies == 2 };
    kernel(&r);
    check_place(result_place, offset, size);
    if (copies > 0)
        check_place(copy_place, offset, size);
}

static void set_gives_the_references_bits(void **state)
{
    const struct test_case *test = *state;
    assert_true(reduce_use(test->set));
    assert_string_equal(reduce_set_name(), test->set);
    reduce_fn kernel = reduce_find(test->kind->type, test->op);
    reduce_fn reference = reduce_reference(test->kind->type, test->op);
    assert_non_null(kernel);
    draw_sources(test->kind);

    for (size_t j = 0; j < LENGTH(source_counts); j++) {
        int k = source_counts[j];
        struct reduction r = { .result = expected,
                               .sources = (const void *const *)sources,
                               .source_count = k,
                               .count = MAX_COUNT,
                               .divide = divisor(test, k) };
        reference(&r);
        for (size_t c = 0; c < LENGTH(counts); c++)
            for (size_t o = 0; o < LENGTH(offsets); o++)
                for (int in_place = -1; in_place < k; in_place++)
                    for (int copies = 0; copies < 3; copies++)
                        check_call(test, kernel, k, counts[c], offsets[o], in_place, copies);
    }
}

/* -------------------------------------------------- conversions, every half there is */

static const struct kind *const half_kinds[] = { &kinds[6], &kinds[7] };

static void halves_widen_exactly(void **state)
{
    assert_true(reduce_use(*state));
    const struct kind *single = &kinds[8];
    uint16_t *halves = malloc(65536 * sizeof *halves);
    float *wide = malloc(65536 * sizeof *wide);
    for (unsigned i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    for (size_t t = 0; t < LENGTH(half_kinds); t++) {
        assert_int_equal(reduce_accumulator(half_kinds[t]->type), PLAIT_F32);
        reduce_widen(half_kinds[t]->type, wide, halves, 65536);
        for (unsigned i = 0; i < 65536; i++) {
            double value = decode(half_kinds[t], i);
            if (isnan(value))
                assert_true(isnan(wide[i]));
            else
                assert_int_equal(get_bits(wide, i, 4), encode(single, value));
        }
    }
    free(wide);
    free(halves);
}

/* Between each half and the next one up: the very half, just above it, just below the middle, the middle,
 * just above the middle, just below the next. */
static void floats_narrow_to_nearest_even(void **state)
{
    assert_true(reduce_use(*state));
    enum { STEPS = 6, COUNT = 65536 * STEPS };
    const struct kind *single = &kinds[8];
    float *wide = malloc(COUNT * sizeof *wide);
    uint16_t *halves = malloc(COUNT * sizeof *halves);
    for (size_t t = 0; t < LENGTH(half_kinds); t++) {
        const struct kind *kind = half_kinds[t];
        for (unsigned i = 0; i < 65536; i++) {
            double here = decode(kind, i);
            double next =
                isinf(decode(kind, i + 1)) ? ldexp(here, 1) - decode(kind, i - 1) : decode(kind, i + 1);
            float middle = (float)((here + next) / 2);
            float *row = wide + (size_t)i * STEPS;
            row[0] = (float)here;
            row[1] = nextafterf((float)here, (float)next);
            row[2] = nextafterf(middle, (float)here);
            row[3] = middle;
            row[4] = nextafterf(middle, (float)next);
            row[5] = nextafterf((float)next, (float)here);
        }
        for (unsigned divide = 0; divide < 4; divide += 3) {
            reduce_narrow(kind->type, halves, wide, COUNT, divide);
            for (size_t i = 0; i < COUNT; i++) {
                double value = divide > 1 ? (double)(wide[i] / (float)divide) : (double)wide[i];
                if (halves[i] != encode(kind, value))
                    fail_msg("%s: %#llx divided by %u became %#x, not %#llx", kind->name,
                             (unsigned long long)get_bits(wide, i, single->size), divide, halves[i],
                             (unsigned long long)encode(kind, value));
            }
        }
    }
    free(halves);
    free(wide);
}

/* Arrays that end where the next byte may not be read or written, and ones that start there. */
static void nothing_beyond_the_ends_is_touched(void **state)
{
    assert_true(reduce_use(*state));
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *arrays[4]; /* two sources, result, copy: a page each, between two that can't be touched */
    for (size_t i = 0; i < 4; i++) {
        arrays[i] = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(arrays[i], MAP_FAILED);
        assert_int_equal(mprotect(arrays[i] + page, page, PROT_READ | PROT_WRITE), 0);
    }
    for (size_t t = 0; t < LENGTH(kinds); t++) {
        reduce_fn kernel = reduce_find(kinds[t].type, PLAIT_SUM);
        size_t most = page / kinds[t].size;
        for (size_t count = 1; count <= most; count += count < 160        ? 1
                                                       : most - count > 0 ? most - count
                                                                          : 1) {
            for (size_t at_end = 0; at_end < 2; at_end++) {
                size_t at = page + (at_end ? page - count * kinds[t].size : 0);
                const void *from[] = { arrays[0] + at, arrays[1] + at };
                struct reduction r = { .result = arrays[2] + at,
                                       .copy = arrays[3] + at,
                                       .sources = from,
                                       .source_count = 2,
                                       .count = count,
                                       .stream_copy = count % 2 };
                kernel(&r); /* or a segmentation fault */
            }
        }
    }
    for (size_t i = 0; i < 4; i++)
        munmap(arrays[i], 3 * page);
}

static void other_types_travel_as_they_are(void **state)
{
    (void)state;
    assert_true(reduce_use("auto"));
    double doubles[] = { 1.0, -7.0, 0.0 }, halved[3];
    int32_t integers[] = { 7, -7, INT32_MIN };
    reduce_widen(PLAIT_F64, halved, doubles, 3);
    assert_memory_equal(halved, doubles, sizeof doubles);
    reduce_narrow(PLAIT_F64, doubles, doubles, 3, 2); /* in place */
    assert_true(doubles[0] == 0.5 && doubles[1] == -3.5 && doubles[2] == 0.0);
    reduce_narrow(PLAIT_I32, integers, integers, 3, 2);
    assert_true(integers[0] == 3 && integers[1] == -3 && integers[2] == INT32_MIN / 2);
    reduce_narrow(PLAIT_I32, integers, integers, 3, 0);
    assert_int_equal(integers[0], 3);
    for (int type = PLAIT_I8; type <= PLAIT_F64; type++) {
        bool half = type == PLAIT_F16 || type == PLAIT_BF16;
        assert_int_equal(reduce_accumulator((plait_type)type), half ? PLAIT_F32 : (plait_type)type);
    }
}

static void unknown_names_and_pairs_find_nothing(void **state)
{
    (void)state;
    assert_true(reduce_use("auto"));
    char best[16];
    snprintf(best, sizeof best, "%s", reduce_set_name());
    assert_false(reduce_use("mmx"));
    assert_false(reduce_use(""));
    assert_string_equal(reduce_set_name(), best); /* a refusal changes nothing */
    assert_true(reduce_use("scalar"));
    assert_string_equal(reduce_set_name(), "scalar");
    assert_true(reduce_use("auto"));
    assert_string_equal(reduce_set_name(), best);
    assert_null(reduce_find((plait_type)0, PLAIT_SUM));
    assert_null(reduce_find((plait_type)11, PLAIT_SUM));
    assert_null(reduce_find((plait_type)-1, PLAIT_SUM));
    assert_null(reduce_find(PLAIT_F32, (plait_op)0));
    assert_null(reduce_find(PLAIT_F32, (plait_op)6));
    assert_null(reduce_reference((plait_type)99, PLAIT_SUM));
    assert_ptr_equal(reduce_find(PLAIT_F32, PLAIT_AVERAGE), reduce_find(PLAIT_F32, PLAIT_SUM));
}

/* ------------------------------------------------------------------------ tables */

enum { PAIRS = LENGTH(kinds) * LENGTH(ops), MAX_TESTS = PAIRS * (1 + LENGTH(set_names)) + 16 };

static struct test_case cases[MAX_TESTS];
static struct CMUnitTest tests[MAX_TESTS];
static size_t test_count;

static void add_test(const char *name, CMUnitTestFunction function, const void *state)
{
    tests[test_count++] =
        (struct CMUnitTest){ .name = name, .test_func = function, .initial_state = (void *)(uintptr_t)state };
}

static void add_pairs(const char *set, CMUnitTestFunction function)
{
    for (size_t i = 0; i < PAIRS; i++) {
        struct test_case *test = &cases[test_count];
        const struct kind *kind = &kinds[i / LENGTH(ops)];
        *test = (struct test_case){ .set = set, .kind = kind, .op = ops[i % LENGTH(ops)].op };
        snprintf(test->name, sizeof test->name, "%s %s of %s", set, ops[i % LENGTH(ops)].name, kind->name);
        add_test(test->name, function, test);
    }
}

static void add_set(const char *set)
{
    if (!reduce_use(set)) {
        print_message("no %s here: not tested\n", set);
        return;
    }
    const struct {
        const char *name;
        CMUnitTestFunction function;
    } others[] = {
        { "halves widen exactly", halves_widen_exactly },
        { "floats narrow to nearest even", floats_narrow_to_nearest_even },
        { "nothing beyond the ends is touched", nothing_beyond_the_ends_is_touched },
    };
    for (size_t i = 0; i < LENGTH(others); i++) {
        char *name = cases[test_count].name;
        snprintf(name, sizeof cases[0].name, "%s: %s", set, others[i].name);
        add_test(name, others[i].function, set);
    }
    add_pairs(set, set_gives_the_references_bits);
}

int main(void)
{
    add_test("unknown names and pairs find nothing", unknown_names_and_pairs_find_nothing, NULL);
    add_test("other types travel as they are", other_types_travel_as_they_are, NULL);
    add_pairs("reference", reference_is_right);
    for (size_t s = 0; s < LENGTH(set_names); s++)
        add_set(set_names[s]);
    return _cmocka_run_group_tests("reduce", tests, test_count, make_places, free_places);
}
