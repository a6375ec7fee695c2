/* Waiting: when it naps, that it looks before it does, and what it learns. */
#include "check.h"

#include "base/clock.h"
#include "patience.h"

struct looks {
    int count;
    bool finds; /* something to do */
};

static bool look(void *context)
{
    struct looks *looks = context;
    looks->count++;
    return looks->finds;
}

/* Turns until the first look before a nap; fails when it takes for ever. */
static int turns_to_nap(const struct waiting *waiting)
{
    struct patience patience = { 0 };
    const struct looks *looks = waiting->context;
    int before = looks->count, turns = 0;
    while (looks->count == before) {
        patience_turn(&patience, waiting);
        assert_true(++turns < 10000000);
    }
    return turns;
}

static const struct {
    bool crowded, in_the_way, background, soon, finds;
} ways[] = {
    { false, false, false, false, false }, { true, false, false, false, false },
    { true, true, false, false, false },   { false, false, true, false, false },
    { false, false, true, true, false },   { true, false, true, true, true },
    { false, false, false, false, true },
};

static void every_way_naps_in_the_end_and_looks_before(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ways); i++) {
        struct temper temper = { 0 };
        struct bell bell = { 0 };
        struct looks looks = { .finds = ways[i].finds };
        struct waiting waiting = { .temper = &temper,
                                   .crowded = ways[i].crowded,
                                   .in_the_way = ways[i].in_the_way,
                                   .background = ways[i].background,
                                   .soon = ways[i].soon,
                                   .bell = &bell,
                                   .look = look,
                                   .context = &looks };
        int64_t start = clock_ns();
        turns_to_nap(&waiting);
        assert_true(clock_ns() - start < INT64_C(5000000000));
        assert_int_equal(looks.count, 1);
        assert_int_equal(atomic_load(&bell.sleeping), 0);
    }
}

/* The clock is looked at, by who waits for true, before it naps. */
static void the_clock_is_looked_at(void **state)
{
    (void)state;
    struct temper temper = { 0 };
    struct bell bell = { 0 };
    struct looks looks = { .finds = true };
    struct waiting waiting = { .temper = &temper, .bell = &bell, .look = look, .context = &looks };
    struct patience patience = { 0 };
    int turns = 0;
    while (!patience_turn(&patience, &waiting))
        assert_true(++turns < 100000);
    assert_true(turns > 10);
}

static void without_a_bell_it_sleeps_a_little(void **state)
{
    (void)state;
    struct temper temper = { 0 };
    struct looks looks = { 0 };
    struct waiting waiting = { .temper = &temper, .background = true, .look = look, .context = &looks };
    struct patience patience = { 0 };
    while (!patience_turn(&patience, &waiting))
        ;
    assert_int_equal(looks.count, 0);
}

/* Waits that end late make the next ones spin less, those that end soon more; within limits. */
static void spinning_is_learnt(void **state)
{
    (void)state;
    struct temper temper = { 0 };
    struct waiting waiting = { .temper = &temper };
    unsigned before, least, most;
    for (int i = 0; i < 50; i++) {
        struct patience patience = { .turns = 1000, .yields = 100 };
        before = temper.spin;
        patience_end(&patience, &waiting);
        assert_true(i == 0 || temper.spin <= before);
        assert_int_equal(patience.turns, 0);
    }
    least = temper.spin;
    assert_true(least > 0);
    for (int i = 0; i < 50; i++) {
        struct patience patience = { .turns = 3 };
        before = temper.spin;
        patience_end(&patience, &waiting);
        assert_true(temper.spin >= before);
    }
    most = temper.spin;
    assert_true(most > least && most < 100000);
    struct patience none = { 0 };
    patience_end(&none, &waiting);
    assert_int_equal(temper.spin, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_naps_in_the_end_and_looks_before),
        cmocka_unit_test(the_clock_is_looked_at),
        cmocka_unit_test(without_a_bell_it_sleeps_a_little),
        cmocka_unit_test(spinning_is_learnt),
    };
    return cmocka_run_group_tests_name("patience", tests, NULL, NULL);
}
