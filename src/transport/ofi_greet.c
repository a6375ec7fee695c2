/* How lifelines come to be: each rank calls those before it and listens to those after it; the caller
 * greets first. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "transport/ofi_lifelines.h"

static const uint64_t magic = UINT64_C(0x706c616974006f66); /* "plait\0of" */
enum { VERSION = 1, STRANGERS_MOST = 64, PATIENCE_MS = 2000, REDIAL_MS = 50 };

/* Who has called and not said yet who it is. */
struct stranger {
    int fd;
    int64_t since;
    size_t heard;
    struct lifeline_greeting greeting;
};

struct meeting {
    struct lifelines *lifelines;
    const struct lifelines_meeting *with;
    const struct lifeline_greeting *mine;
    struct stranger strangers[STRANGERS_MOST];
    int stranger_count;
    struct pollfd *polls;
    int missing;
};

/* ------------------------------------------------------------------ greetings */

static void prove(const struct meeting *meeting, struct lifeline_greeting *greeting,
                  unsigned char proof[PROOF_BYTES])
{
    job_key_prove(meeting->with->job_key, greeting, offsetof(struct lifeline_greeting, proof), proof);
}

static void write_greeting(const struct meeting *meeting, int rank)
{
    struct lifeline *line = &meeting->lifelines->lines[rank];
    uint64_t token = line->saying.token;
    line->saying = *meeting->mine;
    line->saying.magic = magic;
    line->saying.version = VERSION;
    line->saying.from = meeting->lifelines->rank;
    line->saying.to = rank;
    line->saying.generation = meeting->with->generation;
    line->saying.token = token;
    prove(meeting, &line->saying, line->saying.proof);
}

/* NULL, or what is wrong with it. */
static const char *fault_of(const struct meeting *meeting, const struct lifeline_greeting *greeting)
{
    if (greeting->magic != magic)
        return "it does not speak Plait";
    if (greeting->version != VERSION)
        return "it is another version of Plait";
    if (greeting->generation != meeting->with->generation || greeting->to != meeting->lifelines->rank)
        return "it is of another world";
    if (!job_key_check(meeting->with->job_key, greeting, offsetof(struct lifeline_greeting, proof),
                       greeting->proof))
        return "it does not have the job key";
    if (greeting->from < 0 || greeting->from >= meeting->lifelines->size ||
        greeting->from == meeting->lifelines->rank)
        return "its rank is none";
    return NULL;
}

/* ------------------------------------------------------------------ strangers */

static void drop_stranger(struct meeting *meeting, int index, const char *why)
{
    if (why != NULL)
        log_warn("rank %d turned a connection away: %s", meeting->lifelines->rank, why);
    if (meeting->strangers[index].fd >= 0)
        close(meeting->strangers[index].fd);
    meeting->strangers[index] = meeting->strangers[--meeting->stranger_count];
}

static int oldest_stranger(const struct meeting *meeting)
{
    int oldest = 0;
    for (int i = 1; i < meeting->stranger_count; i++)
        if (meeting->strangers[i].since < meeting->strangers[oldest].since)
            oldest = i;
    return oldest;
}

static void let_in(struct meeting *meeting)
{
    for (;;) {
        int fd = accept4(meeting->lifelines->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (meeting->stranger_count == STRANGERS_MOST)
            drop_stranger(meeting, oldest_stranger(meeting), "it was silent and its place was needed");
        meeting->strangers[meeting->stranger_count++] = (struct stranger){ .fd = fd, .since = clock_ns() };
    }
}

/* Says what is left of this rank's greeting. False when the connection is of no use any more. */
static bool say_greeting(struct meeting *meeting, int rank)
{
    struct lifeline *line = &meeting->lifelines->lines[rank];
    while (line->said < sizeof line->saying) {
        ssize_t put = send(line->fd, (const char *)&line->saying + line->said,
                           sizeof line->saying - line->said, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        line->said += (size_t)put;
    }
    return true;
}

static void settle_line(struct meeting *meeting, int rank)
{
    struct lifeline *line = &meeting->lifelines->lines[rank];
    if (line->up || line->said < sizeof line->saying || line->heard < sizeof line->greeting)
        return;
    line->up = true;
    meeting->missing--;
}

/* A stranger that has said all: it becomes the line of its rank and is answered. */
static void admit(struct meeting *meeting, int index)
{
    struct stranger *stranger = &meeting->strangers[index];
    const char *fault = fault_of(meeting, &stranger->greeting);
    int rank = stranger->greeting.from;
    if (fault == NULL && (meeting->lifelines->lines[rank].fd >= 0 || rank < meeting->lifelines->rank))
        fault = "its rank is here already";
    if (fault != NULL) {
        drop_stranger(meeting, index, fault);
        return;
    }
    struct lifeline *line = &meeting->lifelines->lines[rank];
    line->fd = stranger->fd;
    line->greeting = stranger->greeting;
    line->heard = sizeof line->greeting;
    lifeline_keep_alive(line->fd);
    stranger->fd = -1;
    drop_stranger(meeting, index, NULL);
    write_greeting(meeting, rank);
    say_greeting(meeting, rank);
    settle_line(meeting, rank);
}

static void hear_stranger(struct meeting *meeting, int index)
{
    struct stranger *stranger = &meeting->strangers[index];
    size_t left = sizeof stranger->greeting - stranger->heard;
    ssize_t got = recv(stranger->fd, (char *)&stranger->greeting + stranger->heard, left, 0);
    if (got > 0)
        stranger->heard += (size_t)got;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        drop_stranger(meeting, index, "it went without a word");
    else if (stranger->heard == sizeof stranger->greeting)
        admit(meeting, index);
    else if (clock_ns() - stranger->since > PATIENCE_MS * INT64_C(1000000))
        drop_stranger(meeting, index, "it did not say who it is");
}

/* -------------------------------------------------------------------- calling */

static struct interface_address address_of(const struct lifeline_place *place)
{
    struct interface_address address = { .size = sizeof(struct sockaddr_in) };
    address.socket.any.sa_family = place->family;
    if (place->family == AF_INET) {
        address.socket.v4.sin_port = place->port;
        memcpy(&address.socket.v4.sin_addr, place->address, sizeof address.socket.v4.sin_addr);
    } else {
        address.size = sizeof(struct sockaddr_in6);
        address.socket.v6.sin6_port = place->port;
        memcpy(&address.socket.v6.sin6_addr, place->address, sizeof address.socket.v6.sin6_addr);
    }
    inet_ntop(place->family, place->address, address.text, sizeof address.text);
    return address;
}

static plait_status no_way(const struct meeting *meeting, int rank, const char *why)
{
    const struct lifeline_place *place = &meeting->lifelines->lines[rank].place;
    struct interface_address there = address_of(place);
    return failure(PLAIT_START_FAILED,
                   "rank %d at %s can't reach rank %d at %s port %d: %s; PLAIT_INTERFACE says which network "
                   "to use",
                   meeting->lifelines->rank, meeting->lifelines->own.text, rank, there.text,
                   ntohs(place->port), why);
}

static plait_status call(struct meeting *meeting, int rank)
{
    struct lifelines *lifelines = meeting->lifelines;
    struct lifeline *line = &lifelines->lines[rank];
    struct interface_address there = address_of(&line->place), here = lifelines->own;
    line->said = line->heard = 0;
    write_greeting(meeting, rank);
    line->fd = socket(line->place.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (line->fd < 0)
        return failure_errno(status_of_errno(errno), errno, "no socket for the connection to rank %d", rank);
    lifeline_keep_alive(line->fd);
    if (here.socket.any.sa_family == line->place.family)
        bind(line->fd, &here.socket.any, here.size);
    if (connect(line->fd, &there.socket.any, there.size) == 0 || errno == EINPROGRESS)
        return PLAIT_OK;
    return no_way(meeting, rank, strerror(errno));
}

/* A called line has something to say or to hear. */
static plait_status advance_line(struct meeting *meeting, int rank)
{
    struct lifeline *line = &meeting->lifelines->lines[rank];
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0)
        return no_way(meeting, rank, strerror(error));
    if (!say_greeting(meeting, rank))
        return no_way(meeting, rank, "it hung up");
    while (line->heard < sizeof line->greeting) {
        ssize_t got =
            recv(line->fd, (char *)&line->greeting + line->heard, sizeof line->greeting - line->heard, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN))
            return PLAIT_OK;
        if (got <= 0)
            return no_way(meeting, rank, "it hung up, having ended or turned this rank away");
        line->heard += (size_t)got;
    }
    const char *fault = fault_of(meeting, &line->greeting);
    if (fault == NULL && line->greeting.from != rank)
        fault = "another rank listens there";
    if (fault != NULL)
        return no_way(meeting, rank, fault);
    settle_line(meeting, rank);
    return PLAIT_OK;
}

/* -------------------------------------------------------------------- meeting */

static plait_status who_is_missing(const struct meeting *meeting)
{
    const struct lifelines_meeting *with = meeting->with;
    for (int i = 0; i < with->count; i++) {
        int rank = with->peers[i].rank;
        if (rank == meeting->lifelines->rank || meeting->lifelines->lines[rank].up)
            continue;
        if (rank < meeting->lifelines->rank)
            return no_way(meeting, rank, "no answer in time; a firewall may drop what is sent there");
        return failure(PLAIT_START_FAILED,
                       "rank %d (pid %lld) did not call rank %d at %s in time; %d ranks are missing. It has "
                       "ended, or can't reach this address: PLAIT_INTERFACE says which network to use",
                       rank, (long long)with->peers[i].pid, meeting->lifelines->rank,
                       meeting->lifelines->own.text, meeting->missing);
    }
    return failure(PLAIT_INTERNAL, "nobody is missing");
}

/* One round of poll() over the listener, strangers and lines. */
static plait_status serve(struct meeting *meeting)
{
    struct lifelines *lifelines = meeting->lifelines;
    const struct lifelines_meeting *with = meeting->with;
    int used = 0, strangers = meeting->stranger_count;
    meeting->polls[used++] = (struct pollfd){ .fd = lifelines->listener, .events = POLLIN };
    for (int i = 0; i < strangers; i++)
        meeting->polls[used++] = (struct pollfd){ .fd = meeting->strangers[i].fd, .events = POLLIN };
    for (int i = 0; i < with->count; i++) {
        const struct lifeline *line = &lifelines->lines[with->peers[i].rank];
        bool asks = line->fd >= 0 && !line->up;
        bool says = asks && line->said < sizeof line->saying;
        meeting->polls[used++] =
            (struct pollfd){ .fd = asks ? line->fd : -1, .events = (short)(POLLIN | (says ? POLLOUT : 0)) };
    }
    int64_t left = deadline_left_ms(with->deadline);
    if (poll(meeting->polls, (nfds_t)used, (int)(left < REDIAL_MS ? left : REDIAL_MS)) < 0 && errno != EINTR)
        return failure_errno(status_of_errno(errno), errno, "can't wait for %d peers", with->count);

    plait_status status = PLAIT_OK;
    for (int i = 0; i < with->count && status == PLAIT_OK; i++)
        if (meeting->polls[1 + strangers + i].revents != 0)
            status = advance_line(meeting, with->peers[i].rank);
    for (int i = strangers - 1; i >= 0; i--)
        if (meeting->polls[1 + i].revents != 0)
            hear_stranger(meeting, i);
    if (meeting->polls[0].revents != 0)
        let_in(meeting);
    return status;
}

static plait_status begin(struct meeting *meeting)
{
    struct lifelines *lifelines = meeting->lifelines;
    const struct lifelines_meeting *with = meeting->with;
    meeting->polls = calloc((size_t)with->count + STRANGERS_MOST + 1, sizeof *meeting->polls);
    if (meeting->polls == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to meet %d peers", with->count);
    plait_status status = PLAIT_OK;
    for (int i = 0; i < with->count && status == PLAIT_OK; i++) {
        int rank = with->peers[i].rank;
        if (rank == lifelines->rank)
            continue;
        lifelines->lines[rank].place = with->places[i];
        meeting->missing++;
        if (rank < lifelines->rank)
            status = call(meeting, rank);
    }
    return status;
}

plait_status lifelines_meet(struct lifelines *lifelines, const struct lifelines_meeting *with,
                            const struct lifeline_greeting *mine)
{
    struct meeting meeting = { .lifelines = lifelines, .with = with, .mine = mine };
    plait_status status = begin(&meeting);
    while (status == PLAIT_OK && meeting.missing > 0) {
        status = serve(&meeting);
        if (status == PLAIT_OK && meeting.missing > 0 && deadline_passed(with->deadline))
            status = who_is_missing(&meeting);
    }
    while (meeting.stranger_count > 0)
        drop_stranger(&meeting, 0, NULL);
    free(meeting.polls);
    close(lifelines->listener);
    lifelines->listener = -1;
    return status;
}
