/* Where rank 0 listens: on every address of its name that this machine has, and on no
 * other; on the first of a few ports that is free at all of them. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "bootstrap/tcp.h"

enum { BACKLOG = 4096 }; /* the kernel cuts it to net.core.somaxconn */

/* A listening socket, or -1 and errno. */
static int listen_at(const struct endpoint *endpoint, bool only_six)
{
    int fd = tcp_socket(endpoint->address.ss_family), on = 1, six = only_six;
    if (fd < 0)
        return -1;
    /* A restarted rank 0 must not wait for its dead self's connections to fade. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (endpoint->address.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &six, sizeof six);
    if (bind(fd, (const struct sockaddr *)&endpoint->address, endpoint->size) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

void tcp_unlisten(struct listeners *listeners)
{
    for (int i = 0; i < listeners->count; i++)
        close(listeners->fds[i]);
    listeners->count = 0;
}

static void add_listener(struct listeners *listeners, int fd, const struct endpoint *endpoint, int port)
{
    char name[ENDPOINT_TEXT_BYTES];
    size_t used = strlen(listeners->text);
    snprintf(listeners->text + used, sizeof listeners->text - used, "%s%s", used > 0 ? " and " : "",
             endpoint_text(endpoint, name));
    listeners->fds[listeners->count++] = fd;
    listeners->port = port;
}

static bool not_here(int error)
{
    return error == EADDRNOTAVAIL || error == EAFNOSUPPORT || error == EPROTONOSUPPORT;
}

/* Listens at one port on those of the addresses that are local. 0, or an errno: EADDRNOTAVAIL if none is. */
static int listen_on_names(struct listeners *listeners, struct endpoint *list, int count, int port)
{
    for (int i = 0; i < count; i++) {
        endpoint_set_port(&list[i], port);
        int fd = listen_at(&list[i], true);
        if (fd >= 0) {
            add_listener(listeners, fd, &list[i], port);
        } else if (!not_here(errno)) {
            int error = errno;
            tcp_unlisten(listeners);
            listeners->text[0] = '\0';
            return error;
        }
    }
    return listeners->count > 0 ? 0 : EADDRNOTAVAIL;
}

/* Listens at one port on all addresses, of both families where the machine has both. 0 or an errno. */
static int listen_on_all(struct listeners *listeners, int port)
{
    struct endpoint six = { .size = sizeof(struct sockaddr_in6) },
                    four = { .size = sizeof(struct sockaddr_in) };
    six.address.ss_family = AF_INET6; /* and the address is zero, which is "any" */
    four.address.ss_family = AF_INET;
    endpoint_set_port(&six, port);
    endpoint_set_port(&four, port);
    int fd = listen_at(&six, false);
    bool both = fd >= 0;
    if (fd < 0 && not_here(errno))
        fd = listen_at(&four, false);
    if (fd < 0)
        return errno;
    add_listener(listeners, fd, both ? &six : &four, port);
    return 0;
}

/* Debian's /etc/hosts gives the machine's own name a loopback address, and then other
 * machines would look for us in vain: a name of which we know only that needs all addresses. */
static bool hides_us(const char *name, const struct endpoint *list, int count)
{
    bool loopback_meant =
        strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 || strcmp(name, "::1") == 0;
    for (int i = 0; i < count; i++)
        if (!endpoint_is_loopback(&list[i]))
            return false;
    return !loopback_meant;
}

/* Says beside the address why it is all of them. */
static void note(struct listeners *listeners, const char *why)
{
    size_t used = strlen(listeners->text);
    snprintf(listeners->text + used, sizeof listeners->text - used, " (%s)", why);
}

plait_status tcp_listen(const struct bootstrap_options *options, struct listeners *listeners)
{
    struct endpoint list[ADDRESSES_MAX];
    char why[REASON_BYTES] = "";
    int first, last, error = 0;
    memset(listeners, 0, sizeof *listeners);
    tcp_ports(options, &first, &last);
    int count = tcp_resolve(options->address, list, why);
    bool all = count == 0 || hides_us(options->address, list, count), everywhere = false;

    for (int port = first; port <= last; port++) {
        error = all ? EADDRNOTAVAIL : listen_on_names(listeners, list, count, port);
        everywhere = error == EADDRNOTAVAIL;
        if (everywhere)
            error = listen_on_all(listeners, port);
        if (error == 0)
            break;
        if (error != EADDRINUSE && error != EACCES)
            break;
    }
    if (error != 0)
        return failure_errno(
            status_of_errno(error) == PLAIT_OUT_OF_MEMORY ? PLAIT_OUT_OF_MEMORY : PLAIT_OUT_OF_RESOURCES,
            error, "rank 0 can't listen at \"%.100s\", ports %d to %d", options->address, first, last);
    if (count > 0 && !all && everywhere)
        snprintf(why, sizeof why, "\"%.100s\" is no address of this machine", options->address);
    if (why[0] != '\0')
        note(listeners, why);
    log_info("rank 0 listens on %s", listeners->text);
    return PLAIT_OK;
}
