/* The hub's side of joining: takes in guests until every rank has come, then hands all segments to all. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/join.h"

enum { GUESTS_MOST = 64, MISSING_NAMED = 16, LOOK_EVERY_MS = 50, GRACE_MS = 1000, LINGER_MS = 300 };
static const int64_t patience_ns = 5000000000; /* with a guest that does not prove itself */
static const int64_t young_ns = 250000000;     /* one this young is not turned away for want of room */

/* Somebody who called and has proved nothing yet. */
struct guest {
    int fd;
    int index; /* of the rank it says it is, once it has said hello; else -1 */
    int64_t since;
    struct join_hello hello;
    unsigned char challenge[JOIN_CHALLENGE_BYTES];
    char who[64];
};

/* A rank; in place 0 the hub itself. */
struct member {
    int fd; /* connection; -1 until it has come */
    int segment, lifeline;
    int told; /* ranks before this one have been told to it */
};

struct hub {
    const struct join *join;
    struct guest guests[GUESTS_MOST];
    int guest_count;
    struct member *members;
    int missing;
    int64_t next_look;      /* at the lives of those */
    int64_t give_up_at;     /* 0 until one of them was found to have ended */
    struct pollfd *entries; /* listener, guests, members that have come */
    int *entry_members;     /* the place of the member that an entry is for */
};

/* ------------------------------------------------------------------ guests */

static void drop_guest(struct hub *hub, int at)
{
    close(hub->guests[at].fd);
    hub->guests[at] = hub->guests[--hub->guest_count];
}

static void turn_away(struct hub *hub, int at, const char *why)
{
    log_warn("turned away %s, which called where the ranks of this host meet: %s", hub->guests[at].who, why);
    drop_guest(hub, at);
}

/* Makes room by turning away whoever has been silent longest; false if nobody has been for long. */
static bool make_room(struct hub *hub)
{
    int oldest = -1;
    for (int i = 0; i < hub->guest_count; i++)
        if (oldest < 0 || hub->guests[i].since < hub->guests[oldest].since)
            oldest = i;
    if (oldest < 0 || clock_ns() - hub->guests[oldest].since < young_ns)
        return false;
    turn_away(hub, oldest, "it says nothing and others wait");
    return true;
}

/* Takes in those who call. */
static plait_status answer_calls(struct hub *hub)
{
    for (;;) {
        if (hub->guest_count == GUESTS_MOST && !make_room(hub)) {
            poll(NULL, 0, 1);
            return PLAIT_OK;
        }
        int fd = accept4(hub->join->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            struct guest *guest = &hub->guests[hub->guest_count++];
            *guest = (struct guest){ .fd = fd, .index = -1, .since = clock_ns() };
            if (!join_trusts(fd, guest->who, sizeof guest->who))
                turn_away(hub, hub->guest_count - 1, "ranks of one job run as one user");
            continue;
        }
        if (errno == EAGAIN)
            return PLAIT_OK;
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        int error = errno;
        bool short_of_fds = error == EMFILE || error == ENFILE;
        if (short_of_fds && hub->guest_count > 0) {
            if (make_room(hub))
                continue;
            poll(NULL, 0, 1);
            return PLAIT_OK;
        }
        if (short_of_fds)
            return join_out_of_fds(hub->join, "a peer's call");
        return failure_errno(status_of_errno(error), error, "can't take the calls of this host's ranks");
    }
}

static int index_of(const struct join *join, int32_t rank)
{
    for (int i = 1; i < join->count; i++)
        if (join->peers[i]->rank == rank)
            return i;
    return -1;
}

/* Answers a hello. Returns NULL, or why the guest has to go. */
static const char *welcome(struct hub *hub, struct guest *guest, const struct join_hello *hello)
{
    const struct join *join = hub->join;
    guest->hello = *hello;
    guest->index = index_of(join, hello->rank);
    if (hello->generation != join->generation)
        return "it belongs to another world";
    if (guest->index < 0)
        return "it is none of this world's ranks on this host";
    if (hub->members[guest->index].fd >= 0)
        return "the rank it says it is has come before";

    struct join_welcome answer = { .head = join_head_of(JOIN_WELCOME) };
    randombytes_buf(guest->challenge, sizeof guest->challenge);
    memcpy(answer.challenge, guest->challenge, sizeof answer.challenge);
    join_prove(join, true, hello->rank, hello->challenge, guest->challenge, answer.proof);
    return join_tell(guest->fd, &answer, sizeof answer, NULL, 0) == 0 ? NULL : "it does not listen";
}

/* Lets a guest in that has proved the key. */
static plait_status let_in(struct hub *hub, int at, struct join_enter *enter, int *fds, int fd_count,
                           const char **why)
{
    struct guest *guest = &hub->guests[at];
    struct member *member = &hub->members[guest->index];
    if (!join_proves(hub->join, false, guest->hello.rank, guest->hello.challenge, guest->challenge,
                     enter->proof)) {
        *why = "it does not know the job key";
        return PLAIT_OK;
    }
    if (member->fd >= 0) {
        *why = "the rank it says it is has come before";
        return PLAIT_OK;
    }
    if (enter->trouble[0] != '\0') {
        join_clean_text(enter->trouble);
        return failure(PLAIT_START_FAILED, "rank %d (pid %lld): %s", guest->hello.rank,
                       (long long)hub->join->peers[guest->index]->pid, enter->trouble);
    }
    if (fd_count != 2) {
        *why = "it brought no segment";
        return PLAIT_OK;
    }
    *member = (struct member){ .fd = guest->fd, .segment = fds[0], .lifeline = fds[1] };
    fds[0] = fds[1] = -1;
    hub->guests[at] = hub->guests[--hub->guest_count];
    hub->missing--;
    return PLAIT_OK;
}

/* Hears a guest that has something to say. A failure is this process's own. */
static plait_status hear_guest(struct hub *hub, int at)
{
    struct guest *guest = &hub->guests[at];
    union join_packet packet;
    int fds[2] = { -1, -1 }, fd_count = 0;
    size_t size;
    bool greeted = guest->index >= 0;
    int error = join_hear(guest->fd, &packet, &size, fds, greeted ? 2 : 0, &fd_count);
    if (error == EAGAIN)
        return PLAIT_OK;
    if (error == EMFILE)
        return join_out_of_fds(hub->join, "a peer's segment");
    const char *why = NULL;
    plait_status status = PLAIT_OK;
    if (error != 0)
        why = error == EPIPE || error == ECONNRESET ? "it hung up" : "it sent what can't be received";
    if (why == NULL)
        why = join_check(&packet, size, greeted ? JOIN_ENTER : JOIN_HELLO);
    if (why == NULL && !greeted)
        why = welcome(hub, guest, &packet.hello);
    else if (why == NULL)
        status = let_in(hub, at, &packet.enter, fds, fd_count, &why);
    join_close_fds(fds, fd_count);
    if (why != NULL)
        turn_away(hub, at, why);
    return status;
}

static void lose_patience(struct hub *hub)
{
    int64_t now = clock_ns();
    for (int i = hub->guest_count; i-- > 0;)
        if (now - hub->guests[i].since > patience_ns)
            turn_away(hub, i, "it proved nothing in time");
}

/* ----------------------------------------------------------------- waiting */

static plait_status name_missing(const struct hub *hub)
{
    const struct join *join = hub->join;
    char names[MISSING_NAMED * 12 + 16] = "";
    size_t used = 0;
    int named = 0;
    for (int i = 1; i < join->count; i++) {
        if (hub->members[i].fd >= 0)
            continue;
        if (named++ == MISSING_NAMED) {
            snprintf(names + used, sizeof names - used, ", ...");
            break;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%d", used > 0 ? ", " : "",
                                 join->peers[i]->rank);
    }
    return failure(PLAIT_START_FAILED,
                   "%d of the %d ranks of this host did not come to share memory in time: rank%s %s",
                   hub->missing, join->count, hub->missing == 1 ? "" : "s", names);
}

static plait_status lost_member(const struct hub *hub, int index)
{
    return failure(PLAIT_START_FAILED, "rank %d (pid %lld) ended while the ranks of this host met",
                   hub->join->peers[index]->rank, (long long)hub->join->peers[index]->pid);
}

/* Is that process gone, be it that nobody has asked yet how it ended? */
static bool is_gone(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return kill(pid, 0) != 0 && errno == ESRCH;
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    bool gone = poll(&entry, 1, 0) > 0 && entry.revents != 0;
    close(fd);
    return gone;
}

/* A rank that ended after it gave its card will not come. The others get a moment to come and hear of it. */
static plait_status look_at_missing(struct hub *hub)
{
    const struct join *join = hub->join;
    if (!deadline_passed(hub->next_look))
        return PLAIT_OK;
    hub->next_look = deadline_after_ms(LOOK_EVERY_MS);
    const struct peer *gone = NULL;
    int coming = 0;
    for (int i = 1; i < join->count; i++) {
        if (hub->members[i].fd >= 0)
            continue;
        if (join->peers[i]->pid > 0 && is_gone((pid_t)join->peers[i]->pid))
            gone = join->peers[i];
        else
            coming++;
    }
    if (gone != NULL && hub->give_up_at == 0)
        hub->give_up_at = deadline_after_ms(GRACE_MS);
    if (gone == NULL || (coming > 0 && !deadline_passed(hub->give_up_at)))
        return PLAIT_OK;
    return failure(PLAIT_START_FAILED,
                   "rank %d (pid %lld) ended before it came to share memory with the ranks of this host",
                   gone->rank, (long long)gone->pid);
}

/* Sleeps until somebody stirs. *count: entries. Only open ones, for poll() takes no more
 * entries than there may be file descriptors. */
static plait_status wait_for_all(struct hub *hub, int *count)
{
    const struct join *join = hub->join;
    int64_t left = deadline_left_ms(join->deadline);
    *count = 0;
    hub->entries[(*count)++] = (struct pollfd){ .fd = join->listener, .events = POLLIN };
    for (int i = 0; i < hub->guest_count; i++)
        hub->entries[(*count)++] = (struct pollfd){ .fd = hub->guests[i].fd, .events = POLLIN };
    for (int i = 1; i < join->count; i++) {
        if (hub->members[i].fd < 0)
            continue;
        hub->entry_members[*count] = i;
        hub->entries[(*count)++] = (struct pollfd){ .fd = hub->members[i].fd, .events = POLLIN };
    }
    if (poll(hub->entries, (nfds_t)*count, left < LOOK_EVERY_MS ? (int)left : LOOK_EVERY_MS) >= 0)
        return PLAIT_OK;
    for (int i = 0; i < *count; i++)
        hub->entries[i].revents = 0;
    return errno == EINTR
               ? PLAIT_OK
               : failure_errno(status_of_errno(errno), errno, "can't wait for the ranks of this host");
}

static plait_status turn(struct hub *hub)
{
    int count, guest_count = hub->guest_count;
    plait_status status = wait_for_all(hub, &count);
    for (int i = 1 + guest_count; i < count; i++) /* those have nothing more to say: they may only hang up */
        if (hub->entries[i].revents != 0)
            return lost_member(hub, hub->entry_members[i]);
    /* Backwards: a guest that goes is replaced by the last one, which has had its turn. */
    for (int i = guest_count; i-- > 0 && status == PLAIT_OK;)
        if (hub->entries[1 + i].revents != 0)
            status = hear_guest(hub, i);
    lose_patience(hub);
    if (status == PLAIT_OK && hub->entries[0].revents != 0)
        status = answer_calls(hub);
    if (status == PLAIT_OK && hub->missing > 0)
        status = look_at_missing(hub);
    if (status == PLAIT_OK && hub->missing > 0 && deadline_passed(hub->join->deadline))
        status = name_missing(hub);
    return status;
}

/* ------------------------------------------------------------- handing out */

/* Tells a member about the next few ranks. 0, or errno. */
static int tell_some(struct hub *hub, int index)
{
    struct member *member = &hub->members[index];
    struct join_ranks ranks = { .head = join_head_of(JOIN_RANKS) };
    int fds[2 * JOIN_BATCH], next = member->told;
    for (; next < hub->join->count && ranks.count < JOIN_BATCH; next++) {
        if (next == index)
            continue;
        fds[2 * ranks.count] = hub->members[next].segment;
        fds[2 * ranks.count + 1] = hub->members[next].lifeline;
        ranks.indexes[ranks.count++] = (uint32_t)next;
    }
    int error = ranks.count == 0 ? 0 : join_tell(member->fd, &ranks, sizeof ranks, fds, 2 * (int)ranks.count);
    if (error == 0)
        member->told = next;
    return error;
}

/* The system limits how many file descriptors may be under way, so it may take some rounds. */
static plait_status hand_out(struct hub *hub)
{
    int busy;
    do {
        busy = 0;
        bool moved = false;
        for (int i = 1; i < hub->join->count; i++) {
            if (hub->members[i].told == hub->join->count)
                continue;
            int error = tell_some(hub, i);
            moved |= error == 0;
            busy += error != 0 || hub->members[i].told < hub->join->count;
            if (error == EPIPE || error == ECONNRESET)
                return lost_member(hub, i);
            if (error != 0 && error != EAGAIN && error != ETOOMANYREFS && error != ENOBUFS)
                return failure_errno(status_of_errno(error), error,
                                     "can't hand rank %d the segments of this host",
                                     hub->join->peers[i]->rank);
        }
        if (busy > 0 && deadline_passed(hub->join->deadline))
            return failure(PLAIT_START_FAILED, "%d ranks of this host did not take the segments in time",
                           busy);
        if (busy > 0 && !moved)
            poll(NULL, 0, 1);
    } while (busy > 0);
    return PLAIT_OK;
}

/* The hub takes what it has handed out. */
static plait_status take_all(struct hub *hub)
{
    plait_status status = PLAIT_OK;
    for (int i = 1; i < hub->join->count && status == PLAIT_OK; i++) {
        struct member *member = &hub->members[i];
        status = hub->join->take(hub->join->context, i, member->segment, member->lifeline);
        member->segment = member->lifeline = -1;
    }
    return status;
}

/* Ranks that are on their way hear of it, too, and not only that nobody listens. */
static void tell_late(struct hub *hub, const struct join_refused *refused)
{
    int64_t until = deadline_after_ms(LINGER_MS);
    int late = hub->missing - hub->guest_count;
    while (late > 0 && !deadline_passed(until)) {
        struct pollfd entry = { .fd = hub->join->listener, .events = POLLIN };
        if (poll(&entry, 1, (int)deadline_left_ms(until)) <= 0)
            continue;
        struct guest guest = { .fd = accept4(hub->join->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) };
        if (guest.fd < 0)
            return;
        if (join_trusts(guest.fd, guest.who, sizeof guest.who)) {
            join_tell(guest.fd, refused, sizeof *refused, NULL, 0);
            late--;
        }
        close(guest.fd);
    }
}

/* Tells everybody who is here why there will be no world, those too who have just called. */
static void refuse_all(struct hub *hub)
{
    struct join_refused refused = { .head = join_head_of(JOIN_REFUSED) };
    snprintf(refused.text, sizeof refused.text, "%s", failure_text());
    while (hub->guest_count < GUESTS_MOST) {
        struct guest guest = { .fd = accept4(hub->join->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) };
        if (guest.fd < 0)
            break;
        hub->guests[hub->guest_count++] = guest;
        if (!join_trusts(guest.fd, guest.who, sizeof guest.who))
            drop_guest(hub, hub->guest_count - 1);
    }
    for (int i = 0; i < hub->guest_count; i++)
        join_tell(hub->guests[i].fd, &refused, sizeof refused, NULL, 0);
    for (int i = 1; i < hub->join->count; i++)
        if (hub->members[i].fd >= 0)
            join_tell(hub->members[i].fd, &refused, sizeof refused, NULL, 0);
    tell_late(hub, &refused);
}

static void close_hub(struct hub *hub)
{
    while (hub->guest_count > 0)
        drop_guest(hub, hub->guest_count - 1);
    for (int i = 1; hub->members != NULL && i < hub->join->count; i++) {
        int fds[] = { hub->members[i].fd, hub->members[i].segment, hub->members[i].lifeline };
        join_close_fds(fds, 3);
    }
    free(hub->members);
    free(hub->entries);
    free(hub->entry_members);
    free(hub);
}

plait_status join_host(const struct join *join)
{
    plait_status status;
    if (join->trouble != NULL)
        return PLAIT_OK; /* the guests see the socket close */
    struct hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to meet %d ranks", join->count);
    hub->join = join;
    hub->missing = join->count - 1;
    hub->members = calloc((size_t)join->count, sizeof *hub->members);
    hub->entries = calloc((size_t)(1 + GUESTS_MOST + join->count), sizeof *hub->entries);
    hub->entry_members = calloc((size_t)(1 + GUESTS_MOST + join->count), sizeof *hub->entry_members);
    if (hub->members == NULL || hub->entries == NULL || hub->entry_members == NULL) {
        status = failure(PLAIT_OUT_OF_MEMORY, "no memory to meet %d ranks", join->count);
        goto cleanup;
    }
    for (int i = 0; i < join->count; i++)
        hub->members[i] = (struct member){ .fd = -1, .segment = -1, .lifeline = -1 };
    hub->members[0].segment = join->segment;
    hub->members[0].lifeline = join->lifeline;

    status = PLAIT_OK;
    while (status == PLAIT_OK && hub->missing > 0)
        status = turn(hub);
    if (status == PLAIT_OK)
        status = hand_out(hub);
    if (status != PLAIT_OK)
        refuse_all(hub);
    else
        status = take_all(hub);

cleanup:
    close_hub(hub);
    return status;
}
