/* The guest's side of joining: one connection to the hub. */
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/join.h"

/* The hub has the same deadline and knows who is missing: leave it time to say so. */
static const int64_t grace_ns = 500000000;

struct visit {
    const struct join *join;
    int hub; /* connection */
    int64_t deadline;
};

static int hub_rank(const struct visit *visit)
{
    return visit->join->peers[0]->rank;
}

static long long hub_pid(const struct visit *visit)
{
    return visit->join->peers[0]->pid;
}

static plait_status call_hub(struct visit *visit)
{
    for (;;) {
        int error = join_dial(visit->join->hub_name, &visit->hub);
        if (error == 0)
            return PLAIT_OK;
        if (error == EMFILE || error == ENFILE)
            return join_out_of_fds(visit->join, "its call");
        if (error == ECONNREFUSED || error == ENOENT)
            return failure(
                PLAIT_START_FAILED,
                "rank %d (pid %lld), where the ranks of this host meet, does not listen: its process has "
                "ended, or is in another network namespace than rank %d",
                hub_rank(visit), hub_pid(visit), visit->join->peers[visit->join->own]->rank);
        if (error != EAGAIN && error != EINTR)
            return failure_errno(status_of_errno(error), error,
                                 "can't connect to rank %d (pid %lld) on this host", hub_rank(visit),
                                 hub_pid(visit));
        if (deadline_passed(visit->join->deadline))
            return failure(PLAIT_START_FAILED,
                           "rank %d (pid %lld), where the ranks of this host meet, takes no call",
                           hub_rank(visit), hub_pid(visit));
        poll(NULL, 0, 2); /* its queue of callers is full */
    }
}

/* The hub's next packet, which has to be of that kind. */
static plait_status hear_hub(struct visit *visit, enum join_kind kind, union join_packet *packet, int *fds,
                             int fd_most, int *fd_count)
{
    size_t size;
    int error;
    bool reset = false; /* a hub that closes before it has read all is heard of before its last words are */
    while ((error = join_hear(visit->hub, packet, &size, fds, fd_most, fd_count)) == EAGAIN ||
           (error == ECONNRESET && !reset)) {
        if (error == ECONNRESET) {
            reset = true;
            continue;
        }
        if (deadline_passed(visit->deadline))
            return failure(
                PLAIT_START_FAILED,
                "rank %d (pid %lld), where the ranks of this host meet, did not answer in time: it is "
                "stopped, busy, or waits for others",
                hub_rank(visit), hub_pid(visit));
        join_wait(visit->hub, visit->deadline);
    }
    if (error == EMFILE)
        return join_out_of_fds(visit->join, "its peers' segments");
    if (error == EPIPE || error == ECONNRESET)
        return failure(PLAIT_START_FAILED, "rank %d (pid %lld) hung up while the ranks of this host met",
                       hub_rank(visit), hub_pid(visit));
    if (error != 0)
        return failure_errno(status_of_errno(error), error, "can't hear rank %d (pid %lld)", hub_rank(visit),
                             hub_pid(visit));
    if (join_check(packet, size, JOIN_REFUSED) == NULL) {
        join_clean_text(packet->refused.text);
        join_close_fds(fds, *fd_count);
        return failure(PLAIT_START_FAILED, "rank %d (pid %lld): %s", hub_rank(visit), hub_pid(visit),
                       packet->refused.text);
    }
    const char *wrong = join_check(packet, size, kind);
    if (wrong == NULL)
        return PLAIT_OK;
    join_close_fds(fds, *fd_count);
    return failure(PLAIT_START_FAILED, "what listens in the place of rank %d (pid %lld) is not it: %s",
                   hub_rank(visit), hub_pid(visit), wrong);
}

static plait_status tell_hub(struct visit *visit, const void *packet, size_t size, const int *fds,
                             int fd_count)
{
    int error;
    while ((error = join_tell(visit->hub, packet, size, fds, fd_count)) == EAGAIN || error == ETOOMANYREFS) {
        if (deadline_passed(visit->deadline))
            break;
        poll(NULL, 0, 1);
    }
    if (error == 0 || error == EPIPE || error == ECONNRESET) /* its last words may still be heard */
        return PLAIT_OK;
    return failure_errno(status_of_errno(error), error, "can't talk to rank %d (pid %lld)", hub_rank(visit),
                         hub_pid(visit));
}

static plait_status introduce(struct visit *visit)
{
    const struct join *join = visit->join;
    char who[64];
    union join_packet packet;
    int none;
    if (!join_trusts(visit->hub, who, sizeof who))
        return failure(PLAIT_START_FAILED,
                       "%s listens in the place of rank %d (pid %lld); ranks of one job run as one "
                       "user",
                       who, hub_rank(visit), hub_pid(visit));

    struct join_hello hello = { .head = join_head_of(JOIN_HELLO),
                                .generation = join->generation,
                                .rank = join->peers[join->own]->rank };
    randombytes_buf(hello.challenge, sizeof hello.challenge);
    plait_status status = tell_hub(visit, &hello, sizeof hello, NULL, 0);
    if (status == PLAIT_OK)
        status = hear_hub(visit, JOIN_WELCOME, &packet, NULL, 0, &none);
    if (status != PLAIT_OK)
        return status;
    if (!join_proves(join, true, hello.rank, hello.challenge, packet.welcome.challenge, packet.welcome.proof))
        return failure(PLAIT_START_FAILED,
                       "%s, which listens in the place of rank %d, does not know the job key", who,
                       hub_rank(visit));

    struct join_enter enter = { .head = join_head_of(JOIN_ENTER) };
    join_prove(join, false, hello.rank, hello.challenge, packet.welcome.challenge, enter.proof);
    int fds[2] = { join->segment, join->lifeline };
    if (join->trouble != NULL)
        snprintf(enter.trouble, sizeof enter.trouble, "%s", join->trouble);
    return tell_hub(visit, &enter, sizeof enter, fds, join->trouble != NULL ? 0 : 2);
}

/* One batch of segments and lifelines; *left counts the ranks still to come. */
static plait_status take_ranks(struct visit *visit, bool *has, int *left)
{
    const struct join *join = visit->join;
    union join_packet packet;
    int fds[2 * JOIN_BATCH], fd_count;
    plait_status status = hear_hub(visit, JOIN_RANKS, &packet, fds, 2 * JOIN_BATCH, &fd_count);
    if (status != PLAIT_OK)
        return status;
    uint32_t count = packet.ranks.count;
    bool sound = count >= 1 && count <= JOIN_BATCH && (uint32_t)fd_count == 2 * count;
    for (uint32_t i = 0; sound && i < count; i++) {
        uint32_t index = packet.ranks.indexes[i];
        sound = index < (uint32_t)join->count && !has[index];
        if (sound)
            has[index] = true;
    }
    if (!sound) {
        join_close_fds(fds, fd_count);
        return failure(PLAIT_START_FAILED,
                       "rank %d (pid %lld) handed out segments in a way that makes no sense", hub_rank(visit),
                       hub_pid(visit));
    }
    for (uint32_t i = 0; i < count && status == PLAIT_OK; i++) {
        status = join->take(join->context, (int)packet.ranks.indexes[i], fds[2 * i], fds[2 * i + 1]);
        fds[2 * i] = fds[2 * i + 1] = -1;
    }
    join_close_fds(fds, fd_count);
    *left -= (int)count;
    return status;
}

plait_status join_visit(const struct join *join)
{
    struct visit visit = { .join = join, .hub = -1, .deadline = join->deadline };
    if (visit.deadline < NO_DEADLINE - grace_ns)
        visit.deadline += grace_ns;
    int left = join->count - 1;
    plait_status status;
    bool *has = calloc((size_t)join->count, sizeof *has);
    if (has == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to meet %d ranks", join->count);
    has[join->own] = true;
    status = call_hub(&visit);
    if (status == PLAIT_OK)
        status = introduce(&visit);
    while (status == PLAIT_OK && left > 0 && join->trouble == NULL)
        status = take_ranks(&visit, has, &left);
    if (visit.hub >= 0)
        close(visit.hub);
    free(has);
    return status;
}
