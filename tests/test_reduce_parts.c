/* Reductions of elements that are not plain numbers: truths, complex numbers, values with their place. The scalar
 * set is held against references written here from the rules; test_reduce holds the other sets against it. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/reduce.h"
#include "numbers.h"

enum { COUNT = 5000, SOURCES = 3 };

static uint64_t random_state = 1;

static uint64_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state ^ random_state >> 29;
}

static void reduce(plait_type type, plait_op op, const void *const *sources, int count, void *result)
{
    struct reduction r = { .result = result, .sources = sources, .source_count = count, .count = COUNT };
    if (op == PLAIT_AVERAGE)
        r.divide = (unsigned)count;
    reduce_reference(type, op)(&r);
}

/* -------------------------------------------------------------------- truths */

/* One value for each of "any", "all" and "an odd number". */
static void bools_are_0_or_1(void **state)
{
    (void)state;
    enum { ANY, ALL, ODD };
    static const int meaning[] = {
        [PLAIT_SUM] = ANY,     [PLAIT_PRODUCT] = ALL, [PLAIT_MIN] = ALL,     [PLAIT_MAX] = ANY,
        [PLAIT_BIT_AND] = ALL, [PLAIT_BIT_OR] = ANY,  [PLAIT_BIT_XOR] = ODD, [PLAIT_AND] = ALL,
        [PLAIT_OR] = ANY,      [PLAIT_XOR] = ODD,
    };
    static unsigned char data[SOURCES][COUNT], result[COUNT];
    const void *sources[SOURCES] = { data[0], data[1], data[2] };
    for (size_t i = 0; i < sizeof data; i++)
        data[i / COUNT][i % COUNT] = random_bits() & 64 ? (unsigned char)(random_bits() >> 50) : 0;
    for (int op = PLAIT_SUM; op < (int)LENGTH(meaning); op++) {
        if (op == PLAIT_AVERAGE)
            continue;
        for (int count = 1; count <= SOURCES; count++) {
            reduce(PLAIT_BOOL, (plait_op)op, sources, count, result);
            for (size_t i = 0; i < COUNT; i++) {
                int true_ones = 0;
                for (int s = 0; s < count; s++)
                    true_ones += data[s][i] != 0;
                int wanted = meaning[op] == ANY   ? true_ones > 0
                             : meaning[op] == ALL ? true_ones == count
                                                  : true_ones % 2;
                assert_int_equal(result[i], wanted);
            }
        }
    }
}

/* ------------------------------------------------------------------- complex */

static bool near(double complex got, double complex wanted, double tolerance)
{
    return cabs(got - wanted) <= tolerance * cabs(wanted);
}

static void complex_numbers_multiply(void **state)
{
    (void)state;
    static float complex singles[SOURCES][COUNT], single[COUNT];
    static double complex doubles[SOURCES][COUNT], twice[COUNT];
    const void *from_singles[SOURCES] = { singles[0], singles[1], singles[2] };
    const void *from_doubles[SOURCES] = { doubles[0], doubles[1], doubles[2] };
    for (size_t i = 0; i < COUNT * SOURCES; i++) {
        float complex value = CMPLXF((float)(int16_t)random_bits(), (float)(int16_t)random_bits());
        singles[i / COUNT][i % COUNT] = value;
        doubles[i / COUNT][i % COUNT] = (double complex)value;
    }
    for (int count = 1; count <= SOURCES; count++) {
        static const plait_op ops[] = { PLAIT_SUM, PLAIT_PRODUCT, PLAIT_AVERAGE };
        for (size_t o = 0; o < LENGTH(ops); o++) {
            reduce(PLAIT_C64, ops[o], from_singles, count, single);
            reduce(PLAIT_C128, ops[o], from_doubles, count, twice);
            for (size_t i = 0; i < COUNT; i++) {
                double complex wanted = doubles[0][i];
                for (int s = 1; s < count; s++)
                    wanted = ops[o] == PLAIT_PRODUCT ? wanted * doubles[s][i] : wanted + doubles[s][i];
                if (ops[o] == PLAIT_AVERAGE)
                    wanted /= count;
                assert_true(near(single[i], wanted, 8 * 0x1p-24));
                assert_true(near(twice[i], wanted, 8 * 0x1p-53));
            }
        }
    }
}

/* A NaN in one part is a NaN of canonical bits there and, in a product, in both. */
static void complex_parts_are_sealed(void **state)
{
    (void)state;
    uint32_t a[2] = { 0xffc12345, 0x3f800000 }, b[2] = { 0x3f800000, 0x40000000 }, got[2];
    const void *sources[2] = { a, b };
    struct reduction r = { .result = got, .sources = sources, .source_count = 2, .count = 1 };
    reduce_reference(PLAIT_C64, PLAIT_SUM)(&r);
    assert_int_equal(got[0], 0x7fc00000);
    assert_int_equal(got[1], 0x40400000);
    reduce_reference(PLAIT_C64, PLAIT_PRODUCT)(&r);
    assert_int_equal(got[0], 0x7fc00000);
    assert_int_equal(got[1], 0x7fc00000);
}

/* ------------------------------------------------------------------ location */

struct f64_i64 {
    double value;
    int64_t index;
};

static struct f64_i64 pair_of(plait_type type, const void *array, size_t i)
{
    struct f64_i64 pair;
    float single;
    const char *at = (const char *)array + i * plait_type_size(type);
    switch (type) {
    case PLAIT_F32_I32:
        memcpy(&single, at, 4);
        return (struct f64_i64){ (double)single, (int32_t)number_get(at + 4, 0, 4) };
    case PLAIT_I32_I32:
        return (struct f64_i64){ (int32_t)number_get(at, 0, 4), (int32_t)number_get(at + 4, 0, 4) };
    case PLAIT_I64_I64:
        return (struct f64_i64){ (double)(int64_t)number_get(at, 0, 8), (int64_t)number_get(at, 1, 8) };
    default: memcpy(&pair, at, sizeof pair); return pair;
    }
}

/* Few values and few indices, so that all kinds of ties occur. */
static void draw_pairs(plait_type type, void *array)
{
    static const double values[] = { -1.5, -0.0, 0.0, 2.0, (double)INFINITY, (double)NAN };
    const bool floats = type == PLAIT_F32_I32 || type == PLAIT_F64_I64;
    const size_t part = plait_type_size(type) / 2;
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t random = random_bits() >> 20, index = random >> 8 & 3;
        double value = values[random % (floats ? 6 : 4)];
        if (type == PLAIT_F64_I64)
            memcpy((char *)array + i * 16, &value, 8);
        else if (type == PLAIT_F32_I32)
            memcpy((char *)array + i * 8, &(float){ (float)value }, 4);
        else
            number_put(array, 2 * i, part, (uint64_t)(int64_t)value);
        number_put(array, 2 * i + 1, part, random & 128 ? index : -index);
    }
}

static bool is_better(plait_op op, struct f64_i64 a, struct f64_i64 b)
{
    if (isnan(a.value) != isnan(b.value))
        return isnan(a.value);
    if (!isnan(a.value) && a.value != b.value)
        return (a.value < b.value) == (op == PLAIT_MIN_LOCATION);
    return a.index < b.index;
}

static void the_best_keep_their_place(void **state)
{
    (void)state;
    static unsigned char data[SOURCES][COUNT * 16], result[COUNT * 16];
    const void *sources[SOURCES] = { data[0], data[1], data[2] };
    for (int type = PLAIT_F32_I32; type <= PLAIT_I64_I64; type++) {
        for (int s = 0; s < SOURCES; s++)
            draw_pairs((plait_type)type, data[s]);
        for (int op = PLAIT_MIN_LOCATION; op <= PLAIT_MAX_LOCATION; op++) {
            reduce((plait_type)type, (plait_op)op, sources, SOURCES, result);
            for (size_t i = 0; i < COUNT; i++) {
                struct f64_i64 wanted = pair_of((plait_type)type, data[0], i);
                for (int s = 1; s < SOURCES; s++) {
                    struct f64_i64 next = pair_of((plait_type)type, data[s], i);
                    if (is_better((plait_op)op, next, wanted))
                        wanted = next;
                }
                struct f64_i64 got = pair_of((plait_type)type, result, i);
                assert_true(got.index == wanted.index);
                assert_true(got.value == wanted.value || (isnan(got.value) && isnan(wanted.value)));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bools_are_0_or_1),
        cmocka_unit_test(complex_numbers_multiply),
        cmocka_unit_test(complex_parts_are_sealed),
        cmocka_unit_test(the_best_keep_their_place),
    };
    return cmocka_run_group_tests_name("reduce_parts", tests, NULL, NULL);
}
