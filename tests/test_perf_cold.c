/* Where plait-perf's cold operations have their buffers. */
#include "../bench/cold.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

static const struct room_case {
    const char *name;
    size_t size, room;
    int places;
} cases[] = {
    { "no bytes", 0, 1 << 20, 257 },
    { "a room that is full", 1 << 20, 1 << 20, 1 },
    { "a room that is too small", 4096, 100, 1 },
    { "one short of two", 4096, 4096 + 8191, 1 },
    { "just two", 4096, 4096 + 8192, 2 },
    { "small ones", 8, COLD_ROOM, 8192 },
};

/* Places lie in the room, apart, and never share a page. */
static void places_fit(void **state)
{
    const struct room_case *row = *state;
    int places = cold_places(row->size, row->room);
    assert_int_equal(places, row->places);
    assert_true(cold_stride(row->size) > row->size);
    assert_int_equal(cold_stride(row->size) % 4096, 0);
    if (places > 1)
        assert_true((size_t)(places - 1) * cold_stride(row->size) + row->size <= row->room);
}

static void flushing_changes_nothing(void **state)
{
    (void)state;
    unsigned char *bytes = malloc(10000), *before = malloc(10000);
    for (int i = 0; i < 10000; i++)
        bytes[i] = before[i] = (unsigned char)(i * 7);
    cold_flush(bytes + 3, 9001);
    cold_flush(bytes, 0);
    assert_memory_equal(bytes, before, 10000);
    free(bytes);
    free(before);
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(cases) + 1];
    for (size_t i = 0; i < LENGTH(cases); i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = places_fit,
                                        .initial_state = (void *)(uintptr_t)&cases[i] };
    tests[LENGTH(cases)] = (struct CMUnitTest)cmocka_unit_test(flushing_changes_nothing);
    return check_run("perf cold", tests, LENGTH(tests));
}
