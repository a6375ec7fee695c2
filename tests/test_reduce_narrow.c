/* Floats of 8 and 16 bits on their way to float32 and back, in every set of kernels: every one of them widened, and
 * all there is to round narrowed. Then all pairs of 8-bit elements in all reductions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/element.h"
#include "check.h"
#include "device/reduce.h"
#include "numbers.h"

static const plait_type narrow_types[] = { PLAIT_F8E4M3, PLAIT_F8E5M2, PLAIT_F16, PLAIT_BF16 };

/* Every value that the type has, and their number. */
static unsigned count_all(const struct kind *kind)
{
    return 1u << (8 * kind->size);
}

static void *make_all(const struct kind *kind)
{
    char *all = malloc(count_all(kind) * kind->size);
    assert_non_null(all);
    for (unsigned i = 0; i < count_all(kind); i++)
        number_put(all, i, kind->size, i);
    return all;
}

static void all_widen_exactly(void **state)
{
    assert_true(reduce_use(*state));
    for (size_t t = 0; t < LENGTH(narrow_types); t++) {
        const struct kind *kind = kind_of(narrow_types[t]), *single = kind_of(PLAIT_F32);
        const unsigned count = count_all(kind);
        void *all = make_all(kind);
        float *wide = malloc(count * sizeof *wide);
        assert_int_equal(element_accumulator(kind->type), PLAIT_F32);
        reduce_widen(kind->type, wide, all, count);
        for (unsigned i = 0; i < count; i++) {
            double value = number_decode(kind, i);
            if (isnan(value) ? !isnan(wide[i]) : number_get(wide, i, 4) != number_encode(single, value))
                fail_msg("%s: %#x became %a, not %a", kind->name, i, (double)wide[i], value);
        }
        free(wide);
        free(all);
    }
}

static void check_narrowing(const struct kind *kind, const float *wide, size_t count)
{
    char *narrow = malloc(count * kind->size);
    for (unsigned divide = 0; divide < 4; divide += 3) {
        reduce_narrow(kind->type, narrow, wide, count, divide);
        for (size_t i = 0; i < count; i++) {
            double value = divide > 1 ? (double)(wide[i] / (float)divide) : (double)wide[i];
            uint64_t got = number_get(narrow, i, kind->size), wanted = number_encode(kind, value);
            if (got != wanted)
                fail_msg("%s: %a divided by %u became %#llx, not %#llx", kind->name, (double)wide[i], divide,
                         (unsigned long long)got, (unsigned long long)wanted);
        }
    }
    free(narrow);
}

/* Between each value and the next one up: the very value, just above it, just below the middle, the middle,
 * just above the middle, just below the next. */
static void floats_narrow_to_nearest_even(void **state)
{
    assert_true(reduce_use(*state));
    enum { STEPS = 6 };
    for (size_t t = 0; t < LENGTH(narrow_types); t++) {
        const struct kind *kind = kind_of(narrow_types[t]);
        const size_t count = count_all(kind);
        float *wide = malloc(count * STEPS * sizeof *wide);
        for (unsigned i = 0; i < count; i++) {
            double here = number_decode(kind, i), next = number_decode(kind, i + 1);
            if (!isfinite(next))
                next = ldexp(here, 1) - number_decode(kind, i - 1);
            float middle = (float)((here + next) / 2);
            float *row = wide + (size_t)i * STEPS;
            row[0] = (float)here;
            row[1] = nextafterf((float)here, (float)next);
            row[2] = nextafterf(middle, (float)here);
            row[3] = middle;
            row[4] = nextafterf(middle, (float)next);
            row[5] = nextafterf((float)next, (float)here);
        }
        check_narrowing(kind, wide, count * STEPS);
        free(wide);
    }
}

/* All upper halves of a float32, with lower halves that round differently: too large, infinite, NaN, tiny. */
static void the_whole_range_narrows(void **state)
{
    assert_true(reduce_use(*state));
    static const uint32_t lower[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
    const size_t count = 65536 * LENGTH(lower);
    float *wide = malloc(count * sizeof *wide);
    for (size_t i = 0; i < count; i++)
        number_put(wide, i, 4, (uint64_t)(i / LENGTH(lower)) << 16 | lower[i % LENGTH(lower)]);
    for (size_t t = 0; t < LENGTH(narrow_types); t++)
        check_narrowing(kind_of(narrow_types[t]), wide, count);
    free(wide);
}

/* All values against all, or for 16 bits against some. */
static void all_pairs_reduce_rightly(void **state)
{
    assert_true(reduce_use(*state));
    enum { COUNT = 65536 };
    static unsigned char a[COUNT * 2], b[COUNT * 2], got[COUNT * 2];
    const void *sources[2] = { a, b };
    for (int type = PLAIT_I8; type < ELEMENT_TYPES; type++) {
        const struct kind *kind = kind_of((plait_type)type);
        if (kind == NULL || kind->size > 2)
            continue;
        for (size_t i = 0; i < COUNT; i++) {
            number_put(a, i, kind->size, i);
            number_put(b, i, kind->size, kind->size == 1 ? i >> 8 : i * 40503 >> 4);
        }
        for (int op = PLAIT_SUM; op < ELEMENT_OPS; op++) {
            if (!plait_type_reduces((plait_type)type, (plait_op)op))
                continue;
            unsigned divide = op == PLAIT_AVERAGE ? 2 : 0;
            struct reduction r = {
                .result = got, .sources = sources, .source_count = 2, .count = COUNT, .divide = divide
            };
            reduce_find((plait_type)type, (plait_op)op)(&r);
            for (size_t i = 0; i < COUNT; i++) {
                uint64_t values[2] = { number_get(a, i, kind->size), number_get(b, i, kind->size) };
                uint64_t wanted = number_reduce(kind, (plait_op)op, values, 2, divide);
                if (number_get(got, i, kind->size) != wanted)
                    fail_msg("%s of %s: %#llx and %#llx gave %#llx, not %#llx", plait_op_name((plait_op)op),
                             kind->name, (unsigned long long)values[0], (unsigned long long)values[1],
                             (unsigned long long)number_get(got, i, kind->size), (unsigned long long)wanted);
            }
        }
    }
}

/* What users will look for. */
static void the_limits_of_8_bits_are_as_told(void **state)
{
    assert_true(reduce_use(*state));
    static const struct {
        plait_type type;
        float from;
        unsigned char to;
    } limits[] = {
        { PLAIT_F8E4M3, 448, 0x7e },    { PLAIT_F8E4M3, 1e30f, 0x7e },     { PLAIT_F8E4M3, -449, 0xfe },
        { PLAIT_F8E4M3, -0.0f, 0x80 },  { PLAIT_F8E4M3, INFINITY, 0x7e },  { PLAIT_F8E4M3, -INFINITY, 0xfe },
        { PLAIT_F8E4M3, NAN, 0x7f },    { PLAIT_F8E4M3, -NAN, 0x7f },      { PLAIT_F8E5M2, 57344, 0x7b },
        { PLAIT_F8E5M2, 65536, 0x7b },  { PLAIT_F8E5M2, -3e38f, 0xfb },    { PLAIT_F8E5M2, INFINITY, 0x7c },
        { PLAIT_F8E5M2, -0.0f, 0x80 },  { PLAIT_F8E5M2, -INFINITY, 0xfc }, { PLAIT_F8E5M2, NAN, 0x7f },
        { PLAIT_F8E4M3, 0x1p-9f, 1 },   { PLAIT_F8E4M3, 0x1p-10f, 0 },     { PLAIT_F8E5M2, 0x1p-16f, 1 },
        { PLAIT_F8E5M2, 0x1.8p-16f, 2 }
    };
    for (size_t i = 0; i < LENGTH(limits); i++) {
        float wide[19];
        unsigned char narrow[19]; /* a vector of 16, or two of 8, and an end that scalars do */
        for (size_t j = 0; j < LENGTH(wide); j++)
            wide[j] = limits[i].from;
        reduce_narrow(limits[i].type, narrow, wide, LENGTH(wide), 0);
        for (size_t j = 0; j < LENGTH(wide); j++)
            if (narrow[j] != limits[i].to)
                fail_msg("%s of %g is %#x, not %#x", plait_type_name(limits[i].type), (double)limits[i].from,
                         narrow[j], limits[i].to);
    }
}

static void other_types_travel_as_they_are(void **state)
{
    assert_true(reduce_use(*state));
    double doubles[] = { 1.0, -7.0, 0.0 }, halved[3];
    int32_t integers[] = { 7, -7, INT32_MIN };
    float complex[] = { 1.0f, -7.0f, 0.0f, 3.0f };
    reduce_widen(PLAIT_F64, halved, doubles, 3);
    assert_memory_equal(halved, doubles, sizeof doubles);
    reduce_narrow(PLAIT_F64, doubles, doubles, 3, 2); /* in place */
    assert_true(doubles[0] == 0.5 && doubles[1] == -3.5 && doubles[2] == 0.0);
    reduce_narrow(PLAIT_I32, integers, integers, 3, 2);
    assert_true(integers[0] == 3 && integers[1] == -3 && integers[2] == INT32_MIN / 2);
    reduce_narrow(PLAIT_I32, integers, integers, 3, 0);
    assert_int_equal(integers[0], 3);
    reduce_narrow(PLAIT_C64, complex, complex, 2, 2);
    assert_true(complex[0] == 0.5f && complex[1] == -3.5f && complex[2] == 0.0f && complex[3] == 1.5f);
    for (int type = PLAIT_I8; type < ELEMENT_TYPES; type++) {
        bool narrow = false;
        for (size_t t = 0; t < LENGTH(narrow_types); t++)
            narrow |= narrow_types[t] == (plait_type)type;
        assert_int_equal(element_accumulator((plait_type)type), narrow ? PLAIT_F32 : (plait_type)type);
    }
}

/* ------------------------------------------------------------------------ tables */

static const char *const set_names[] = { "avx512", "avx2", "neon", "scalar" };

static const struct {
    const char *name;
    CMUnitTestFunction function;
} questions[] = {
    { "all widen exactly", all_widen_exactly },
    { "floats narrow to nearest even", floats_narrow_to_nearest_even },
    { "the whole range narrows", the_whole_range_narrows },
    { "all pairs reduce rightly", all_pairs_reduce_rightly },
    { "the limits of 8 bits are as told", the_limits_of_8_bits_are_as_told },
    { "other types travel as they are", other_types_travel_as_they_are },
};

int main(void)
{
    enum { MAX_TESTS = LENGTH(set_names) * LENGTH(questions) };
    static char names[MAX_TESTS][64];
    static struct CMUnitTest tests[MAX_TESTS];
    size_t count = 0;
    for (size_t s = 0; s < LENGTH(set_names); s++) {
        if (!reduce_use(set_names[s])) {
            print_message("no %s here: not tested\n", set_names[s]);
            continue;
        }
        for (size_t q = 0; q < LENGTH(questions); q++) {
            snprintf(names[count], sizeof names[0], "%s: %s", set_names[s], questions[q].name);
            tests[count] = (struct CMUnitTest){ .name = names[count],
                                                .test_func = questions[q].function,
                                                .initial_state = (void *)(uintptr_t)set_names[s] };
            count++;
        }
    }
    return _cmocka_run_group_tests("reduce_narrow", tests, count, NULL, NULL);
}
