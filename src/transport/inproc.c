/* Ranks as threads of one process. A segment is anonymous memory; it lives until
 * the last rank that knows it has closed, because peers may still read what a rank
 * left there before it went. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "transport/room.h"

struct shared_segment {
    struct shared_segment *next;
    uint64_t id;
    int users;
    struct segment segment;
};

struct inproc {
    struct room room;
    struct shared_segment *own;
    struct shared_segment **peers; /* those this rank uses, its own among them */
    int peer_count;
};

/* What a rank describes to the others. */
struct blob {
    uint64_t id;
    int64_t pid;
};
_Static_assert(sizeof(struct blob) <= TRANSPORT_BLOB_BYTES, "a blob holds it");

/* All segments of this process: a blob names one, and whether it still is there must be known. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared_segment *all;
static uint64_t last_id;

static void publish(struct shared_segment *shared)
{
    pthread_mutex_lock(&lock);
    shared->id = ++last_id;
    shared->users = 1;
    shared->next = all;
    all = shared;
    pthread_mutex_unlock(&lock);
}

static struct shared_segment *acquire(uint64_t id)
{
    pthread_mutex_lock(&lock);
    struct shared_segment *shared = all;
    while (shared != NULL && shared->id != id)
        shared = shared->next;
    if (shared != NULL)
        shared->users++;
    pthread_mutex_unlock(&lock);
    return shared;
}

static void release(struct shared_segment *shared)
{
    pthread_mutex_lock(&lock);
    bool last = --shared->users == 0;
    for (struct shared_segment **at = &all; last && *at != NULL; at = &(*at)->next) {
        if (*at == shared) {
            *at = shared->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    segment_free(&shared->segment);
    free(shared);
}

static void inproc_close(struct endpoint *endpoint)
{
    struct inproc *inproc = (struct inproc *)(void *)endpoint;
    if (inproc == NULL)
        return;
    if (inproc->own != NULL)
        segment_mark_left(&inproc->own->segment);
    room_leave(endpoint);
    room_close(&inproc->room);
    for (int i = 0; i < inproc->peer_count; i++)
        release(inproc->peers[i]);
    free(inproc->peers);
    if (inproc->own != NULL)
        release(inproc->own);
    free(inproc);
}

static plait_status inproc_open(const struct endpoint_setup *setup, struct endpoint **endpoint,
                                unsigned char blob[TRANSPORT_BLOB_BYTES])
{
    struct inproc *inproc = calloc(1, sizeof *inproc);
    struct shared_segment *shared = calloc(1, sizeof *shared);
    struct segment_owner owner = { .rank = setup->rank, .pid = getpid() };
    struct segment_layout layout = segment_lay_out(setup->size, setup->lane_size);
    plait_status status;
    if (inproc == NULL || shared == NULL) {
        status = failure(PLAIT_OUT_OF_MEMORY, "no memory for the endpoint of rank %d", setup->rank);
        goto cleanup;
    }
    status = room_open(&inproc->room, setup);
    if (status != PLAIT_OK)
        goto cleanup;
    status = segment_make_private(&shared->segment, &layout, &owner);
    if (status != PLAIT_OK)
        goto cleanup;

    publish(shared);
    struct blob mine = { .id = shared->id, .pid = getpid() };
    memset(blob, 0, TRANSPORT_BLOB_BYTES);
    memcpy(blob, &mine, sizeof mine);
    inproc->own = shared;
    *endpoint = (struct endpoint *)(void *)inproc;
    return PLAIT_OK;

cleanup:
    free(shared);
    inproc_close((struct endpoint *)(void *)inproc);
    return status;
}

static plait_status find_peer(struct inproc *inproc, const struct peer *peer, struct shared_segment **found)
{
    struct blob theirs;
    memcpy(&theirs, peer->blob, sizeof theirs);
    if (theirs.pid != getpid())
        return failure(PLAIT_START_FAILED,
                       "rank %d is in process %lld and rank %d in process %d: threads meet in one process",
                       peer->rank, (long long)theirs.pid, inproc->room.rank, (int)getpid());
    *found = acquire(theirs.id);
    if (*found == NULL)
        return failure(PLAIT_START_FAILED, "rank %d has gone before the ranks met", peer->rank);
    const struct segment_header *header = segment_header(&(*found)->segment);
    if (header->rank == peer->rank && (*found)->segment.layout.heap == inproc->own->segment.layout.heap)
        return PLAIT_OK;
    plait_status status =
        failure(PLAIT_START_FAILED, "a segment said to be of rank %d is of rank %d, or of another size",
                peer->rank, header->rank);
    release(*found);
    return status;
}

static plait_status inproc_connect(struct endpoint *endpoint, const struct peer *peers, int count,
                                   uint64_t generation, const unsigned char job_key[32], int64_t deadline)
{
    (void)generation; /* a segment's id is used once, */
    (void)job_key;    /* nobody else is in here, */
    (void)deadline;   /* and nobody is waited for: whoever described itself is there */
    struct inproc *inproc = (struct inproc *)(void *)endpoint;
    const struct peer **order = calloc((size_t)count, sizeof(const struct peer *));
    const struct segment **segments = calloc((size_t)count, sizeof(const struct segment *));
    inproc->peers = calloc((size_t)count, sizeof(struct shared_segment *));
    plait_status status;
    if (order == NULL || segments == NULL || inproc->peers == NULL) {
        status = failure(PLAIT_OUT_OF_MEMORY, "no memory for %d peers", count);
        goto cleanup;
    }
    status = room_order(&inproc->room, peers, count, order);
    for (int i = 0; i < count && status == PLAIT_OK; i++) {
        status = find_peer(inproc, order[i], &inproc->peers[i]);
        if (status != PLAIT_OK)
            break;
        segments[i] = &inproc->peers[i]->segment;
        inproc->peer_count = i + 1;
    }
    if (status == PLAIT_OK)
        status = room_join(&inproc->room, segments, count);

cleanup:
    free(order);
    free(segments);
    return status;
}

static enum life inproc_life(struct endpoint *endpoint, int peer)
{
    struct room *room = (struct room *)(void *)endpoint;
    int index = room_index(room, peer);
    return index >= 0 && room_has_left(room, index) ? LIFE_LEFT : LIFE_HERE;
}

const struct transport transport_inproc = {
    .name = "inproc",
    .open = inproc_open,
    .connect = inproc_connect,
    .send = room_send,
    .recv = room_recv,
    .cancel = room_cancel,
    .progress = room_progress,
    .life = inproc_life,
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
    .close = inproc_close,
};
