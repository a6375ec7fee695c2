/* The way through a launcher (mpirun, mpiexec, srun) that gives ranks numbers and no address.
 *
 * Rank 0 chooses a port and a secret and has the launcher take both to the others, with the addresses of its
 * machine. From there on it is the way over TCP, with the secret for a job key unless the caller has one. So
 * there is one handshake and one way to fail, and missing ranks have names. It is done once a process: later
 * worlds meet at the same place, for launchers don't like to be asked again. */
#include "bootstrap/launcher.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interfaces.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/tcp.h"

enum { SECRET_BYTES = 16 };

/* Where rank 0 of this process's job is. */
struct whereabouts {
    bool known;
    int port;
    char secret[2 * SECRET_BYTES + 1];
    char addresses[ADDRESSES_MAX * 48]; /* "10.0.0.1,fd00::1" */
    char host[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct whereabouts found;
static const struct launcher_service *opened; /* whose word it was, until all have met */

/* ------------------------------------------------------------------- words */

/* "plait1/PORT/SECRET/ADDRESSES/HOST". */
static const char word_format[] = "plait1/%d/%32[0-9a-f]/%383[0-9a-f.:,]/%63[A-Za-z0-9._-]";

static void write_word(const struct whereabouts *place, char word[WORD_BYTES])
{
    snprintf(word, WORD_BYTES, "plait1/%d/%s/%s/%s", place->port, place->secret, place->addresses,
             place->host);
}

static plait_status read_word(const char *service, const char *word, struct whereabouts *place)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int fields = sscanf(word, word_format, &place->port, place->secret, place->addresses, place->host);
#pragma GCC diagnostic pop
    if (fields == 4 && strlen(place->secret) == 2 * SECRET_BYTES && place->port > 0 && place->port <= 65535)
        return PLAIT_OK;
    return failure(
        PLAIT_START_FAILED,
        "what rank 0 left with %s is \"%.40s\", which this version of Plait can't read; use one version on "
        "all ranks",
        service, word);
}

/* ------------------------------------------------------------- rank 0's side */

/* The addresses by which others may reach this machine: loopback only if there is nothing else. */
static plait_status write_addresses(const char *wanted, struct whereabouts *place)
{
    struct interface_address list[ADDRESSES_MAX];
    int count = 0;
    size_t used = 0;
    plait_status status = interfaces_list(wanted, list, ADDRESSES_MAX, &count);
    for (int i = 0; i < count && status == PLAIT_OK; i++) {
        used += (size_t)snprintf(place->addresses + used, sizeof place->addresses - used, "%s%s",
                                 i > 0 ? "," : "", list[i].text);
        log_info("rank 0 tells the others its address %s on %s: %s", list[i].text, list[i].interface,
                 list[i].reason);
    }
    return status;
}

static plait_status make_whereabouts(const char *wanted, const char *host, struct whereabouts *place)
{
    unsigned char secret[SECRET_BYTES];
    randombytes_buf(secret, sizeof secret);
    sodium_bin2hex(place->secret, sizeof place->secret, secret, sizeof secret);
    sodium_memzero(secret, sizeof secret);
    snprintf(place->host, sizeof place->host, "%s", host);
    for (char *at = place->host; *at != '\0'; at++)
        if (strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == 0)
            *at = '_';
    /* Sixteen in a row, below those of outgoing connections: if another program has the first, the next will do. */
    place->port = 10240 + (int)randombytes_uniform(1300) * 16;
    return write_addresses(wanted, place);
}

/* ------------------------------------------------------------------ services */

static const struct launcher_service *service_of(enum launcher launcher)
{
    return launcher == LAUNCHER_PMIX  ? &launcher_pmix
           : launcher == LAUNCHER_PMI ? &launcher_pmi
                                      : &launcher_mpi;
}

/* Asks one service. PLAIT_UNSUPPORTED: it is not to be had. */
static plait_status ask(const struct launcher_service *service, const struct exchange *exchange)
{
    const struct bootstrap_options *options = exchange->options;
    struct whereabouts place = { .known = true };
    char word[WORD_BYTES] = "";
    plait_status status = PLAIT_OK;
    if (options->rank == 0) {
        status = make_whereabouts(options->interface, exchange->self.host, &place);
        write_word(&place, word);
    }
    if (status == PLAIT_OK)
        status = service->share(options->rank, options->size, word, options->deadline);
    if (status == PLAIT_OK && options->rank > 0)
        status = read_word(service->name, word, &place);
    if (status != PLAIT_OK)
        return status;
    log_info("rank %d of %d: %s says that rank 0 is on host %s, port %d of %s", options->rank, options->size,
             service->name, place.host, place.port, place.addresses);
    found = place;
    opened = service;
    sodium_memzero(word, sizeof word);
    return PLAIT_OK;
}

/* No service is there. Ranks that the launcher told how to meet without one do that, others can't. */
static plait_status ask_nobody(const struct exchange *exchange, const char *reasons)
{
    const struct bootstrap_options *options = exchange->options;
    if (options->address != NULL && !options->launcher_asked) {
        log_info("rank %d of %d meets the others at %s without its launcher's help: %s", options->rank,
                 options->size, options->address, reasons);
        return PLAIT_OK;
    }
    return failure(
        PLAIT_INVALID_SETTING,
        "rank %d of %d was started by a launcher that gave it no address of rank 0, and can't ask it for "
        "one: %s; or set MASTER_ADDR to rank 0's host and MASTER_PORT to a free port there",
        options->rank, options->size, reasons);
}

/* Sets `found`, or leaves it for the options' address. The caller holds the lock. */
static plait_status find(const struct exchange *exchange)
{
    const struct bootstrap_options *options = exchange->options;
    const struct launcher_service *first = service_of(options->launcher);
    char reasons[700];
    plait_status status = ask(first, exchange);
    if (status != PLAIT_UNSUPPORTED)
        return status;
    snprintf(reasons, sizeof reasons, "%s", failure_text());
    if (!options->launcher_asked && first != &launcher_mpi) {
        status = ask(&launcher_mpi, exchange);
        if (status != PLAIT_UNSUPPORTED)
            return status;
        size_t used = strlen(reasons);
        snprintf(reasons + used, sizeof reasons - used, "; %s", failure_text());
    }
    return ask_nobody(exchange, reasons);
}

/* ------------------------------------------------------------------- the way */

static void close_service(void)
{
    pthread_mutex_lock(&lock);
    if (opened != NULL && opened->met != NULL)
        opened->met();
    opened = NULL;
    pthread_mutex_unlock(&lock);
}

static plait_status meet(struct exchange *exchange)
{
    const struct bootstrap_options *given = exchange->options;
    struct bootstrap_options options = *given;
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&lock);
    if (!found.known)
        status = find(exchange);
    struct whereabouts place = found;
    pthread_mutex_unlock(&lock);
    if (status != PLAIT_OK)
        return status;

    options.launcher = LAUNCHER_ENVIRONMENT;
    if (place.known) {
        options.address = place.addresses;
        options.port = place.port;
        snprintf(exchange->toward, sizeof exchange->toward, "%.*s", (int)strcspn(place.addresses, ","),
                 place.addresses);
        if (options.job_key == NULL) {
            options.job_key = place.secret;
            options.job_key_size = strlen(place.secret);
        }
    }
    job_key_base(&options, exchange->base);
    exchange->options = &options;
    status = way_environment.meet(exchange);
    exchange->options = given;
    sodium_memzero(place.secret, sizeof place.secret);
    if (status == PLAIT_OK)
        close_service();
    return status;
}

const struct bootstrap_way way_launcher = { "launcher", meet };
