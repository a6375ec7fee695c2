/* Dealing out elements in parts. */
#include "check.h"

#include "base/span.h"

static const size_t counts[] = { 0,
                                 1,
                                 2,
                                 3,
                                 63,
                                 64,
                                 65,
                                 127,
                                 128,
                                 129,
                                 1000,
                                 4096,
                                 65537,
                                 ((size_t)1 << 31) + 7,
                                 ((size_t)1 << 40) + 1,
                                 PTRDIFF_MAX };
static const int parts[] = { 1, 2, 3, 7, 8, 64, 65, 1000, 65536 };

static void parts_follow_each_other_and_are_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(counts); i++) {
        for (size_t j = 0; j < LENGTH(parts); j++) {
            size_t next = 0;
            for (int part = 0; part < parts[j]; part++) {
                struct span span = span_part(counts[i], parts[j], part);
                assert_int_equal(span.first, next);
                next = span.first + span.count;
            }
            assert_int_equal(next, counts[i]);
        }
    }
}

static void parts_are_alike_and_aligned(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(counts); i++) {
        for (size_t j = 0; j < LENGTH(parts); j++) {
            size_t share = counts[i] / (size_t)parts[j], grain = share >= 64 ? 64 : 1;
            for (int part = 0; part < parts[j]; part++) {
                struct span span = span_part(counts[i], parts[j], part);
                assert_int_equal(span.first % grain, 0);
                assert_true(span.count + grain > share && span.count < share + 2 * grain);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_each_other_and_are_all),
        cmocka_unit_test(parts_are_alike_and_aligned),
    };
    return cmocka_run_group_tests_name("span", tests, NULL, NULL);
}
