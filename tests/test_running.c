/* Running reductions have the bits of the reduction kernels, result by result. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "device/reduce.h"
#include "device/running.h"

enum { SOURCES = 5, MOST = 1500, ELEMENT = 16, PATTERN = 0x5c };

static unsigned char sources[SOURCES][(MOST + 1) * ELEMENT], results[SOURCES][(MOST + 4) * ELEMENT];

/* Any bytes, so floats of every kind. */
static void fill(unsigned seed)
{
    srand(seed);
    for (size_t i = 0; i < SOURCES; i++)
        for (size_t j = 0; j < sizeof sources[0]; j++)
            sources[i][j] = (unsigned char)(rand() >> 8);
}

static void check(plait_type type, plait_op op, int source_count, size_t count, size_t shift)
{
    static unsigned char wanted[(MOST + 1) * ELEMENT];
    size_t size = count * plait_type_size(type);
    const void *from[SOURCES];
    for (int i = 0; i < source_count; i++)
        from[i] = sources[i] + shift;
    memset(results, PATTERN, sizeof results);
    reduce_running(type, op, results[0] + shift, sizeof results[0], from, source_count, count);
    for (int i = 0; i < source_count; i++) {
        struct reduction reduction = {
            .result = wanted, .sources = from, .source_count = i + 1, .count = count
        };
        reduce_find(type, op)(&reduction);
        if (size > 0 && memcmp(results[i] + shift, wanted, size) != 0)
            fail_msg("%s %s of %zu: result %d of %d has other bits", plait_type_name(type), plait_op_name(op),
                     count, i, source_count);
        assert_int_equal(results[i][shift + size], PATTERN);
        assert_true(shift == 0 || results[i][shift - 1] == PATTERN);
    }
}

static void results_have_the_kernels_bits(void **state)
{
    (void)state;
    static const size_t counts[] = { 0, 1, 7, 511, 512, 513, MOST };
    fill(7);
    for (int type = PLAIT_I8; plait_type_size((plait_type)type) > 0; type++)
        for (int op = PLAIT_SUM; op <= PLAIT_MAX_LOCATION; op++)
            for (size_t i = 0; i < LENGTH(counts); i++)
                if (op != PLAIT_AVERAGE && reduce_find((plait_type)type, (plait_op)op) != NULL)
                    check((plait_type)type, (plait_op)op, 1 + (int)(i + (size_t)op) % SOURCES, counts[i],
                          i % 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(results_have_the_kernels_bits) };
    return cmocka_run_group_tests_name("running reductions", tests, NULL, NULL);
}
