#include "berth.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

void berth_open(struct berth *berth, const struct transport *transport, struct endpoint *endpoint)
{
    int wait_fd = transport->wait_fd(endpoint);
    int wake_fd = wait_fd >= 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    *berth = (struct berth){ .transport = transport,
                             .endpoint = endpoint,
                             .wait_fd = wake_fd >= 0 ? wait_fd : -1, /* the transport's to close */
                             .wake_fd = wake_fd };
}

void berth_close(struct berth *berth)
{
    if (berth->transport != NULL && berth->wake_fd >= 0)
        close(berth->wake_fd);
    *berth = (struct berth){ .wait_fd = -1, .wake_fd = -1 };
}

void berth_wake(struct berth *berth)
{
    uint64_t one = 1;
    if (atomic_load(&berth->sleeping) && atomic_exchange(&berth->sleeping, false))
        (void)!write(berth->wake_fd, &one, sizeof one);
}

bool berth_sleep(struct berth *berth, bool (*look)(void *context), void *context)
{
    if (berth->wait_fd < 0)
        return false;
    struct pollfd places[] = { { .fd = berth->wait_fd, .events = POLLIN },
                               { .fd = berth->wake_fd, .events = POLLIN } };
    struct timespec nap = { .tv_nsec = (long)berth->transport->nap_ns };
    uint64_t rings;
    atomic_store(&berth->sleeping, true); /* sequentially consistent: the look comes after it */
    bool slept = look(context);
    if (!slept && berth->transport->may_sleep(berth->endpoint)) {
        slept = true;
        ppoll(places, 2, &nap, NULL);
    }
    if (!atomic_exchange(&berth->sleeping, false))
        (void)!read(berth->wake_fd, &rings, sizeof rings);
    return slept;
}
