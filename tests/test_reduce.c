/* Reduction kernels. The scalar set is held against wider arithmetic, written here again from the contract;
 * every other set is held against the scalar one, bit by bit, and may touch nothing outside its results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/element.h"
#include "check.h"
#include "device/reduce.h"
#include "numbers.h"

enum { MAX_SOURCES = 8, MAX_COUNT = 4099, GUARD = 128 };

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

/* ------------------------------------------------------------------------- data */

/* The numbers that an element of `type` begins and ends with; the same one where it is single. */
static const struct kind *first_part(plait_type type)
{
    switch (type) {
    case PLAIT_BOOL: return kind_of(PLAIT_U8);
    case PLAIT_C64:
    case PLAIT_F32_I32: return kind_of(PLAIT_F32);
    case PLAIT_C128:
    case PLAIT_F64_I64: return kind_of(PLAIT_F64);
    case PLAIT_I32_I32: return kind_of(PLAIT_I32);
    case PLAIT_I64_I64: return kind_of(PLAIT_I64);
    default: return kind_of(type);
    }
}

static const struct kind *last_part(plait_type type)
{
    switch (type) {
    case PLAIT_F32_I32: return kind_of(PLAIT_I32);
    case PLAIT_F64_I64: return kind_of(PLAIT_I64);
    default: return first_part(type);
    }
}

static char *sources[MAX_SOURCES]; /* each MAX_COUNT elements of any type, drawn anew for each test */
static char *places[MAX_SOURCES];  /* where they are put for a call, with an offset */
static char *result_place, *copy_place, *expected;

enum { PLACE_SIZE = MAX_COUNT * 16 + 2 * GUARD };

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

static void draw_sources(plait_type type)
{
    random_state = 0x9e3779b97f4a7c15u + (uint64_t)type;
    const struct kind *parts[2] = { first_part(type), last_part(type) };
    size_t numbers = plait_type_size(type) / parts[0]->size;
    for (int s = 0; s < MAX_SOURCES; s++) {
        for (size_t i = 0; i < MAX_COUNT * numbers; i++) {
            const struct kind *part = parts[i % numbers];
            number_put(sources[s], i, part->size, number_draw(part, random_bits()));
        }
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
    plait_type type;
    plait_op op;
};

static unsigned divisor(const struct test_case *test, int source_count)
{
    return test->op == PLAIT_AVERAGE ? (unsigned)source_count : 0;
}

static void reference_is_right(void **state)
{
    const struct test_case *test = *state;
    const struct kind *kind = kind_of(test->type);
    reduce_fn reference = reduce_reference(kind->type, test->op);
    assert_non_null(reference);
    draw_sources(kind->type);

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
                values[s] = number_get(sources[s], i, kind->size);
            uint64_t wanted = number_reduce(kind, test->op, values, k, r.divide);
            uint64_t got = number_get(result_place, i, kind->size);
            if (got != wanted)
                fail_msg("element %zu of %d sources is %#llx, not %#llx; the first two were %#llx and %#llx",
                         i, k, (unsigned long long)got, (unsigned long long)wanted,
                         (unsigned long long)values[0],
                         (unsigned long long)number_get(sources[1], i, kind->size));
        }
    }
}

/* One call with results at `offset`, in place of source `in_place` unless that is negative. copies: 0 none,
 * 1 ordinary, 2 streamed. */
static void check_call(const struct test_case *test, reduce_fn kernel, int k, size_t count, size_t offset,
                       int in_place, int copies)
{
    size_t size = count * plait_type_size(test->type);
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
                           .stream_result = copies == 3,
                           .stream_copy = copies >= 2 };
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
    reduce_fn kernel = reduce_find(test->type, test->op);
    reduce_fn reference = reduce_reference(test->type, test->op);
    assert_non_null(kernel);
    draw_sources(test->type);

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
                for (int in_place = -1; in_place < k; in_place += in_place == 1 && k > 3 ? k - 2 : 1)
                    for (int copies = 0; copies < 4; copies++)
                        check_call(test, kernel, k, counts[c], offsets[o], in_place, copies);
    }
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
    for (int type = PLAIT_I8; type < ELEMENT_TYPES; type++) {
        reduce_fn kernel = reduce_find((plait_type)type, PLAIT_SUM);
        if (kernel == NULL)
            continue;
        const size_t element = plait_type_size((plait_type)type);
        size_t most = page / element;
        for (size_t count = 1; count <= most; count += count < 160        ? 1
                                                       : most - count > 0 ? most - count
                                                                          : 1) {
            for (size_t at_end = 0; at_end < 2; at_end++) {
                size_t at = page + (at_end ? page - count * element : 0);
                const void *from[] = { arrays[0] + at, arrays[1] + at };
                struct reduction r = { .result = arrays[2] + at,
                                       .copy = arrays[3] + at,
                                       .sources = from,
                                       .source_count = 2,
                                       .count = count,
                                       .stream_result = count % 3 == 0,
                                       .stream_copy = count % 2 };
                kernel(&r); /* or a segmentation fault */
            }
        }
    }
    for (size_t i = 0; i < 4; i++)
        munmap(arrays[i], 3 * page);
}

static void kernels_are_there_where_types_reduce(void **state)
{
    (void)state;
    for (size_t s = 0; s < LENGTH(set_names); s++) {
        if (!reduce_use(set_names[s]))
            continue;
        for (int type = -1; type <= ELEMENT_TYPES; type++)
            for (int op = -1; op <= ELEMENT_OPS; op++) {
                bool reduces = plait_type_reduces((plait_type)type, (plait_op)op);
                assert_true((reduce_find((plait_type)type, (plait_op)op) != NULL) == reduces);
                assert_true((reduce_reference((plait_type)type, (plait_op)op) != NULL) == reduces);
            }
    }
    assert_true(reduce_use("auto"));
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
    assert_null(reduce_find((plait_type)23, PLAIT_SUM));
    assert_null(reduce_find(PLAIT_BYTES, PLAIT_SUM));
    assert_null(reduce_find((plait_type)-1, PLAIT_SUM));
    assert_null(reduce_find(PLAIT_F32, (plait_op)0));
    assert_null(reduce_find(PLAIT_F32, (plait_op)14));
    assert_null(reduce_reference((plait_type)99, PLAIT_SUM));
    assert_ptr_equal(reduce_find(PLAIT_F32, PLAIT_AVERAGE), reduce_find(PLAIT_F32, PLAIT_SUM));
}

/* ------------------------------------------------------------------------ tables */

enum { MAX_TESTS = ELEMENT_TYPES * ELEMENT_OPS * (1 + LENGTH(set_names)) + 16 };

static struct test_case cases[MAX_TESTS];
static struct CMUnitTest tests[MAX_TESTS];
static size_t test_count;

static void add_test(const char *name, CMUnitTestFunction function, const void *state)
{
    tests[test_count++] =
        (struct CMUnitTest){ .name = name, .test_func = function, .initial_state = (void *)(uintptr_t)state };
}

/* Does an earlier pair of the set have this kernel? Then that stands for both. */
static bool is_repeated(const char *set, plait_type type, plait_op op)
{
    for (size_t i = 0; i < test_count; i++)
        if (cases[i].set == set && cases[i].type != 0 && op != PLAIT_AVERAGE &&
            reduce_find(cases[i].type, cases[i].op) == reduce_find(type, op))
            return true;
    return false;
}

static void add_pair(const char *set, CMUnitTestFunction function, plait_type type, plait_op op)
{
    struct test_case *test = &cases[test_count];
    *test = (struct test_case){ .set = set, .type = type, .op = op };
    snprintf(test->name, sizeof test->name, "%s %s of %s", set, plait_op_name(op), plait_type_name(type));
    add_test(test->name, function, test);
}

/* All pairs there are; or, with `numbers`, those of plain numbers. */
static void add_pairs(const char *set, CMUnitTestFunction function, bool numbers)
{
    for (int type = PLAIT_I8; type < ELEMENT_TYPES; type++)
        for (int op = PLAIT_SUM; op < ELEMENT_OPS; op++)
            if (plait_type_reduces((plait_type)type, (plait_op)op) &&
                (numbers ? kind_of((plait_type)type) != NULL
                         : !is_repeated(set, (plait_type)type, (plait_op)op)))
                add_pair(set, function, (plait_type)type, (plait_op)op);
}

static void add_set(const char *set)
{
    if (!reduce_use(set)) {
        print_message("no %s here: not tested\n", set);
        return;
    }
    char *name = cases[test_count].name;
    snprintf(name, sizeof cases[0].name, "%s: nothing beyond the ends is touched", set);
    add_test(name, nothing_beyond_the_ends_is_touched, set);
    add_pairs(set, set_gives_the_references_bits, false);
}

int main(void)
{
    add_test("unknown names and pairs find nothing", unknown_names_and_pairs_find_nothing, NULL);
    add_test("kernels are there where types reduce", kernels_are_there_where_types_reduce, NULL);
    add_pairs("reference", reference_is_right, true);
    for (size_t s = 0; s < LENGTH(set_names); s++)
        add_set(set_names[s]);
    return _cmocka_run_group_tests("reduce", tests, test_count, make_places, free_places);
}
