/* Rank 0: takes the others in, and tells all of them how it ended.
 *
 * One loop over poll(). A guest is a connection. It has to say a HELLO, prove the job key and hand over
 * its card within HANDSHAKE_MS, or it is turned away with one log line; so is whoever speaks something
 * else. Guests that have proved nothing are few: when there are UNPROVEN_MAX, or no descriptors are
 * left, the oldest makes room for the next. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/tcp_host.h"

enum {
    HANDSHAKE_MS = 2000,
    UNPROVEN_MAX = 128,
    PROBE_PATIENCE_MS = 100,
    PROBES_MS = 300,     /* for all probes together */
    FULL_PAUSE_MS = 10,  /* without a descriptor: look again after */
    FULL_LIMIT_MS = 500, /* ... and give up after */
    LINGER_MS = 100,     /* for handshakes under way when the world fails */
    TELL_MS = 500        /* at least this long for the outcome, even past the deadline */
};

/* ------------------------------------------------------------------ guests */

static struct guest *oldest_unproven(struct host *host)
{
    struct guest *oldest = NULL;
    for (int i = 0; i < host->guest_count; i++)
        if (host->guests[i]->state < GUEST_SEATED &&
            (oldest == NULL || host->guests[i]->since < oldest->since))
            oldest = host->guests[i];
    return oldest;
}

/* No descriptor for the next guest. A silent one has to go; without any, wait a moment, then give up. */
static plait_status make_room(struct host *host, int error)
{
    struct guest *oldest = oldest_unproven(host);
    if (oldest != NULL && clock_ns() - oldest->since > FULL_PAUSE_MS * 1000000) {
        guest_turn_away(host, oldest, "it was silent and its descriptor was needed");
        host->full_since = 0;
        return PLAIT_OK;
    }
    if (host->full_since == 0)
        host->full_since = clock_ns();
    host->full_until = deadline_after_ms(FULL_PAUSE_MS);
    if (clock_ns() - host->full_since < FULL_LIMIT_MS * (int64_t)1000000)
        return PLAIT_OK;
    return failure_errno(PLAIT_OUT_OF_RESOURCES, error,
                         "rank 0 needs a descriptor for each of %d ranks while the world "
                         "starts and got %d; raise `ulimit -n`",
                         host->exchange->self.size, host->guest_count);
}

static plait_status let_in(struct host *host, int listener)
{
    struct endpoint from = { .size = sizeof from.address };
    int fd = accept4(listener, (struct sockaddr *)&from.address, &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        return make_room(host, errno);
    if (fd < 0)
        return PLAIT_OK; /* it was gone before we looked */
    host->full_since = 0;
    if (host->unproven >= UNPROVEN_MAX || host->guest_count == host->guest_room)
        guest_turn_away(host, oldest_unproven(host), "it was silent and its place was needed");

    struct guest *guest = calloc(1, sizeof *guest);
    if (guest == NULL) {
        close(fd);
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a connection to rank 0");
    }
    guest->fd = fd;
    guest->since = clock_ns();
    endpoint_text(&from, guest->name);
    host->guests[host->guest_count++] = guest;
    host->unproven++;
    return PLAIT_OK;
}

static void expire(struct host *host)
{
    int64_t limit = clock_ns() - HANDSHAKE_MS * (int64_t)1000000;
    for (int i = host->guest_count - 1; i >= 0; i--)
        if (host->guests[i]->state < GUEST_SEATED && host->guests[i]->since < limit)
            guest_turn_away(host, host->guests[i], "it did not finish the handshake within %d ms",
                            HANDSHAKE_MS);
}

/* ------------------------------------------------------------------- loops */

static plait_status ranks_missing(struct host *host)
{
    const struct claim *self = &host->exchange->self;
    char who[OUTCOME_TEXT_BYTES / 4], away[REASON_BYTES + 160] = "";
    bool *there = calloc((size_t)self->size, sizeof *there);
    if (there == NULL)
        return failure(PLAIT_START_FAILED, "%d of %d ranks did not come", host->missing, self->size);
    for (int rank = 0; rank < self->size; rank++)
        there[rank] = rank == 0 || host->seats[rank] != NULL;
    missing_text(there, self->size, who, sizeof who);
    free(there);
    if (host->turned_away > 0)
        snprintf(away, sizeof away, "; %d connection%s turned away, the last was %s%s", host->turned_away,
                 host->turned_away == 1 ? " was" : "s were", host->last_away, tcp_remedy(host->last_away));
    return failure(PLAIT_START_FAILED,
                   "%s of %d did not come within %.1f s%s; rank 0 listened on %s, host %s", who, self->size,
                   exchange_seconds(host->exchange), away, host->listeners.text, self->host);
}

/* Milliseconds that poll() may sleep. */
static int poll_ms(const struct host *host)
{
    int64_t left = deadline_left_ms(host->decide_by);
    if (host->unproven > 0 && left > HANDSHAKE_MS / 10)
        left = HANDSHAKE_MS / 10;
    if (host->full_until > clock_ns() && left > FULL_PAUSE_MS)
        left = FULL_PAUSE_MS;
    return (int)(left < 60000 ? left : 60000);
}

/* Waits for something to happen and deals with it. */
static plait_status serve(struct host *host)
{
    int listeners = host->listeners.count, count = host->guest_count;
    bool full = host->full_until > clock_ns();
    for (int i = 0; i < listeners; i++)
        host->polls[i] = (struct pollfd){ .fd = full ? -1 : host->listeners.fds[i], .events = POLLIN };
    for (int i = 0; i < count; i++)
        host->polls[listeners + i] = (struct pollfd){ .fd = host->guests[i]->fd, .events = POLLIN };
    int ready = poll(host->polls, (nfds_t)(listeners + count), poll_ms(host));
    if (ready < 0 && errno != EINTR)
        return failure_errno(status_of_errno(errno), errno, "rank 0 can't wait for %d connections", count);
    if (ready < 0)
        return PLAIT_OK;

    plait_status status = PLAIT_OK;
    /* From the last to the first: a guest that is dropped is replaced by one that had its turn. */
    for (int i = count - 1; i >= 0 && status == PLAIT_OK; i--) {
        struct guest *guest = i < host->guest_count ? host->guests[i] : NULL;
        if (guest != NULL && host->polls[listeners + i].fd == guest->fd &&
            host->polls[listeners + i].revents != 0)
            status = guest_hear(host, guest);
    }
    for (int i = 0; i < listeners && status == PLAIT_OK; i++)
        if (host->polls[i].revents != 0)
            status = let_in(host, host->listeners.fds[i]);
    expire(host);
    return status;
}

static plait_status gather(struct host *host)
{
    while (host->missing > 0) {
        plait_status status = serve(host);
        if (status != PLAIT_OK)
            return status;
        if (host->missing > 0 && deadline_passed(host->decide_by))
            return ranks_missing(host);
    }
    return PLAIT_OK;
}

/* The world has failed: lets those finish their handshake that are in it, so that they hear why. */
static void hear_out(struct host *host)
{
    int64_t until = deadline_after_ms(LINGER_MS);
    host->decide_by = clock_ns(); /* once without waiting, for those at the door */
    do {
        plait_status status = serve(host);
        if (status == PLAIT_OUT_OF_RESOURCES || status == PLAIT_OUT_OF_MEMORY)
            return;
        host->decide_by = until;
    } while (host->unproven > 0 && !deadline_passed(until));
}

/* Sends what a guest's connection takes of the outcome and its proof. */
static void tell_guest(struct host *host, struct guest *guest, const unsigned char *frame, size_t size,
                       const unsigned char *digest)
{
    unsigned char proof[PROOF_BYTES];
    struct place place = tcp_place(guest->hello, guest->nonce);
    wire_seal_digest(digest, host->exchange->base, &place, proof);
    size_t body = size - PROOF_BYTES;
    while (guest->told < size) {
        const unsigned char *bytes = guest->told < body ? frame + guest->told : proof + (guest->told - body);
        size_t left = guest->told < body ? body - guest->told : size - guest->told;
        ssize_t put = send(guest->fd, bytes, left, MSG_NOSIGNAL | (guest->told < body ? MSG_MORE : 0));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (put < 0) {
            char text[CLAIM_TEXT_BYTES];
            log_warn("rank 0 could not give %s at %s the outcome: %s", claim_text(&guest->claim, text),
                     guest->name, strerror(errno));
            break;
        }
        guest->told += (size_t)put;
    }
    guest->state = GUEST_TOLD;
    shutdown(guest->fd, SHUT_WR);
}

/* Sends the outcome to all that are seated, for as long as the deadline allows and a little more. */
static void tell_all(struct host *host, const unsigned char *frame, size_t size, const unsigned char *digest)
{
    int64_t until = deadline_after_ms(TELL_MS), deadline = host->exchange->options->deadline;
    until = host->exchange->outcome.status == PLAIT_OK && deadline > until ? deadline : until;
    for (;;) {
        int waiting = 0;
        for (int i = 0; i < host->guest_count; i++) {
            struct guest *guest = host->guests[i];
            if (guest->state == GUEST_SEATED)
                tell_guest(host, guest, frame, size, digest);
            if (guest->state == GUEST_SEATED)
                host->polls[waiting++] = (struct pollfd){ .fd = guest->fd, .events = POLLOUT };
        }
        if (waiting == 0)
            return;
        if (deadline_passed(until))
            break;
        int64_t left = deadline_left_ms(until);
        poll(host->polls, (nfds_t)waiting, (int)(left < 1000 ? left : 1000));
    }
    log_warn("rank 0 could not give every rank the outcome in time");
}

static plait_status publish(struct host *host)
{
    const struct outcome *outcome = &host->exchange->outcome;
    size_t size = wire_outcome_size(outcome->status, outcome->size);
    unsigned char *frame = malloc(size), digest[PROOF_BYTES];
    if (frame == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the cards of %d ranks", outcome->size);
    wire_put_outcome(frame, outcome);
    wire_digest(frame, size, host->exchange->base, digest);
    tell_all(host, frame, size, digest);
    free(frame);
    return PLAIT_OK;
}

/* ------------------------------------------------------------------- start */

/* A lower port that is in use may be another process's that takes itself for rank 0: ask as a joiner
 * would. Our own socket listens already, so no joiner is kept waiting. */
static plait_status probe_lower_ports(struct host *host)
{
    struct endpoint list[ADDRESSES_MAX];
    char reason[REASON_BYTES];
    int first, last;
    int64_t until = deadline_after_ms(PROBES_MS);
    tcp_ports(host->exchange->options, &first, &last);
    if (host->listeners.port == first)
        return PLAIT_OK;
    int count = tcp_resolve(host->exchange->options->address, list, reason);
    for (int port = first; port < host->listeners.port; port++) {
        for (int i = 0; i < count && !deadline_passed(until); i++) {
            plait_status status = PLAIT_OK;
            endpoint_set_port(&list[i], port);
            if (tcp_attempt(host->exchange, &list[i], PROBE_PATIENCE_MS, reason, &status) == ATTEMPT_OVER &&
                status != PLAIT_OK)
                return status;
        }
    }
    return PLAIT_OK;
}

static plait_status open_host(struct host *host)
{
    struct exchange *exchange = host->exchange;
    size_t size = (size_t)exchange->self.size;
    host->guest_room = exchange->self.size + UNPROVEN_MAX;
    host->guests = calloc((size_t)host->guest_room, sizeof *host->guests);
    host->polls = calloc((size_t)host->guest_room + ADDRESSES_MAX, sizeof *host->polls);
    host->seats = calloc(size, sizeof *host->seats);
    if (host->guests == NULL || host->polls == NULL || host->seats == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to gather %zu ranks", size);
    host->missing = exchange->self.size - 1;
    host->decide_by = exchange->options->deadline;
    plait_status status = tcp_listen(exchange->options, &host->listeners);
    if (status == PLAIT_OK)
        status = probe_lower_ports(host);
    if (status != PLAIT_OK)
        return status;
    exchange_draw(exchange);
    exchange->cards[0] = *exchange->mine;
    memcpy(exchange->outcome.nonces[0], exchange->self.nonce, NONCE_BYTES);
    return PLAIT_OK;
}

static void close_host(struct host *host)
{
    tcp_unlisten(&host->listeners);
    while (host->guest_count > 0)
        guest_drop(host, host->guests[host->guest_count - 1]);
    free(host->guests);
    free(host->polls);
    free(host->seats);
}

plait_status tcp_host(struct exchange *exchange)
{
    struct host host = { .exchange = exchange };
    plait_status status = open_host(&host);
    if (status != PLAIT_OK)
        goto cleanup;
    status = gather(&host);
    if (status == PLAIT_OK) {
        status = publish(&host);
    } else {
        exchange_failed(exchange, status);
        hear_out(&host);
        publish(&host);
        failure(status, "%s", exchange->outcome.sentence);
    }

cleanup:
    close_host(&host);
    return status;
}
