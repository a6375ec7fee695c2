#include "transport/ofi_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* An address that a peer can use: link-local ones mean nothing without the interface's number there. */
static bool is_usable(const struct ifaddrs *entry)
{
    if (entry->ifa_addr == NULL || (entry->ifa_flags & IFF_UP) == 0)
        return false;
    if (entry->ifa_addr->sa_family == AF_INET)
        return true;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)entry->ifa_addr;
    return entry->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

static bool is_loopback(const struct ifaddrs *entry)
{
    return (entry->ifa_flags & IFF_LOOPBACK) != 0;
}

static const void *bytes_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET
               ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
               : (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    size_t size = a->sa_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
    return a->sa_family == b->sa_family && memcmp(bytes_of(a), bytes_of(b), size) == 0;
}

static void take(struct ofi_address *address, const struct ifaddrs *entry, const char *reason)
{
    bool v4 = entry->ifa_addr->sa_family == AF_INET;
    address->size = v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    memcpy(&address->socket, entry->ifa_addr, address->size);
    inet_ntop(entry->ifa_addr->sa_family, bytes_of(entry->ifa_addr), address->text, sizeof address->text);
    snprintf(address->interface, sizeof address->interface, "%s", entry->ifa_name);
    address->reason = reason;
}

/* The source address that the kernel takes on the way to `host`. Nothing is sent. */
static bool ask_route(const char *host, struct sockaddr_storage *source)
{
    struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *found = NULL;
    bool ok = false;
    if (getaddrinfo(host, "9", &hints, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at != NULL && !ok; at = at->ai_next) {
        socklen_t size = sizeof *source;
        int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ok = fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
             getsockname(fd, (struct sockaddr *)source, &size) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    return ok;
}

static void list_interfaces(const struct ifaddrs *list, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct ifaddrs *entry = list; entry != NULL && used + 80 < size; entry = entry->ifa_next) {
        char number[INET6_ADDRSTRLEN];
        if (is_usable(entry) &&
            inet_ntop(entry->ifa_addr->sa_family, bytes_of(entry->ifa_addr), number, sizeof number) != NULL)
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? ", " : "",
                                     entry->ifa_name, number);
    }
}

static plait_status choose_wanted(const struct ifaddrs *list, const char *wanted, struct ofi_address *address)
{
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        char number[INET6_ADDRSTRLEN];
        if (!is_usable(entry) ||
            inet_ntop(entry->ifa_addr->sa_family, bytes_of(entry->ifa_addr), number, sizeof number) == NULL)
            continue;
        if (strcmp(entry->ifa_name, wanted) == 0 || strcmp(number, wanted) == 0) {
            take(address, entry, "PLAIT_INTERFACE asks for it");
            return PLAIT_OK;
        }
    }
    char there[512];
    list_interfaces(list, there, sizeof there);
    return failure(PLAIT_INVALID_SETTING, "PLAIT_INTERFACE is '%s', which is not here; there are: %s", wanted,
                   there);
}

/* The first that fits: IPv4 before IPv6, since every provider knows it. */
static const struct ifaddrs *first_of(const struct ifaddrs *list, bool loopback)
{
    static const int families[] = { AF_INET, AF_INET6 };
    for (int i = 0; i < 2; i++)
        for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next)
            if (is_usable(entry) && is_loopback(entry) == loopback &&
                entry->ifa_addr->sa_family == families[i])
                return entry;
    return NULL;
}

static plait_status choose(const struct ifaddrs *list, const char *toward, struct ofi_address *address)
{
    struct sockaddr_storage source;
    if (toward != NULL && ask_route(toward, &source))
        for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next)
            if (is_usable(entry) && !is_loopback(entry) &&
                same_address(entry->ifa_addr, (struct sockaddr *)&source)) {
                take(address, entry, "the route to where the ranks meet");
                return PLAIT_OK;
            }
    const struct ifaddrs *entry = first_of(list, false);
    if (entry != NULL) {
        take(address, entry, "the first interface that is up");
        return PLAIT_OK;
    }
    entry = first_of(list, true);
    if (entry == NULL)
        return failure(PLAIT_SYSTEM_ERROR,
                       "no network interface of this host is up, not even lo; ip addr tells");
    take(address, entry, "nothing but loopback is up");
    return PLAIT_OK;
}

plait_status ofi_address_choose(const char *wanted, const char *toward, struct ofi_address *address)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return failure_errno(status_of_errno(errno), errno, "can't list the network interfaces");
    plait_status status =
        wanted != NULL ? choose_wanted(list, wanted, address) : choose(list, toward, address);
    freeifaddrs(list);
    return status;
}
