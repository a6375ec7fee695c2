/* One world after another over the same store, file or group: the hundredth costs what the third did,
 * and a rank that starts asks little of the store. The cost is CPU time, which a busy machine leaves as it is. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap_ranks.h"
#include "check.h"

enum { WORLDS = 100, EARLY_FROM = 2, EARLY_TO = 22, LATE_FROM = 80 };

/* ----------------------------------------------------------- a store that counts */

static plait_store *counted;
static atomic_int sets, gets, adds;

static int count_set(void *context, const char *key, const void *value, size_t size)
{
    atomic_fetch_add(&sets, 1);
    return counted->set(context, key, value, size);
}

static int count_get(void *context, const char *key, void *value, size_t *size, int64_t timeout_ms)
{
    atomic_fetch_add(&gets, 1);
    return counted->get(context, key, value, size, timeout_ms);
}

static int count_add(void *context, const char *key, int64_t amount, int64_t *sum)
{
    atomic_fetch_add(&adds, 1);
    return counted->add(context, key, amount, sum);
}

/* ------------------------------------------------------------------------ worlds */

static struct start starts[START_RANKS_MAX];

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Creates a world and gives what all of its ranks have cost. */
static double world_cost(int size, struct bootstrap_options options)
{
    double before = cpu_seconds();
    starts_fill(starts, size, options, 60000);
    starts_run(starts, size);
    double cost = cpu_seconds() - before;
    starts_check(starts, size);
    starts_end(starts, size);
    return cost;
}

/* The least of several: what a start costs when nothing else is in its way. */
static double least(const double *values, int from, int to)
{
    double found = values[from];
    for (int i = from; i < to; i++)
        found = values[i] < found ? values[i] : found;
    return found;
}

static void check_flat(const char *what, struct bootstrap_options options)
{
    double seconds[WORLDS];
    for (int i = 0; i < WORLDS; i++)
        seconds[i] = world_cost(2, options);
    double early = least(seconds, EARLY_FROM, EARLY_TO), late = least(seconds, LATE_FROM, WORLDS);
    print_message("%s: a world costs %.3f ms early on and %.3f ms at the end\n", what, early * 1e3,
                  late * 1e3);
    assert_true(late <= 2 * early + 0.0002);
}

static void hundredth_over_threads(void **state)
{
    (void)state;
    struct bootstrap_options options = { 0 };
    assert_int_equal(plait_thread_group_create(2, &options.threads), PLAIT_OK);
    check_flat("threads", options);
    plait_thread_group_destroy(options.threads);
}

static void hundredth_over_a_store(void **state)
{
    (void)state;
    plait_store *store = test_store_create();
    check_flat("store", (struct bootstrap_options){ .store = store });
    test_store_destroy(store);
}

static void hundredth_over_a_file(void **state)
{
    (void)state;
    char file[64];
    snprintf(file, sizeof file, "/tmp/plait-again-%d", (int)getpid());
    unlink(file);
    check_flat("file", (struct bootstrap_options){ .file = file });
    unlink(file);
}

/* What each start asks, at its least of many worlds: waiting adds questions on a busy machine. */
static void questions_are_few(void **state)
{
    (void)state;
    static const int sizes[] = { 2, 8, 32 };
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        int size = sizes[i], least_asked = 0;
        counted = test_store_create();
        plait_store store = { sizeof store, counted->context, count_set, count_get, count_add, NULL };
        for (int world = 0; world < 20; world++) {
            sets = gets = adds = 0;
            world_cost(size, (struct bootstrap_options){ .store = &store });
            assert_int_equal(sets, size + 1); /* a card each, but rank 0: the opening and the outcome */
            int asked = sets + gets + adds;
            least_asked = world == 0 || asked < least_asked ? asked : least_asked;
        }
        print_message("%d ranks: %d questions, %.1f a rank\n", size, least_asked, (double)least_asked / size);
        assert_true(least_asked <= 8 * size);
        test_store_destroy(counted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hundredth_over_threads),
        cmocka_unit_test(hundredth_over_a_store),
        cmocka_unit_test(hundredth_over_a_file),
        cmocka_unit_test(questions_are_few),
    };
    return check_run("bootstrap, again and again", tests, LENGTH(tests));
}
