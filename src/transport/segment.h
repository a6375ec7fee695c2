/* A rank's segment: the memory that all ranks of its host (or process) have mapped. One layout for both
 * kinds: a memfd that is passed to the peers, or anonymous memory that threads share.
 *
 *     header      who owns it, its state, its bell
 *     doorbells   a bit a peer: "there is mail from me"
 *     channels    a seat and its small staging each
 *     lanes       staging
 *     mailboxes   one a peer: what the owner sends it
 *     heap        what callers allocate there, for peers to read in place (heap.h)
 *
 * The layout is virtual and the same for all but for the heap's size. Of a memfd only what was reserved has
 * memory, so a shortage is an error at the reservation and never a bus error at a touch;
 * nobody touches what its owner has not reserved. */
#ifndef PLAIT_TRANSPORT_SEGMENT_H
#define PLAIT_TRANSPORT_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "plait.h"
#include "transport/board.h"

enum { SEGMENT_PAGE = 4096, SEGMENT_VERSION = 3 };
enum segment_state { SEGMENT_HERE = 1, SEGMENT_LEFT };

/* Where things lie. Follows from the two numbers it begins with. */
struct segment_layout {
    int peers;        /* ranks with a mailbox, the owner among them */
    size_t lane_size; /* of the first; lane_bytes() and lane_offset() tell of the others */
    size_t doorbells, channels, lanes, mailboxes, heap; /* offsets */
    size_t heap_size; /* the owner's choice; 0 also where it could not be mapped */
    size_t size;
};

struct segment_header {
    uint64_t magic;
    uint32_t version;
    int32_t rank; /* the owner, as a world rank */
    int64_t pid;
    uint64_t generation;
    uint64_t lane_size;
    uint32_t peers;
    _Alignas(128) _Atomic uint32_t state; /* enum segment_state */
    struct bell bell;
};
_Static_assert(sizeof(struct segment_header) <= SEGMENT_PAGE, "the header is one page");

struct segment {
    unsigned char *base; /* NULL: not mapped */
    struct segment_layout layout;
    int rank; /* the owner */
    int fd;   /* the owner's memfd; -1 for anonymous memory and for a peer's segment */
};

/* Whose segment it is, or has to be. */
struct segment_owner {
    int rank;
    int64_t pid; /* < 0: any */
    uint64_t generation;
};

/* `lane_size` is of the first lane and is rounded up to whole 64 KiB; 0 lets this choose. */
struct segment_layout segment_lay_out(int peers, size_t lane_size);

/* Make this rank's segment: as a memfd, or for threads of this process. Header, doorbells and
 * the first lane are reserved. */
plait_status segment_make_shared(struct segment *segment, const struct segment_layout *layout,
                                 const struct segment_owner *owner);
plait_status segment_make_private(struct segment *segment, const struct segment_layout *layout,
                                  const struct segment_owner *owner);

/* Maps a peer's memfd after checking that it is what it should be. The fd stays the caller's. */
plait_status segment_map(struct segment *segment, const struct segment_layout *layout,
                         const struct segment_owner *owner, int fd);

/* Sees to the memory of a part of the own segment. `what` is for the sentence: "channel 3". */
plait_status segment_reserve(const struct segment *segment, size_t offset, size_t size, const char *what);

/* Gives the memory of a part back. */
void segment_give(const struct segment *segment, size_t offset, size_t size);

/* segment_reserve() for a part of the heap, which is zero then; and gives it back. */
plait_status segment_heap_take(const struct segment *segment, size_t offset, size_t size);
void segment_heap_give(const struct segment *segment, size_t offset, size_t size);

/* Unmaps and closes; nothing happens to one that was never made. */
void segment_free(struct segment *segment);

enum { CHANNEL_SIZE = SEGMENT_PAGE + SEAT_STAGING_BYTES }; /* the seat's page, its staging */

static inline unsigned char *segment_heap(const struct segment *segment)
{
    return segment->layout.heap_size > 0 ? segment->base + segment->layout.heap : NULL;
}

static inline struct segment_header *segment_header(const struct segment *segment)
{
    return (struct segment_header *)(void *)segment->base;
}

static inline void segment_mark_left(const struct segment *segment)
{
    atomic_store_explicit(&segment_header(segment)->state, SEGMENT_LEFT, memory_order_release);
}

static inline _Atomic uint64_t *segment_doorbells(const struct segment *segment)
{
    return (_Atomic uint64_t *)(void *)(segment->base + segment->layout.doorbells);
}

static inline size_t segment_channel_offset(const struct segment *segment, int channel)
{
    return segment->layout.channels + (size_t)channel * CHANNEL_SIZE;
}

static inline struct seat *segment_seat(const struct segment *segment, int channel)
{
    return (struct seat *)(void *)(segment->base + segment_channel_offset(segment, channel));
}

static inline unsigned char *segment_seat_staging(const struct segment *segment, int channel)
{
    return segment->base + segment_channel_offset(segment, channel) + SEGMENT_PAGE;
}

#endif
