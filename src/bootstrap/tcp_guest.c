/* A connection to rank 0, from its first byte to its seat or to the door. */
#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/tcp_host.h"

enum { LOG_LINES_MAX = 200 }; /* for guests turned away; a flood need not fill the disk */

/* --------------------------------------------------------------- goodbyes */

void guest_drop(struct host *host, struct guest *guest)
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

void guest_turn_away(struct host *host, struct guest *guest, const char *format, ...)
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
    guest_drop(host, guest);
}

/* Tells one guest that has proved itself why it can't take part, with this thread's sentence. */
static void refuse(struct host *host, struct guest *guest)
{
    enum { ROOM = 1024 };
    unsigned char frame[ROOM];
    struct outcome outcome = { .status = PLAIT_START_FAILED, .size = 0 };
    snprintf(outcome.sentence, sizeof outcome.sentence, "%.*s", OUTCOME_TEXT_BYTES - 1, failure_text());
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
    return failure(PLAIT_START_FAILED,
                   "two processes claim rank %d of %d: %s and %s; give each its own number", first->rank,
                   host->exchange->self.size, claim_process(first, one), claim_process(second, two));
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
    guest_drop(host, guest);
}

/* Gives a guest that has proved itself its seat. Anything but PLAIT_OK is the end of the world. */
static plait_status seat(struct host *host, struct guest *guest, const struct card *card)
{
    struct exchange *exchange = host->exchange;
    const struct claim *self = &exchange->self;
    char one[CLAIM_TEXT_BYTES], two[CLAIM_TEXT_BYTES];
    int rank = guest->claim.rank;
    if (guest->claim.size != self->size) {
        failure(PLAIT_START_FAILED,
                "%s was started for a world of %d ranks, %s for one of %d; give all of "
                "them the same size (WORLD_SIZE)",
                claim_text(&guest->claim, one), guest->claim.size, claim_text(self, two), self->size);
        refuse(host, guest);
        guest_turn_away(host, guest, "%s", failure_text());
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
        guest_turn_away(host, guest, "%s", failure_text());
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
        guest_turn_away(host, guest, "its hello makes no sense: rank or size out of range");
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
        guest_turn_away(host, guest, "it did not take the challenge");
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
        guest_turn_away(host, guest, "it failed the proof of the job key");
        return PLAIT_OK;
    }
    if (!wire_get_card(guest->in, CARD_FRAME_BYTES, &claim, &card) || claim.rank != guest->claim.rank ||
        claim.size != guest->claim.size) {
        guest_turn_away(host, guest, "its card is not the one of its hello");
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
        guest_turn_away(host, guest, "it hung up in the handshake");
    else
        guest_turn_away(host, guest, "%s has another %s", claim_text(&guest->claim, text),
                        reason == FAREWELL_KEY ? "job key" : "wire version");
}

/* What the bytes so far amount to: the size of the frame that is due, or 0 once the guest was turned away. */
static size_t expect(struct host *host, struct guest *guest)
{
    struct header header = { 0 };
    char text[REASON_BYTES];
    enum header_check check = wire_header(guest->in, guest->got, &header);
    if (check == HEADER_FOREIGN) {
        guest_turn_away(host, guest, "it does not speak Plait; it said %.90s",
                        stranger_text(guest->in, guest->got, text));
        return 0;
    }
    if (check == HEADER_SHORT)
        return HEADER_BYTES;
    if (header.version != WIRE_VERSION) {
        unsigned char farewell[FAREWELL_BYTES];
        if (send(guest->fd, farewell, wire_put_farewell(farewell, FAREWELL_VERSION), MSG_NOSIGNAL) < 0)
            log_debug("rank 0 could not tell %s its wire version", guest->name);
        guest_turn_away(host, guest, "it speaks wire version %d, rank 0 speaks %d", header.version,
                        WIRE_VERSION);
        return 0;
    }
    if (guest->state == GUEST_HELLO && header.kind == WIRE_HELLO && header.size == HELLO_BYTES - HEADER_BYTES)
        return HELLO_BYTES;
    if (guest->state == GUEST_CARD && header.kind == WIRE_CARD &&
        header.size == CARD_FRAME_BYTES - HEADER_BYTES)
        return CARD_FRAME_BYTES;
    if (guest->state == GUEST_CARD && header.kind == WIRE_FAREWELL &&
        header.size == FAREWELL_BYTES - HEADER_BYTES)
        return FAREWELL_BYTES;
    guest_turn_away(host, guest, "its frame of kind %d and %u bytes has no place in the handshake",
                    header.kind, (unsigned)header.size);
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

/* Said hello and did not wait for the challenge: a rank does so where this one is too busy, and calls again. That is
 * no reason to warn anybody. */
static void lost_patience(struct host *host, struct guest *guest)
{
    char text[CLAIM_TEXT_BYTES];
    log_debug("%s at %s did not wait for rank 0's answer", claim_text(&guest->claim, text), guest->name);
    guest_drop(host, guest);
}

plait_status guest_hear(struct host *host, struct guest *guest)
{
    if (guest->state == GUEST_SEATED) {
        if (hung_up(guest))
            gone(host, guest);
        else
            guest_turn_away(host, guest, "it went on talking after its card");
        return PLAIT_OK;
    }
    /* At least the header, then the rest: so no byte of a next frame is taken. */
    size_t due = guest->got < HEADER_BYTES ? HEADER_BYTES : expect(host, guest);
    if (due == 0)
        return PLAIT_OK;
    ssize_t got = recv(guest->fd, guest->in + guest->got, due - guest->got, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return PLAIT_OK;
    if (got <= 0 && guest->state == GUEST_CARD) {
        lost_patience(host, guest);
        return PLAIT_OK;
    }
    if (got <= 0) {
        guest_turn_away(host, guest,
                        guest->state == GUEST_HELLO && guest->got == 0
                            ? "it connected and hung up without a word"
                            : "it hung up in the handshake");
        return PLAIT_OK;
    }
    guest->got += (size_t)got;
    due = expect(host, guest);
    if (due == 0 || guest->got < due || due == HEADER_BYTES)
        return PLAIT_OK;
    return take_frame(host, guest, due);
}
