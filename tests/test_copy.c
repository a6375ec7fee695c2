/* Copies: every small size and some large ones, at alignments that differ, with guard bytes around. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/copy.h"

enum { GUARD = 128, MAX_SIZE = 1 << 20, PLACE_SIZE = MAX_SIZE + 2 * GUARD };

typedef void (*copy_fn)(void *to, const void *from, size_t size);

static char *from_place, *to_place;

static const size_t offsets[] = { 0, 1, 8, 31, 63 }; /* bytes past an aligned address */

static int make_places(void **state)
{
    (void)state;
    from_place = aligned_alloc(GUARD, PLACE_SIZE);
    to_place = aligned_alloc(GUARD, PLACE_SIZE);
    if (from_place == NULL || to_place == NULL)
        return -1;
    for (size_t i = 0; i < PLACE_SIZE; i++)
        from_place[i] = (char)(i * 7 + i / 251);
    return 0;
}

static int free_places(void **state)
{
    (void)state;
    free(from_place);
    free(to_place);
    return 0;
}

static void check_copy(copy_fn copy, size_t size, size_t from_offset, size_t to_offset)
{
    static const unsigned char untouched[2 * GUARD] = { [0 ... 2 * GUARD - 1] = 0xa5 };
    const char *from = from_place + GUARD + from_offset;
    size_t start = GUARD + to_offset;
    memset(to_place, 0xa5, size + 2 * GUARD);
    copy(to_place + start, from, size);
    assert_memory_equal(to_place, untouched, start);
    assert_memory_equal(to_place + start, from, size);
    assert_memory_equal(to_place + start + size, untouched, 2 * GUARD - start);
}

static void check_sizes(copy_fn copy, size_t first, size_t last, size_t step)
{
    for (size_t size = first; size <= last; size += step)
        for (size_t i = 0; i < LENGTH(offsets); i++)
            for (size_t j = 0; j < LENGTH(offsets); j++)
                check_copy(copy, size, offsets[i], offsets[j]);
}

struct test_case {
    const char *name;
    copy_fn copy;
    size_t first, last, step; /* sizes, in bytes */
};

static void copies_what_it_should(void **state)
{
    const struct test_case *test = *state;
    check_sizes(test->copy, test->first, test->last, test->step);
}

static const struct test_case cases[] = {
    { "cached, nothing to just beyond a few blocks", copy_cached, 0, 1100, 1 },
    { "cached, around a page", copy_cached, 4090, 4100, 1 },
    { "cached, large", copy_cached, 100003, MAX_SIZE - GUARD, 299993 },
    { "streamed, nothing to just beyond a few blocks", copy_streamed, 0, 1100, 1 },
    { "streamed, around a page", copy_streamed, 4090, 4100, 1 },
    { "streamed, large", copy_streamed, 100003, MAX_SIZE - GUARD, 299993 },
};

int main(void)
{
    struct CMUnitTest tests[LENGTH(cases)];
    for (size_t i = 0; i < LENGTH(cases); i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = copies_what_it_should,
                                        .initial_state = (void *)(uintptr_t)&cases[i] };
    return cmocka_run_group_tests_name("copy", tests, make_places, free_places);
}
