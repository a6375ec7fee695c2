/* Sleeping on a descriptor of a transport's: what ends a sleep, and when there is none. */
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "berth.h"
#include "check.h"

enum { LONG_NS = 900000000, SOON_NS = 500000000 };

static int fds[2] = { -1, -1 };
static bool willing;

static int wait_fd(struct endpoint *endpoint)
{
    (void)endpoint;
    return fds[0];
}

static bool may_sleep(struct endpoint *endpoint)
{
    (void)endpoint;
    return willing;
}

static const struct transport transport = { .nap_ns = LONG_NS, .wait_fd = wait_fd, .may_sleep = may_sleep };

static bool finds(void *context)
{
    return *(bool *)context;
}

static void *wake_soon(void *berth)
{
    usleep(50000);
    berth_wake(berth);
    return NULL;
}

static void *write_soon(void *berth)
{
    (void)berth;
    usleep(50000);
    assert_int_equal(write(fds[1], "", 1), 1);
    return NULL;
}

static void something_ends_it(void **state)
{
    struct berth berth;
    pthread_t thread;
    bool found = false;
    willing = true;
    assert_int_equal(pipe(fds), 0);
    berth_open(&berth, &transport, NULL);
    for (int i = 0; i < 3; i++) { /* again and again: what woke it once does not wake it twice */
        int64_t start = clock_ns();
        assert_int_equal(pthread_create(&thread, NULL, *state != NULL ? write_soon : wake_soon, &berth), 0);
        assert_true(berth_sleep(&berth, finds, &found));
        assert_in_range(clock_ns() - start, 30000000, SOON_NS);
        pthread_join(thread, NULL);
        char byte;
        if (*state != NULL)
            assert_int_equal(read(fds[0], &byte, 1), 1);
    }
    berth_close(&berth);
    close(fds[0]);
    close(fds[1]);
}

static void nobody_sleeps_beside_work(void **state)
{
    (void)state;
    struct berth berth;
    bool found = true;
    assert_int_equal(pipe(fds), 0);
    berth_open(&berth, &transport, NULL);
    int64_t start = clock_ns();
    assert_true(berth_sleep(&berth, finds, &found));
    found = willing = false;
    assert_false(berth_sleep(&berth, finds, &found));
    berth_close(&berth);
    close(fds[0]);
    close(fds[1]);
    fds[0] = -1; /* a transport without one */
    willing = true;
    berth_open(&berth, &transport, NULL);
    assert_false(berth_sleep(&berth, finds, &found));
    berth_wake(&berth);
    berth_close(&berth);
    assert_true(clock_ns() - start < SOON_NS);
}

int main(void)
{
    static bool by_descriptor = true;
    const struct CMUnitTest tests[] = {
        { "a wake-up ends it", something_ends_it, NULL, NULL, NULL },
        { "what comes ends it", something_ends_it, NULL, NULL, &by_descriptor },
        { "nobody sleeps beside work", nobody_sleeps_beside_work, NULL, NULL, NULL },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
