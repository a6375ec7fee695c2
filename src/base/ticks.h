/* The cheapest clock there is: the processor's own counter, a few nanoseconds a look. Ticks are of no
 * known length; compare them with clock_ns() over the same stretch. */
#ifndef PLAIT_BASE_TICKS_H
#define PLAIT_BASE_TICKS_H

#include <stdint.h>

#include "base/clock.h"

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return (uint64_t)clock_ns();
#endif
}

#endif
