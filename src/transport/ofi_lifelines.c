#include "transport/ofi_lifelines.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"

/* A host that is gone is noticed after about KEEP_IDLE_S + KEEP_PROBES * KEEP_EVERY_S. */
enum { KEEP_IDLE_S = 4, KEEP_EVERY_S = 1, KEEP_PROBES = 5, UNSENT_MS = 10000 };

enum record_kind { RECORD_LEFT = 1, RECORD_TAKEN };

struct record {
    uint64_t kind, count;
};
_Static_assert(sizeof(struct record) == sizeof(((struct lifeline *)NULL)->record), "a record fits");

plait_status lifelines_open(struct lifelines *lifelines, int rank, int size,
                            const struct interface_address *own, struct lifeline_place *place)
{
    *lifelines = (struct lifelines){ .rank = rank, .size = size, .own = *own, .listener = -1 };
    lifelines->lines = calloc((size_t)size, sizeof *lifelines->lines);
    if (lifelines->lines == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the connections of %d ranks", size);
    for (int i = 0; i < size; i++)
        lifelines->lines[i].fd = -1;
    lifelines->listener = socket(own->socket.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct interface_address bound = *own;
    if (lifelines->listener < 0 || bind(lifelines->listener, &own->socket.any, own->size) != 0 ||
        listen(lifelines->listener, 1024) != 0 ||
        getsockname(lifelines->listener, &bound.socket.any, &bound.size) != 0)
        return failure_errno(status_of_errno(errno), errno, "rank %d can't listen on %s", rank, own->text);
    memset(place, 0, sizeof *place);
    place->family = bound.socket.any.sa_family;
    if (place->family == AF_INET) {
        place->port = bound.socket.v4.sin_port;
        memcpy(place->address, &bound.socket.v4.sin_addr, sizeof bound.socket.v4.sin_addr);
    } else {
        place->port = bound.socket.v6.sin6_port;
        memcpy(place->address, &bound.socket.v6.sin6_addr, sizeof bound.socket.v6.sin6_addr);
    }
    return PLAIT_OK;
}

void lifelines_close(struct lifelines *lifelines)
{
    for (int i = 0; lifelines->lines != NULL && i < lifelines->size; i++)
        if (lifelines->lines[i].fd >= 0)
            close(lifelines->lines[i].fd);
    if (lifelines->lines != NULL && lifelines->listener >= 0)
        close(lifelines->listener);
    free(lifelines->lines);
    *lifelines = (struct lifelines){ .listener = -1 };
}

void lifeline_keep_alive(int fd)
{
    static const struct {
        int level, option, value;
    } options[] = { { SOL_SOCKET, SO_KEEPALIVE, 1 },
                    { IPPROTO_TCP, TCP_NODELAY, 1 },
                    { IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S },
                    { IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S },
                    { IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES },
                    { IPPROTO_TCP, TCP_USER_TIMEOUT, UNSENT_MS } };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        setsockopt(fd, options[i].level, options[i].option, &options[i].value, sizeof options[i].value);
}

/* ------------------------------------------------------------------- records */

static void take_record(struct lifeline *line)
{
    struct record record;
    memcpy(&record, line->record, sizeof record);
    line->record_size = 0;
    if (record.kind == RECORD_LEFT) {
        line->left = true;
        line->left_after = record.count;
    } else if (record.kind == RECORD_TAKEN) {
        line->taken = true;
    }
}

void lifeline_look(struct lifelines *lifelines, int rank)
{
    struct lifeline *line = &lifelines->lines[rank];
    while (line->up && !line->ended) {
        ssize_t got = recv(line->fd, line->record + line->record_size,
                           sizeof line->record - line->record_size, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got <= 0) {
            line->ended = true;
            return;
        }
        line->record_size += (size_t)got;
        if (line->record_size == sizeof line->record)
            take_record(line);
    }
}

/* So few bytes that a connection which lives always takes them. */
static void say(struct lifelines *lifelines, int rank, struct record record)
{
    struct lifeline *line = &lifelines->lines[rank];
    if (line->up && !line->ended)
        (void)!send(line->fd, &record, sizeof record, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void lifeline_say_left(struct lifelines *lifelines, int rank, uint64_t sent)
{
    say(lifelines, rank, (struct record){ .kind = RECORD_LEFT, .count = sent });
}

void lifeline_say_taken(struct lifelines *lifelines, int rank)
{
    lifelines->lines[rank].told_taken = true;
    say(lifelines, rank, (struct record){ .kind = RECORD_TAKEN });
}
