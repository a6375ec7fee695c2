/* Which of this host's addresses its peers on other hosts should use. */
#ifndef PLAIT_TRANSPORT_OFI_ADDRESS_H
#define PLAIT_TRANSPORT_OFI_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "plait.h"

struct ofi_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } socket; /* its port is 0 */
    socklen_t size;
    char text[INET6_ADDRSTRLEN];
    char interface[16];
    const char *reason;
};

/* `wanted`: an interface's name or one of its addresses (PLAIT_INTERFACE), or NULL. `toward`: a host that
 * the ranks can reach, for which the kernel's route is asked, or NULL. Loopback only where nothing else is. */
plait_status ofi_address_choose(const char *wanted, const char *toward, struct ofi_address *address);

#endif
