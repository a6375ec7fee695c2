/* Rank 0: takes the others in, and tells all of them how it ended.
 *
 * One loop over poll(). A guest is a connection. It has to say a HELLO, prove the
 * job key and hand over its card within HANDSHAKE_MS, or it is turned away with one log line; so is
 * whoever speaks something else. Guests that have proved nothing are few: when there are
 * UNPROVEN_MAX, or no descriptors are left, the oldest makes room for the next. */
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/tcp.h"

enum {
    HANDSHAKE_MS = 2000,
    UNPROVEN_MAX = 128,
    LOG_LINES_MAX = 200,     /* for guests turned away; a flood need not fill the disk */
    PROBE_PATIENCE_MS = 100,
    PROBES_MS = 300,         /* for all probes together */
    FULL_PAUSE_MS = 10,      /* without a descriptor: look again after */
    FULL_LIMIT_MS = 500,     /* ... and give up after */
    LINGER_MS = 100,         /* for handshakes under way when the world fails */
    TELL_MS = 500            /* at least this long for the outcome, even past the deadline */
};

enum guest_state {
    GUEST_HELLO,  /* has to say who it is */
    GUEST_CARD,   /* has to prove the key and hand over its card */
    GUEST_SEATED, /* holds a rank and waits for the outcome */
    GUEST_TOLD    /* has the outcome */
};

struct guest {
    int fd;
    enum guest_state state;
    int64_t since; /* clock_ns() */
    char name[ENDPOINT_TEXT_BYTES];
    struct claim claim; /* believed once it is seated */
    unsigned char nonce[NONCE_BYTES]; /* ours, for it */
    unsigned char hello[HELLO_BYTES];
    unsigned char in[CARD_FRAME_BYTES];
    size_t got; /* bytes in `in` */
    size_t told; /* bytes of the outcome that went out */
};

struct host {
    struct exchange *exchange;
    struct listeners listeners;
    struct guest **guests;
    struct pollfd *polls; /* listeners, then guests */
    int guest_count, guest_room, unproven;
    struct guest **seats; /* by rank; NULL: missing */
    int missing;
    int64_t decide_by;
    int64_t full_since, full_until; /* no descriptors; 0: there are */
    int turned_away;
    char last_away[REASON_BYTES + 8];
};

/* --------------------------------------------------------------- goodbyes */

/* Forgets and frees a guest. The last one takes its place in the list. */
static void drop(struct host *host, struct guest *guest)
{
    for (int i = 0; i < host->guest_count; i++)
        if (host->guests[i] == guest)
            host->guests[i] = host->guests[--host->guest_count];
    if (guest->state < GUEST_SEATED) {
        host->unproven--;
    } else if (host->seats[guest->claim.rank] == guest) {
        host->seats[guest->claim.rank] = NULL;
        host->missing++;
    }
    close(guest->fd);
    free(guest);
}

static void turn_away(struct host *host, struct guest *guest, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void turn_away(struct host *host, struct guest *guest, const char *format, ...)
{
    char why[REASON_BYTES - ENDPOINT_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (host->turned_away++ < LOG_LINES_MAX)
        log_warn("rank 0 turned %s away: %s", guest->name, why);
    else if (host->turned_away == LOG_LINES_MAX + 1)
        log_warn("rank 0 turns more away and says so no longer");
    snprintf(host->last_away, sizeof host->last_away, "%s: %s", guest->name, why);
    drop(host, guest);
}

/* Tells one guest that has proved itself why it can't take part, with this thread's sentence. */
static void refuse(struct host *host, struct guest *guest)
{
    enum { ROOM = 1024 };
    unsigned char frame[ROOM];
    struct outcome outcome = { .status = PLAIT_START_FAILED, .size = 0 };
    snprintf(outcome.sentence, sizeof outcome.sentence, "%.*s", SENTENCE_BYTES - 1, failure_text());
    struct place place = tcp_place(guest->hello, guest->nonce);
    size_t size = wire_outcome_size(outcome.status, 0);
    wire_put_outcome(frame, &outcome);
    wire_seal(frame, size, host->exchange->base, &place);
    /* A fresh connection's buffer takes it; if not, the guest hears nothing, which is no worse. */
    if (send(guest->fd, frame, size, MSG_NOSIGNAL) < 0)
        log_debug("rank 0 could not tell %s why: %s", guest->name, strerror(errno));
    shutdown(guest->fd, SHUT_WR);
}

/* -------------------------------------------------------------- handshakes */

static plait_status claimed_twice(struct host *host, const struct claim *first, const struct claim *second)
{
    char one[CLAIM_TEXT_BYTES], two[CLAIM_TEXT_BYTES];
    return failure(PLAIT_START_FAILED, "two processes claim rank %d of %d: %s and %s; give each its own number",
                   first->rank, host->exchange->self.size, claim_process(first, one), claim_process(second, two));
}

static bool hung_up(const struct guest *guest)
{
    char byte;
    ssize_t got = recv(guest->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static void gone(struct host *host, struct guest *guest)
{
    char text[CLAIM_TEXT_BYTES];
    log_warn("%s at %s went away before the world was complete; its number is free again",
             claim_text(&guest->claim, text), guest->name);
    drop(host, guest);
}

/* Gives a guest that has proved itself its seat. Anything but PLAIT_OK is the end of the world. */
static plait_status seat(struct host *host, struct guest *guest, const struct card *card)
{
    struct exchange *exchange = host->exchange;
    const struct claim *self = &exchange->self;
    char one[CLAIM_TEXT_BYTES], two[CLAIM_TEXT_BYTES];
    int rank = guest->claim.rank;
    if (guest->claim.size != self->size) {
        failure(PLAIT_START_FAILED, "%s was started for a world of %d ranks, %s for one of %d",
                claim_text(&guest->claim, one), guest->claim.size, claim_text(self, two), self->size);
        refuse(host, guest);
        turn_away(host, guest, "%s", failure_text());
        return PLAIT_OK;
    }
    struct guest *first = rank > 0 ? host->seats[rank] : NULL;
    if (first != NULL && hung_up(first)) {
        gone(host, first);
        first = NULL;
    }
    if (rank == 0 || first != NULL) {
        plait_status status = claimed_twice(host, rank == 0 ? self : &first->claim, &guest->claim);
        refuse(host, guest);
        turn_away(host, guest, "%s", failure_text());
        return status;
    }
    guest->state = GUEST_SEATED;
    host->unproven--;
    host->seats[rank] = guest;
    host->missing--;
    exchange->cards[rank] = *card;
    memcpy(exchange->outcome.nonces[rank], guest->claim.nonce, NONCE_BYTES);
    int64_t decide_by = claim_decide_by(&guest->claim);
    host->decide_by = decide_by < host->decide_by ? decide_by : host->decide_by;
    return PLAIT_OK;
}

static void answer_hello(struct host *host, struct guest *guest)
{
    if (!wire_get_hello(guest->in, HELLO_BYTES, &guest->claim)) {
        turn_away(host, guest, "its hello makes no sense: rank or size out of range");
        return;
    }
    memcpy(guest->hello, guest->in, HELLO_BYTES);
    struct claim claim = exchange_claim(host->exchange);
    randombytes_buf(guest->nonce, NONCE_BYTES);
    memcpy(claim.nonce, guest->nonce, NONCE_BYTES);

    unsigned char frame[CHALLENGE_BYTES];
    struct place place = tcp_place(guest->hello, NULL);
    size_t size = wire_put_challenge(frame, &claim);
    wire_seal(frame, size, host->exchange->base, &place);
    if (send(guest->fd, frame, size, MSG_NOSIGNAL) != (ssize_t)size) {
        turn_away(host, guest, "it did not take the challenge");
        return;
    }
    guest->state = GUEST_CARD;
    guest->got = 0;
}

static plait_status take_card(struct host *host, struct guest *guest)
{
    struct claim claim;
    struct card card;
    struct place place = tcp_place(guest->hello, guest->nonce);
    if (!wire_sealed(guest->in, CARD_FRAME_BYTES, host->exchange->base, &place)) {
        turn_away(host, guest, "it failed the proof of the job key");
        return PLAIT_OK;
    }
    if (!wire_get_card(guest->in, CARD_FRAME_BYTES, &claim, &card) || claim.rank != guest->claim.rank
        || claim.size != guest->claim.size) {
        turn_away(host, guest, "its card is not the one of its hello");
        return PLAIT_OK;
    }
    guest->claim = claim;
    return seat(host, guest, &card);
}

static void take_farewell(struct host *host, struct guest *guest)
{
    enum farewell reason;
    char text[CLAIM_TEXT_BYTES];
    if (!wire_get_farewell(guest->in, FAREWELL_BYTES, &reason))
        turn_away(host, guest, "it hung up in the handshake");
    else
        turn_away(host, guest, "%s has another %s", claim_text(&guest->claim, text),
                  reason == FAREWELL_KEY ? "job key" : "wire version");
}

/* What the bytes so far amount to: the size of the frame that is due, or 0 once the guest was turned away. */
static size_t expect(struct host *host, struct guest *guest)
{
    struct header header = { 0 };
    char text[REASON_BYTES];
    enum header_check check = wire_header(guest->in, guest->got, &header);
    if (check == HEADER_FOREIGN) {
        turn_away(host, guest, "it does not speak Plait; it said %.90s", stranger_text(guest->in, guest->got, text));
        return 0;
    }
    if (check == HEADER_SHORT)
        return HEADER_BYTES;
    if (header.version != WIRE_VERSION) {
        unsigned char farewell[FAREWELL_BYTES];
        if (send(guest->fd, farewell, wire_put_farewell(farewell, FAREWELL_VERSION), MSG_NOSIGNAL) < 0)
            log_debug("rank 0 could not tell %s its wire version", guest->name);
        turn_away(host, guest, "it speaks wire version %d, rank 0 speaks %d", header.version, WIRE_VERSION);
        return 0;
    }
    if (guest->state == GUEST_HELLO && header.kind == WIRE_HELLO && header.size == HELLO_BYTES - HEADER_BYTES)
        return HELLO_BYTES;
    if (guest->state == GUEST_CARD && header.kind == WIRE_CARD && header.size == CARD_FRAME_BYTES - HEADER_BYTES)
        return CARD_FRAME_BYTES;
    if (guest->state == GUEST_CARD && header.kind == WIRE_FAREWELL && header.size == FAREWELL_BYTES - HEADER_BYTES)
        return FAREWELL_BYTES;
    turn_away(host, guest, "its frame of kind %d and %u bytes has no place in the handshake", header.kind,
              (unsigned)header.size);
    return 0;
}

/* A frame is whole. */
static plait_status take_frame(struct host *host, struct guest *guest, size_t size)
{
    if (size == HELLO_BYTES)
        answer_hello(host, guest);
    else if (size == FAREWELL_BYTES)
        take_farewell(host, guest);
    else
        return take_card(host, guest);
    return PLAIT_OK;
}

_Static_assert((int)HELLO_BYTES != (int)FAREWELL_BYTES && (int)HELLO_BYTES != (int)CARD_FRAME_BYTES,
               "take_frame() tells them apart by their size");

/* Something came from a guest: reads up to the end of one frame. */
static plait_status hear(struct host *host, struct guest *guest)
{
    if (guest->state == GUEST_SEATED) {
        if (hung_up(guest))
            gone(host, guest);
        else
            turn_away(host, guest, "it went on talking after its card");
        return PLAIT_OK;
    }
    /* At least the header, then the rest: so no byte of a next frame is taken. */
    size_t due = guest->got < HEADER_BYTES ? HEADER_BYTES : expect(host, guest);
    if (due == 0)
        return PLAIT_OK;
    ssize_t got = recv(guest->fd, guest->in + guest->got, due - guest->got, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return PLAIT_OK;
    if (got <= 0) {
        turn_away(host, guest, guest->state == GUEST_HELLO && guest->got == 0 ? "it connected and hung up without a word"
                                                                             : "it hung up in the handshake");
        return PLAIT_OK;
    }
    guest->got += (size_t)got;
    due = expect(host, guest);
    if (due == 0 || guest->got < due || due == HEADER_BYTES)
        return PLAIT_OK;
    return take_frame(host, guest, due);
}

/* ------------------------------------------------------------------ guests */

static struct guest *oldest_unproven(struct host *host)
{
    struct guest *oldest = NULL;
    for (int i = 0; i < host->guest_count; i++)
        if (host->guests[i]->state < GUEST_SEATED && (oldest == NULL || host->guests[i]->since < oldest->since))
            oldest = host->guests[i];
    return oldest;
}

/* No descriptor for the next guest. A silent one has to go; without any, wait a moment, then give up. */
static plait_status make_room(struct host *host, int error)
{
    struct guest *oldest = oldest_unproven(host);
    if (oldest != NULL && clock_ns() - oldest->since > FULL_PAUSE_MS * 1000000) {
        turn_away(host, oldest, "it was silent and its descriptor was needed");
        host->full_since = 0;
        return PLAIT_OK;
    }
    if (host->full_since == 0)
        host->full_since = clock_ns();
    host->full_until = deadline_after_ms(FULL_PAUSE_MS);
    if (clock_ns() - host->full_since < FULL_LIMIT_MS * (int64_t)1000000)
        return PLAIT_OK;
    return failure_errno(PLAIT_OUT_OF_RESOURCES, error, "rank 0 needs a descriptor for each of %d ranks while the world "
                         "starts and got %d; raise `ulimit -n`", host->exchange->self.size, host->guest_count);
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
        turn_away(host, oldest_unproven(host), "it was silent and its place was needed");

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
            turn_away(host, host->guests[i], "it did not finish the handshake within %d ms", HANDSHAKE_MS);
}

/* ------------------------------------------------------------------- loops */

static plait_status ranks_missing(struct host *host)
{
    const struct claim *self = &host->exchange->self;
    char who[SENTENCE_BYTES / 4], away[REASON_BYTES + 64] = "";
    bool *there = calloc((size_t)self->size, sizeof *there);
    if (there == NULL)
        return failure(PLAIT_START_FAILED, "%d of %d ranks did not come", host->missing, self->size);
    for (int rank = 0; rank < self->size; rank++)
        there[rank] = rank == 0 || host->seats[rank] != NULL;
    missing_text(there, self->size, who, sizeof who);
    free(there);
    if (host->turned_away > 0)
        snprintf(away, sizeof away, "; %d connection%s turned away, the last was %s", host->turned_away,
                 host->turned_away == 1 ? " was" : "s were", host->last_away);
    return failure(PLAIT_START_FAILED, "%s of %d did not come within %.1f s; rank 0 listened on %s%s", who, self->size,
                   exchange_seconds(host->exchange), host->listeners.text, away);
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
        if (guest != NULL && host->polls[listeners + i].fd == guest->fd && host->polls[listeners + i].revents != 0)
            status = hear(host, guest);
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
            log_warn("rank 0 could not give %s at %s the outcome: %s", claim_text(&guest->claim, text), guest->name,
                     strerror(errno));
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
            if (tcp_attempt(host->exchange, &list[i], PROBE_PATIENCE_MS, reason, &status) == ATTEMPT_OVER
                && status != PLAIT_OK)
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
        drop(host, host->guests[host->guest_count - 1]);
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
