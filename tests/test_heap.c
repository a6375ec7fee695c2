#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/heap.h"

static unsigned char *const base = (unsigned char *)(uintptr_t)0x10000000;

static size_t room_between(const struct heap *heap)
{
    size_t end = 0;
    for (const struct region *region = heap->regions; region != NULL; region = region->next) {
        assert_true(region->offset >= end); /* in order, and apart */
        end = region->offset + region->size;
    }
    assert_true(end <= heap->size);
    return end;
}

static void the_first_gap_is_taken(void **state)
{
    (void)state;
    struct heap heap;
    heap_open(&heap, base, 64 << 20);
    struct region *a = heap_add(&heap, 1), *b = heap_add(&heap, 3 * HEAP_PAGE), *c = heap_add(&heap, 1);
    assert_int_equal(a->size, HEAP_PAGE);
    assert_ptr_equal(b->address, base + HEAP_PAGE);
    assert_int_equal(c->offset, 4 * HEAP_PAGE);
    heap_remove(&heap, b);
    assert_int_equal(heap_add(&heap, 4 * HEAP_PAGE)->offset, 5 * HEAP_PAGE); /* too large for the gap */
    assert_int_equal(heap_add(&heap, 2 * HEAP_PAGE)->offset, HEAP_PAGE);
    assert_int_equal(heap_add(&heap, HEAP_PAGE)->offset, 3 * HEAP_PAGE);
    room_between(&heap);
    heap_close(&heap);
}

static void large_ones_are_whole_huge_pages(void **state)
{
    (void)state;
    struct heap heap;
    heap_open(&heap, base, 64 << 20);
    heap_add(&heap, 1);
    struct region *large = heap_add(&heap, HEAP_HUGE_PAGE + 1);
    assert_int_equal(large->offset, HEAP_HUGE_PAGE);
    assert_int_equal(large->size, 2 * HEAP_HUGE_PAGE);
    assert_int_equal(heap_add(&heap, 5)->offset, HEAP_PAGE); /* before it */
    room_between(&heap);
    heap_close(&heap);
}

static void a_full_heap_says_so(void **state)
{
    (void)state;
    struct heap heap;
    heap_open(&heap, base, 4 * HEAP_PAGE);
    assert_null(heap_add(&heap, 4 * HEAP_PAGE + 1));
    assert_non_null(strstr(failure_text(), "in a row"));
    assert_null(heap_add(&heap, SIZE_MAX));
    struct region *all = heap_add(&heap, 4 * HEAP_PAGE);
    assert_non_null(all);
    assert_null(heap_add(&heap, 1));
    heap_remove(&heap, all);
    assert_non_null(heap_add(&heap, 1));
    heap_close(&heap);
}

static void no_heap_gives_nothing(void **state)
{
    (void)state;
    struct heap heap;
    heap_open(&heap, NULL, 0);
    assert_null(heap_add(&heap, 1));
    assert_non_null(strstr(failure_text(), "ulimit -v"));
    assert_int_equal(heap_ticket(&heap, base, 1), 0);
    heap_close(&heap);
}

static void tickets_name_places(void **state)
{
    (void)state;
    struct heap heap;
    unsigned char *buffer = base - (8 << 20);
    heap_open(&heap, base, 1 << 20);
    struct region *adopted = heap_add(&heap, 2 * HEAP_PAGE);
    assert_int_equal(heap_ticket(&heap, base, 5), 1);
    assert_int_equal(heap_ticket(&heap, base + 77, 5), 78);
    assert_int_equal(heap_ticket(&heap, base + (1 << 20) - 1, 1), 1 << 20);
    assert_int_equal(heap_ticket(&heap, base + (1 << 20) - 1, 2), 0);
    assert_int_equal(heap_ticket(&heap, base - 1, 1), 0);
    assert_int_equal(heap_ticket(&heap, NULL, 0), 0);

    assert_int_equal(heap_ticket(&heap, buffer, 1), 0);
    heap_adopt(&heap, adopted, buffer);
    assert_int_equal(heap_ticket(&heap, buffer, 2 * HEAP_PAGE), adopted->offset + 1);
    assert_int_equal(heap_ticket(&heap, buffer + 100, 2 * HEAP_PAGE - 100), adopted->offset + 101);
    assert_int_equal(heap_ticket(&heap, buffer + 100, 2 * HEAP_PAGE), 0);
    assert_int_equal(heap_ticket(&heap, buffer - 1, 2), 0);
    assert_ptr_equal(heap_touched(&heap, buffer - 1, 2), adopted);
    assert_null(heap_touched(&heap, buffer - 1, 1));
    heap_remove(&heap, adopted);
    assert_int_equal(heap_ticket(&heap, buffer, 1), 0);
    heap_close(&heap);
}

/* Many in a random order: never one over another, and all of it free in the end. */
static void many_come_and_go(void **state)
{
    (void)state;
    struct heap heap;
    struct region *regions[64] = { NULL };
    unsigned random = 1;
    heap_open(&heap, base, 256 << 20);
    for (int i = 0; i < 20000; i++) {
        random = random * 1103515245 + 12345;
        struct region **region = &regions[random >> 16 & 63];
        if (*region != NULL)
            heap_remove(&heap, *region);
        *region = *region != NULL ? NULL : heap_add(&heap, (random >> 4) % (3 << 20) + 1);
        if (i % 100 == 0)
            room_between(&heap);
    }
    for (size_t i = 0; i < LENGTH(regions); i++)
        if (regions[i] != NULL)
            heap_remove(&heap, regions[i]);
    assert_int_equal(room_between(&heap), 0);
    heap_close(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_gap_is_taken), cmocka_unit_test(large_ones_are_whole_huge_pages),
        cmocka_unit_test(a_full_heap_says_so),    cmocka_unit_test(no_heap_gives_nothing),
        cmocka_unit_test(tickets_name_places),    cmocka_unit_test(many_come_and_go),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
