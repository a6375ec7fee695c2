/* Sleeping on a word of memory, shared between processes or not. */
#ifndef PLAIT_BASE_FUTEX_H
#define PLAIT_BASE_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while `*word` is `seen`, at most `nap_ns` (negative: no limit). May return early. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t nap_ns)
{
    struct timespec nap = { .tv_sec = nap_ns / 1000000000, .tv_nsec = nap_ns % 1000000000 };
    syscall(SYS_futex, word, FUTEX_WAIT, seen, nap_ns < 0 ? NULL : &nap, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

#endif
