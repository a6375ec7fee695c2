/* A berth: where a driver sleeps whose transport has no bell. It sleeps on what the transport waits on and on the
 * world's own wake-up, in one poll(). */
#ifndef PLAIT_BERTH_H
#define PLAIT_BERTH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "transport/transport.h"

struct berth {
    const struct transport *transport;
    struct endpoint *endpoint;
    int wait_fd; /* the transport's; -1: it has none, so nobody sleeps here */
    int wake_fd;
    _Atomic bool sleeping;
};

void berth_open(struct berth *berth, const struct transport *transport, struct endpoint *endpoint);
void berth_close(struct berth *berth);

/* Wakes who sleeps there. Any thread; a few nanoseconds when nobody does. */
void berth_wake(struct berth *berth);

/* Sleeps until something came or berth_wake(), for a while at most, unless `look` finds something to do before.
 * False, at once, where that is not possible now: the transport wants to be asked. */
bool berth_sleep(struct berth *berth, bool (*look)(void *context), void *context);

#endif
