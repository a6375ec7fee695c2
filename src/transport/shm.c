/* Ranks as processes of one host. A segment is a memfd that its owner hands to all others (join.h), so
 * there are no names to clean up and no /dev/shm to fill. A peer's death shows on its lifeline: its
 * pidfd, or where there are none a pipe of which it holds the other end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/join.h"
#include "transport/room.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

struct shm {
    struct room room;
    size_t lane_size;
    int listener;
    int held; /* the end of the pipe that closes when this process ends, or -1 */

    /* From connecting on, in order of rank: */
    int count;
    const struct peer **order;
    struct segment *segments;
    int *lifelines; /* -1 for the own one */
};

/* What a rank describes to the others. */
struct blob {
    unsigned char name[JOIN_NAME_BYTES];
    int64_t pid;
};
_Static_assert(sizeof(struct blob) <= TRANSPORT_BLOB_BYTES, "a blob holds it");

static struct shm *shm_of(struct endpoint *endpoint)
{
    return (struct shm *)(void *)endpoint;
}

static void shm_close(struct endpoint *endpoint)
{
    struct shm *shm = shm_of(endpoint);
    if (shm == NULL)
        return;
    if (shm->count > 0 && shm->segments[shm->room.own_index].base != NULL)
        segment_mark_left(&shm->segments[shm->room.own_index]);
    room_leave(endpoint);
    room_close(&shm->room);
    for (int i = 0; i < shm->count; i++)
        segment_free(&shm->segments[i]);
    if (shm->lifelines != NULL)
        join_close_fds(shm->lifelines, shm->count);
    int fds[] = { shm->listener, shm->held };
    join_close_fds(fds, 2);
    free(shm->order);
    free(shm->segments);
    free(shm->lifelines);
    free(shm);
}

static plait_status shm_open_endpoint(const struct endpoint_setup *setup, struct endpoint **endpoint,
                                      unsigned char blob[TRANSPORT_BLOB_BYTES])
{
    struct blob mine = { .pid = getpid() };
    struct shm *shm = calloc(1, sizeof *shm);
    if (shm == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the endpoint of rank %d", setup->rank);
    shm->listener = shm->held = -1;
    shm->lane_size = setup->lane_size;
    plait_status status = room_open(&shm->room, setup);
    if (status == PLAIT_OK)
        status = join_listen(&shm->listener, mine.name);
    if (status != PLAIT_OK) {
        shm_close((struct endpoint *)(void *)shm);
        return status;
    }
    memset(blob, 0, TRANSPORT_BLOB_BYTES);
    memcpy(blob, &mine, sizeof mine);
    *endpoint = (struct endpoint *)(void *)shm;
    return PLAIT_OK;
}

/* ------------------------------------------------------------------ meeting */

/* What shows the others that this process is gone. */
static plait_status make_lifeline(struct shm *shm, int *lifeline)
{
    int ends[2];
    *lifeline = (int)syscall(SYS_pidfd_open, getpid(), 0); /* closes on exec by itself */
    if (*lifeline >= 0)
        return PLAIT_OK;
    /* Linux before 5.3, or a sandbox. A forked child that does not exec keeps a pipe open beyond
     * our end, which is why this is second choice. */
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && pipe2(ends, O_CLOEXEC) == 0) {
        *lifeline = ends[0];
        shm->held = ends[1];
        return PLAIT_OK;
    }
    return failure_errno(
        status_of_errno(errno), errno,
        "rank %d has no file descriptor for what shows its peers whether it lives (ulimit -n is %ld)",
        shm->room.rank, sysconf(_SC_OPEN_MAX));
}

static plait_status take_peer(void *context, int index, int segment, int lifeline)
{
    struct shm *shm = context;
    const struct peer *peer = shm->order[index];
    struct segment_owner owner = { .rank = peer->rank,
                                   .pid = peer->pid > 0 ? peer->pid : -1,
                                   .generation = shm->room.generation };
    shm->lifelines[index] = lifeline;
    plait_status status =
        segment_map(&shm->segments[index], &shm->segments[shm->room.own_index].layout, &owner, segment);
    close(segment);
    return status;
}

static plait_status make_tables(struct shm *shm, const struct peer *peers, int count)
{
    shm->order = calloc((size_t)count, sizeof(const struct peer *));
    shm->segments = calloc((size_t)count, sizeof *shm->segments);
    shm->lifelines = malloc((size_t)count * sizeof *shm->lifelines);
    if (shm->order == NULL || shm->segments == NULL || shm->lifelines == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d peers", count);
    shm->count = count;
    for (int i = 0; i < count; i++)
        shm->lifelines[i] = -1;
    plait_status status = room_order(&shm->room, peers, count, shm->order);
    for (int i = 0; i < count && status == PLAIT_OK; i++)
        if (shm->order[i]->rank == shm->room.rank)
            shm->room.own_index = i;
    return status;
}

static plait_status make_own(struct shm *shm, int *lifeline)
{
    struct segment_owner owner = { .rank = shm->room.rank,
                                   .pid = getpid(),
                                   .generation = shm->room.generation };
    struct segment_layout layout = segment_lay_out(shm->count, shm->lane_size);
    plait_status status = segment_make_shared(&shm->segments[shm->room.own_index], &layout, &owner);
    if (status == PLAIT_OK)
        status = make_lifeline(shm, lifeline);
    if (status != PLAIT_OK)
        segment_free(&shm->segments[shm->room.own_index]);
    return status;
}

static plait_status join_room(struct shm *shm)
{
    const struct segment **segments = calloc((size_t)shm->count, sizeof(const struct segment *));
    if (segments == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d peers", shm->count);
    for (int i = 0; i < shm->count; i++)
        segments[i] = &shm->segments[i];
    plait_status status = room_join(&shm->room, segments, shm->count);
    free(segments);
    return status;
}

static plait_status shm_connect(struct endpoint *endpoint, const struct peer *peers, int count,
                                uint64_t generation, const unsigned char job_key[32], int64_t deadline)
{
    struct shm *shm = shm_of(endpoint);
    int lifeline = -1;
    shm->room.generation = generation;
    plait_status status = make_tables(shm, peers, count);
    if (status != PLAIT_OK)
        return status;
    if (shm->room.own_index != 0) /* the hub listens for all */
        join_close_fds(&shm->listener, 1);
    struct blob hub;
    memcpy(&hub, shm->order[0]->blob, sizeof hub);
    struct join join = { .peers = shm->order,
                         .count = count,
                         .own = shm->room.own_index,
                         .listener = shm->listener,
                         .hub_name = hub.name,
                         .generation = shm->room.generation,
                         .job_key = job_key,
                         .deadline = deadline,
                         .take = take_peer,
                         .context = shm };
    status = make_own(shm, &lifeline);
    if (status == PLAIT_OK) {
        join.segment = shm->segments[shm->room.own_index].fd;
        join.lifeline = lifeline;
        status = join_meet(&join);
    } else { /* the others need not wait for this rank */
        char trouble[JOIN_TEXT_BYTES];
        snprintf(trouble, sizeof trouble, "%s", failure_text());
        join.trouble = trouble;
        if (deadline_left_ms(deadline) > 2000)
            join.deadline = deadline_after_ms(2000);
        join_meet(&join);
        failure(status, "%s", trouble);
    }
    if (status == PLAIT_OK)
        status = join_room(shm);

    int done[] = { lifeline, shm->listener };
    join_close_fds(done, 2);
    shm->listener = -1; /* `done` was a copy */
    return status;
}

static enum life shm_life(struct endpoint *endpoint, int peer)
{
    struct shm *shm = shm_of(endpoint);
    int index = room_index(&shm->room, peer);
    if (index < 0 || shm->lifelines[index] < 0)
        return index >= 0 && room_has_left(&shm->room, index) ? LIFE_LEFT : LIFE_HERE;
    struct pollfd entry = { .fd = shm->lifelines[index], .events = POLLIN };
    /* The lifeline first: whoever left in good order said so before its process ended. */
    bool ended = poll(&entry, 1, 0) > 0 && (entry.revents & POLLNVAL) == 0;
    if (room_has_left(&shm->room, index))
        return LIFE_LEFT;
    return ended ? LIFE_DEAD : LIFE_HERE;
}

const struct transport transport_shm = {
    .name = "shm",
    .maps_apart = true,
    .open = shm_open_endpoint,
    .connect = shm_connect,
    .send = room_send,
    .recv = room_recv,
    .cancel = room_cancel,
    .progress = room_progress,
    .life = shm_life,
    .channel_open = room_channel_open,
    .lane_open = room_lane_open,
    .lane_close = room_lane_close,
    .channel_close = room_channel_close,
    .heap = room_heap,
    .heap_take = room_heap_take,
    .heap_give = room_heap_give,
    .board = room_board,
    .bell = room_bell,
    .wait_fd = room_wait_fd,
    .may_sleep = room_may_sleep,
    .leave = room_leave,
    .close = shm_close,
};
