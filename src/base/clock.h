/* Time. Monotonic nanoseconds, and a deadline on top of them. */
#ifndef PLAIT_BASE_CLOCK_H
#define PLAIT_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NO_DEADLINE INT64_MAX

static inline int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The moment `timeout_ms` from now; negative means never. */
static inline int64_t deadline_after_ms(int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms > INT64_MAX / 4000000)
        return NO_DEADLINE;
    return clock_ns() + timeout_ms * 1000000;
}

static inline bool deadline_passed(int64_t deadline)
{
    return deadline != NO_DEADLINE && clock_ns() >= deadline;
}

/* Milliseconds left, rounded up, 0 when passed; a day when there is no deadline. */
static inline int64_t deadline_left_ms(int64_t deadline)
{
    if (deadline == NO_DEADLINE)
        return 86400000;
    int64_t left = deadline - clock_ns();
    return left <= 0 ? 0 : (left + 999999) / 1000000;
}

#endif
