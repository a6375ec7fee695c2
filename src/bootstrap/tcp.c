#include "bootstrap/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---------------------------------------------------------------- addresses */

const char *endpoint_host(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_BYTES])
{
    const struct sockaddr_in6 *six = (const void *)&endpoint->address;
    const struct sockaddr_in *four = (const void *)&endpoint->address;
    text[0] = '\0';
    if (endpoint->address.ss_family == AF_INET)
        inet_ntop(AF_INET, &four->sin_addr, text, ENDPOINT_TEXT_BYTES);
    else if (endpoint->address.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], text, ENDPOINT_TEXT_BYTES);
    else if (endpoint->address.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &six->sin6_addr, text, ENDPOINT_TEXT_BYTES);
    return text;
}

static int port_of(const struct endpoint *endpoint)
{
    const struct sockaddr_in6 *six = (const void *)&endpoint->address;
    const struct sockaddr_in *four = (const void *)&endpoint->address;
    return ntohs(endpoint->address.ss_family == AF_INET6 ? six->sin6_port : four->sin_port);
}

const char *endpoint_text(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_BYTES])
{
    char host[ENDPOINT_TEXT_BYTES];
    endpoint_host(endpoint, host);
    const char *format = strchr(host, ':') != NULL ? "[%.60s]:%d" : "%.60s:%d";
    /* Two formats, and both are literals above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, ENDPOINT_TEXT_BYTES, format, host, port_of(endpoint));
#pragma GCC diagnostic pop
    return text;
}

void endpoint_set_port(struct endpoint *endpoint, int port)
{
    struct sockaddr_in6 *six = (void *)&endpoint->address;
    struct sockaddr_in *four = (void *)&endpoint->address;
    if (endpoint->address.ss_family == AF_INET6)
        six->sin6_port = htons((uint16_t)port);
    else
        four->sin_port = htons((uint16_t)port);
}

bool endpoint_is_loopback(const struct endpoint *endpoint)
{
    const struct sockaddr_in6 *six = (const void *)&endpoint->address;
    const struct sockaddr_in *four = (const void *)&endpoint->address;
    if (endpoint->address.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
}

static bool listed(const struct endpoint *list, int count, const struct addrinfo *info)
{
    for (int i = 0; i < count; i++)
        if (list[i].size == info->ai_addrlen &&
            memcmp(&list[i].address, info->ai_addr, info->ai_addrlen) == 0)
            return true;
    return false;
}

/* Adds the addresses of one name. 0, or getaddrinfo()'s code. */
static int resolve_name(const char *name, struct endpoint *list, int *count)
{
    struct addrinfo wanted = { .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP }, *found = NULL;
    int code = getaddrinfo(name, NULL, &wanted, &found);
    if (code != 0)
        return code;
    for (struct addrinfo *info = found; info != NULL && *count < ADDRESSES_MAX; info = info->ai_next) {
        if ((info->ai_family != AF_INET && info->ai_family != AF_INET6) || listed(list, *count, info))
            continue;
        memset(&list[*count], 0, sizeof list[*count]);
        memcpy(&list[*count].address, info->ai_addr, info->ai_addrlen);
        list[(*count)++].size = info->ai_addrlen;
    }
    freeaddrinfo(found);
    return 0;
}

int tcp_resolve(const char *names, struct endpoint *list, char why[REASON_BYTES])
{
    int count = 0, code = 0;
    char name[256];
    for (const char *at = names; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        int error = resolve_name(name, list, &count);
        code = error != 0 ? error : code;
    }
    if (count == 0 && code != 0)
        snprintf(why, REASON_BYTES, "the name \"%.100s\" has no address: %.90s", names,
                 code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    else if (count == 0)
        snprintf(why, REASON_BYTES, "the name \"%.100s\" has neither an IPv4 nor an IPv6 address", names);
    return count;
}

/* ------------------------------------------------------------------ sockets */

void tcp_ports(const struct bootstrap_options *options, int *first, int *last)
{
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    bool taken = agent != NULL && strcmp(agent, "True") == 0 && options->port < 65535;
    *first = options->port + (taken ? 1 : 0);
    *last = options->port + PORT_TRIES - 1;
    if (*last > 65535)
        *last = 65535;
}

int tcp_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

struct place tcp_place(const unsigned char *hello, const unsigned char *leader_nonce)
{
    struct place place = { 0 };
    place_add(&place, hello, HELLO_BYTES);
    if (leader_nonce != NULL)
        place_add(&place, leader_nonce, NONCE_BYTES);
    return place;
}

const char *stranger_text(const unsigned char *bytes, size_t size, char text[REASON_BYTES])
{
    size_t used = 0;
    text[used++] = '"';
    for (size_t i = 0; i < size && i < 16; i++) {
        if (bytes[i] >= ' ' && bytes[i] <= '~' && bytes[i] != '"' && bytes[i] != '\\')
            text[used++] = (char)bytes[i];
        else
            used += (size_t)snprintf(text + used, REASON_BYTES - used, "\\x%02x", bytes[i]);
    }
    text[used++] = '"';
    text[used] = '\0';
    return text;
}

const char *tcp_remedy(const char *reason)
{
    static const struct {
        const char *part, *remedy;
    } remedies[] = {
        { "another job key",
          "; set PLAIT_JOB_KEY alike on all ranks of a job, and give each job a port of its own" },
        { "wire version", "; install one version of Plait on all hosts" },
        { "no answer while connecting", "; a firewall may drop what goes there: let these ports pass" },
        { "route to host", "; MASTER_ADDR must be an address of rank 0's host that this one can reach" },
        { "unreachable", "; MASTER_ADDR must be an address of rank 0's host that this one can reach" },
    };
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        if (strstr(reason, remedies[i].part) != NULL)
            return remedies[i].remedy;
    return "";
}

/* ------------------------------------------------------------------ the way */

static plait_status meet(struct exchange *exchange)
{
    const struct bootstrap_options *options = exchange->options;
    if (options->address == NULL || options->address[0] == '\0')
        return failure(PLAIT_INVALID_ARGUMENT,
                       "rank %d of %d has no address of rank 0: set MASTER_ADDR or options.address",
                       options->rank, options->size);
    if (options->port < 1 || options->port > 65535)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "rank %d of %d: rank 0's port is %d; it must be 1 to 65535 (MASTER_PORT)",
                       options->rank, options->size, options->port);
    return options->rank == 0 ? tcp_host(exchange) : tcp_join(exchange);
}

const struct bootstrap_way way_environment = { "environment", meet };
