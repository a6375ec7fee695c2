/* One attempt to join at one place: connects, proves and asks for proof, hands over the card, hears the outcome. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/tcp.h"

/* 0 when `fd` is ready, ETIMEDOUT at the deadline, or what poll() says. */
static int wait_ready(int fd, short events, int64_t deadline)
{
    for (;;) {
        struct pollfd entry = { .fd = fd, .events = events };
        int64_t left = deadline_left_ms(deadline);
        int ready = poll(&entry, 1, (int)(left < 60000 ? left : 60000));
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return errno;
        if (ready == 0 && deadline_passed(deadline))
            return ETIMEDOUT;
    }
}

enum { END_OF_STREAM = -1 };

/* Each moves all bytes: 0, an errno, or END_OF_STREAM. */
static int write_all(int fd, const unsigned char *bytes, size_t size, int64_t deadline)
{
    while (size > 0) {
        ssize_t put = send(fd, bytes, size, MSG_NOSIGNAL);
        if (put >= 0) {
            bytes += put;
            size -= (size_t)put;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            int code = wait_ready(fd, POLLOUT, deadline);
            if (code != 0)
                return code;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static int read_all(int fd, unsigned char *bytes, size_t size, int64_t deadline)
{
    while (size > 0) {
        ssize_t got = recv(fd, bytes, size, 0);
        if (got > 0) {
            bytes += got;
            size -= (size_t)got;
        } else if (got == 0) {
            return END_OF_STREAM;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            int code = wait_ready(fd, POLLIN, deadline);
            if (code != 0)
                return code;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* A connection to a free port of the range that outgoing ones use can meet itself. */
static bool met_itself(int fd)
{
    struct endpoint here = { .size = sizeof here.address }, there = { .size = sizeof there.address };
    if (getsockname(fd, (struct sockaddr *)&here.address, &here.size) != 0 ||
        getpeername(fd, (struct sockaddr *)&there.address, &there.size) != 0)
        return false;
    char one[ENDPOINT_TEXT_BYTES], two[ENDPOINT_TEXT_BYTES];
    return strcmp(endpoint_text(&here, one), endpoint_text(&there, two)) == 0;
}

/* 0 or an errno. */
static int connect_within(int fd, const struct endpoint *endpoint, int64_t deadline)
{
    if (connect(fd, (const struct sockaddr *)&endpoint->address, endpoint->size) != 0) {
        if (errno != EINPROGRESS && errno != EINTR)
            return errno;
        int code = wait_ready(fd, POLLOUT, deadline);
        if (code != 0)
            return code;
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            return errno;
        if (error != 0)
            return error;
    }
    if (!met_itself(fd))
        return 0;
    /* Reset it: rank 0 may want this port. */
    struct linger reset = { .l_onoff = 1, .l_linger = 0 };
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return ECONNREFUSED;
}

/* A connection under way. */
struct call {
    struct exchange *exchange;
    int fd;
    unsigned char hello[HELLO_BYTES];
    struct claim leader;
    char *reason;
};

static enum attempt_end ended(struct call *call, enum attempt_end end, int code, const char *doing)
{
    /* Who hangs up on bytes that it has not read yet resets the connection. */
    if (code == END_OF_STREAM || code == ECONNRESET || code == EPIPE)
        snprintf(call->reason, REASON_BYTES, "hung up %s", doing);
    else if (code == ETIMEDOUT)
        snprintf(call->reason, REASON_BYTES, "no answer %s", doing);
    else
        snprintf(call->reason, REASON_BYTES, "%s", strerror(code));
    return code == ETIMEDOUT && end != ATTEMPT_LOST ? ATTEMPT_SILENT : end;
}

static enum attempt_end strange(struct call *call, const char *what)
{
    snprintf(call->reason, REASON_BYTES, "%s", what);
    return ATTEMPT_STRANGE;
}

/* Reads rank 0's answer to the HELLO. ATTEMPT_OVER here means: it is rank 0 and has proved it. */
static enum attempt_end read_challenge(struct call *call, int64_t deadline)
{
    unsigned char frame[CHALLENGE_BYTES];
    struct header header;
    int code = read_all(call->fd, frame, HEADER_BYTES, deadline);
    if (code != 0)
        return ended(call, ATTEMPT_STRANGE, code, "in the handshake");
    if (wire_header(frame, HEADER_BYTES, &header) != HEADER_GOOD)
        return strange(call, "answers, but not as Plait does");
    if (header.version != WIRE_VERSION) {
        snprintf(call->reason, REASON_BYTES, "speaks wire version %d, this rank speaks %d", header.version,
                 WIRE_VERSION);
        return ATTEMPT_STRANGE;
    }
    if (header.kind != WIRE_CHALLENGE || header.size != CHALLENGE_BYTES - HEADER_BYTES)
        return strange(call, header.kind == WIRE_FAREWELL ? "does not take this rank's wire version"
                                                          : "answers, but not as rank 0 does");
    code = read_all(call->fd, frame + HEADER_BYTES, sizeof frame - HEADER_BYTES, deadline);
    if (code != 0)
        return ended(call, ATTEMPT_STRANGE, code, "in the handshake");

    struct place place = tcp_place(call->hello, NULL);
    if (!wire_sealed(frame, sizeof frame, call->exchange->base, &place)) {
        unsigned char farewell[FAREWELL_BYTES];
        size_t size = wire_put_farewell(farewell, FAREWELL_KEY);
        write_all(call->fd, farewell, size, deadline);
        return strange(call, "has another job key");
    }
    if (!wire_get_challenge(frame, sizeof frame, &call->leader) || call->leader.rank != 0)
        return strange(call, "answers, but not as rank 0 does");
    return ATTEMPT_OVER;
}

/* Checks and takes the outcome in `frame`. */
static enum attempt_end take_outcome(struct call *call, const unsigned char *frame, size_t size,
                                     plait_status *status)
{
    struct outcome *outcome = &call->exchange->outcome;
    struct place place = tcp_place(call->hello, call->leader.nonce);
    if (!wire_sealed(frame, size, call->exchange->base, &place) || !wire_get_outcome(frame, size, outcome))
        return strange(call, "answered the card with something else than the outcome");
    *status = outcome->status;
    if (*status != PLAIT_OK)
        failure(*status, "%s", outcome->sentence);
    return ATTEMPT_OVER;
}

/* Waits for the outcome. */
static enum attempt_end read_outcome(struct call *call, plait_status *status)
{
    int64_t deadline = exchange_last_word_by(call->exchange);
    size_t most = wire_outcome_size(PLAIT_OK, call->exchange->options->size);
    size_t refusal = wire_outcome_size(PLAIT_START_FAILED, call->leader.size);
    unsigned char head[HEADER_BYTES], *frame = NULL;
    struct header header;
    int code = read_all(call->fd, head, sizeof head, deadline);
    if (code == ETIMEDOUT) {
        char leader[CLAIM_TEXT_BYTES];
        snprintf(call->reason, REASON_BYTES, "%s took this rank in and has not said who is missing",
                 claim_text(&call->leader, leader));
        return ATTEMPT_LOST;
    }
    if (code != 0)
        return ended(call, ATTEMPT_LOST, code, "after it had taken this rank in");
    most = most > refusal ? most : refusal;
    if (wire_header(head, sizeof head, &header) != HEADER_GOOD || header.version != WIRE_VERSION ||
        header.kind != WIRE_OUTCOME || header.size > most - HEADER_BYTES)
        return strange(call, "answered the card with something else than the outcome");

    size_t size = HEADER_BYTES + (size_t)header.size;
    frame = malloc(size);
    if (frame == NULL) {
        *status = failure(PLAIT_OUT_OF_MEMORY, "no memory for the cards of %d ranks",
                          call->exchange->options->size);
        return ATTEMPT_OVER;
    }
    memcpy(frame, head, sizeof head);
    /* What has begun to come in time may end a little late. */
    int64_t end = deadline_after_ms(1000);
    code = read_all(call->fd, frame + sizeof head, size - sizeof head, end > deadline ? end : deadline);
    enum attempt_end result = code == 0 ? take_outcome(call, frame, size, status)
                                        : ended(call, ATTEMPT_LOST, code, "in the middle of the outcome");
    free(frame);
    return result;
}

static enum attempt_end talk(struct call *call, const struct endpoint *endpoint, int64_t until,
                             plait_status *status)
{
    struct claim claim = exchange_claim(call->exchange);
    int code = connect_within(call->fd, endpoint, until);
    if (code != 0)
        return ended(call, ATTEMPT_REFUSED, code, "while connecting");
    wire_put_hello(call->hello, &claim);
    code = write_all(call->fd, call->hello, HELLO_BYTES, until);
    if (code != 0)
        return ended(call, ATTEMPT_STRANGE, code, "in the handshake");
    enum attempt_end end = read_challenge(call, until);
    if (end != ATTEMPT_OVER)
        return end;

    unsigned char frame[CARD_FRAME_BYTES];
    struct place place = tcp_place(call->hello, call->leader.nonce);
    size_t size = wire_put_card(frame, &claim, call->exchange->mine);
    wire_seal(frame, size, call->exchange->base, &place);
    code = write_all(call->fd, frame, size, call->exchange->options->deadline);
    return code != 0 ? ended(call, ATTEMPT_LOST, code, "in the handshake") : read_outcome(call, status);
}

enum attempt_end tcp_attempt(struct exchange *exchange, const struct endpoint *endpoint, int64_t patience_ms,
                             char reason[REASON_BYTES], plait_status *status)
{
    struct call call = { .exchange = exchange, .reason = reason };
    call.fd = tcp_socket(endpoint->address.ss_family);
    if (call.fd < 0 && (errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT))
        return ended(&call, ATTEMPT_REFUSED, errno, "while connecting");
    if (call.fd < 0) {
        *status =
            failure_errno(status_of_errno(errno), errno, "rank %d of %d can't open a socket to find rank 0",
                          exchange->self.rank, exchange->self.size);
        return ATTEMPT_OVER;
    }
    int64_t until = deadline_after_ms(patience_ms), deadline = exchange->options->deadline;
    enum attempt_end end = talk(&call, endpoint, until < deadline ? until : deadline, status);
    close(call.fd);
    return end;
}
