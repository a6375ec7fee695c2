/* The addresses by which other hosts may reach this one, best first, each with the reason for its place. */
#ifndef PLAIT_BASE_INTERFACES_H
#define PLAIT_BASE_INTERFACES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "plait.h"

struct interface_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } socket; /* its port is 0 */
    socklen_t size;
    char text[INET6_ADDRSTRLEN];
    char interface[16];
    const char *reason;
    int order; /* the least comes first */
};

/* Fills `list` with at most `most` addresses. Left out are interfaces that are down, link-local addresses, which
 * mean nothing on another host, and loopback unless there is nothing else.
 *
 * wanted  PLAIT_INTERFACE, or NULL: items with commas between, of which the first that an address fits gives its
 *         place. "eth0" a name, "ib*" names that begin so, "10.0.0.7" an address, "10.0.0.0/8" a subnet; with "!"
 *         before it what it fits is left out (if all items are such, the rest is taken).
 *
 * PLAIT_INVALID_SETTING if `wanted` can't be read or leaves nothing: the sentence lists what is here.
 * PLAIT_SYSTEM_ERROR if no interface is up. */
plait_status interfaces_list(const char *wanted, struct interface_address *list, int most, int *count);

/* Whether `address` is the one that the kernel sends from on the way to `host`. Nothing is sent. */
bool interfaces_leads_to(const struct interface_address *address, const char *host);

#endif
