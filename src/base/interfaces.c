#include "base/interfaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

enum { FOUND_MOST = 64 };

/* ---------------------------------------------------------------- addresses */

static const void *bytes_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET
               ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
               : (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

static size_t bytes_in(const struct sockaddr *address)
{
    return address->sa_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

static bool is_internet(const struct ifaddrs *entry)
{
    return entry->ifa_addr != NULL &&
           (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6);
}

static bool is_link_local(const struct sockaddr *address)
{
    const unsigned char *bytes = bytes_of(address);
    if (address->sa_family == AF_INET)
        return bytes[0] == 169 && bytes[1] == 254;
    return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

/* The source address that the kernel takes on the way to `host`. */
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

bool interfaces_leads_to(const struct interface_address *address, const char *host)
{
    struct sockaddr_storage source;
    const struct sockaddr *from = (const struct sockaddr *)&source;
    return ask_route(host, &source) && from->sa_family == address->socket.any.sa_family &&
           memcmp(bytes_of(from), bytes_of(&address->socket.any), bytes_in(from)) == 0;
}

/* ------------------------------------------------------------------ filters */

static bool fits_subnet(const struct interface_address *address, const char *item, size_t length)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char net[sizeof(struct in6_addr)];
    const char *slash = memchr(item, '/', length);
    size_t before = slash != NULL ? (size_t)(slash - item) : length;
    if (before >= sizeof text)
        return false;
    memcpy(text, item, before);
    text[before] = '\0';
    if (inet_pton(address->socket.any.sa_family, text, net) != 1)
        return false;
    int most = (int)bytes_in(&address->socket.any) * 8;
    long bits = slash != NULL ? strtol(slash + 1, NULL, 10) : most;
    const unsigned char *bytes = bytes_of(&address->socket.any);
    if (bits < 0 || bits > most || memcmp(bytes, net, (size_t)bits / 8) != 0)
        return false;
    return bits % 8 == 0 || (bytes[bits / 8] ^ net[bits / 8]) >> (8 - bits % 8) == 0;
}

static bool fits_item(const struct interface_address *address, const char *item, size_t length)
{
    if (length > 0 && item[length - 1] == '*')
        return strncmp(address->interface, item, length - 1) == 0;
    if (strlen(address->interface) == length && memcmp(address->interface, item, length) == 0)
        return true;
    return fits_subnet(address, item, length);
}

/* The place of the first item that fits; -1 for none, or if one that excludes fits. */
static int fit(const struct interface_address *address, const char *wanted)
{
    int place = 0, first = -1;
    bool only_exclusions = true;
    for (const char *item = wanted; item != NULL; place++) {
        size_t length = strcspn(item, ",");
        bool excludes = item[0] == '!';
        bool fits = fits_item(address, item + excludes, length - excludes);
        only_exclusions = only_exclusions && excludes;
        if (fits && excludes)
            return -1;
        if (fits && first < 0)
            first = place;
        item = item[length] == ',' ? item + length + 1 : NULL;
    }
    return only_exclusions ? place : first;
}

/* -------------------------------------------------------------------- order */

static void take(struct interface_address *address, const struct ifaddrs *entry)
{
    bool v4 = entry->ifa_addr->sa_family == AF_INET;
    memset(address, 0, sizeof *address);
    address->size = v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    memcpy(&address->socket, entry->ifa_addr, address->size);
    inet_ntop(entry->ifa_addr->sa_family, bytes_of(entry->ifa_addr), address->text, sizeof address->text);
    snprintf(address->interface, sizeof address->interface, "%s", entry->ifa_name);
}

/* Where a packet to the world would leave; an address for documentation, to which nothing is sent. */
static bool is_default(const struct interface_address *address)
{
    return interfaces_leads_to(address,
                               address->socket.any.sa_family == AF_INET ? "192.0.2.1" : "2001:db8::1");
}

/* IPv4 before IPv6, since every provider of libfabric knows it. */
static void judge(struct interface_address *address, unsigned flags)
{
    static const char *const reasons[] = { "the default route leaves by it", "it is up and has a carrier",
                                           "it is up, without a carrier", "nothing but loopback is up" };
    int grade = (flags & IFF_LOOPBACK) != 0  ? 3
                : (flags & IFF_RUNNING) == 0 ? 2
                : is_default(address)        ? 0
                                             : 1;
    address->reason = reasons[grade];
    address->order = 2 * grade + (address->socket.any.sa_family == AF_INET6);
}

static int by_order(const void *a, const void *b)
{
    const struct interface_address *one = a, *other = b;
    return (one->order > other->order) - (one->order < other->order);
}

/* Stable, for equals keep the system's order. */
static void sort(struct interface_address *list, int count)
{
    for (int i = 0; i < count; i++)
        list[i].order = list[i].order * FOUND_MOST + i;
    qsort(list, (size_t)count, sizeof *list, by_order);
}

/* --------------------------------------------------------------------- list */

static plait_status nothing_fits(const struct ifaddrs *all, const char *wanted)
{
    char text[512] = "", number[INET6_ADDRSTRLEN];
    size_t used = 0;
    for (const struct ifaddrs *entry = all; entry != NULL && used + 80 < sizeof text; entry = entry->ifa_next)
        if (is_internet(entry) && (entry->ifa_flags & IFF_UP) != 0 && !is_link_local(entry->ifa_addr) &&
            inet_ntop(entry->ifa_addr->sa_family, bytes_of(entry->ifa_addr), number, sizeof number) != NULL)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", used > 0 ? ", " : "",
                                     entry->ifa_name, number);
    if (wanted != NULL)
        return failure(PLAIT_INVALID_SETTING, "PLAIT_INTERFACE is '%.100s', which is not here; there are: %s",
                       wanted, used > 0 ? text : "none");
    return failure(PLAIT_SYSTEM_ERROR, "no network interface of this host is up, not even lo; ip addr tells");
}

/* All that will do, in the system's order. */
static int collect(const struct ifaddrs *all, const char *wanted, struct interface_address *list,
                   bool loopback)
{
    int count = 0;
    for (const struct ifaddrs *entry = all; entry != NULL && count < FOUND_MOST; entry = entry->ifa_next) {
        if (!is_internet(entry) || (entry->ifa_flags & IFF_UP) == 0 || is_link_local(entry->ifa_addr))
            continue;
        take(&list[count], entry);
        judge(&list[count], entry->ifa_flags);
        int place = wanted != NULL ? fit(&list[count], wanted) : 0;
        if (place < 0 || (wanted == NULL && !loopback && (entry->ifa_flags & IFF_LOOPBACK) != 0))
            continue;
        if (wanted != NULL)
            list[count].reason = "PLAIT_INTERFACE asks for it";
        list[count++].order += 8 * place;
    }
    return count;
}

plait_status interfaces_list(const char *wanted, struct interface_address *list, int most, int *count)
{
    struct ifaddrs *all;
    struct interface_address found[FOUND_MOST];
    if (getifaddrs(&all) != 0)
        return failure_errno(status_of_errno(errno), errno, "can't list the network interfaces");
    int here = collect(all, wanted, found, false);
    if (here == 0 && wanted == NULL)
        here = collect(all, wanted, found, true);
    plait_status status = here > 0 ? PLAIT_OK : nothing_fits(all, wanted);
    freeifaddrs(all);
    sort(found, here);
    *count = here < most ? here : most;
    memcpy(list, found, (size_t)*count * sizeof *list);
    return status;
}
