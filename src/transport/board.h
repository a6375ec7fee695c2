/* The board: what the ranks of one host leave for each other to read in place.
 *
 * Every rank owns a segment of memory that all ranks of its host (or process) have mapped. In it lie
 * its seat in each channel (a communicator is a channel), and its staging. Every word has one writer,
 * the owner of the segment. */
#ifndef PLAIT_TRANSPORT_BOARD_H
#define PLAIT_TRANSPORT_BOARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NOTICE_INLINE_BYTES = 40, /* of a contribution, in the notice's own line */
    NOTICE_LINES = 9,         /* further lines that carry the rest of it, */
    NOTICE_LINE_BYTES = 56,   /* so much each */
    NOTICE_BYTES = NOTICE_INLINE_BYTES + NOTICE_LINES * NOTICE_LINE_BYTES,
    BOARD_CHANNELS = 1024,         /* communicators a rank can be in at a time */
    SEAT_STAGING_BYTES = 16384,    /* staging of a channel that has no lane */
    STAGING_LANES = 64,            /* communicators that have a lane; memory is taken at first use */
    FURTHER_LANE_BYTES = 512 << 10 /* of a lane but the first, which may be longer */
};

/* What a rank has to say in one operation. Two a seat, by the parity of the
 * operation's number: the one of operation n is written again in operation
 * n + 2, which a rank enters after it saw all others in n + 1. */
struct notice {
    _Alignas(128) _Atomic uint64_t number;   /* of the operation entered; released last */
    unsigned char data[NOTICE_INLINE_BYTES]; /* a contribution that fits, or its beginning; or an offer */
    uint64_t print;                          /* the call's fingerprint */
    _Atomic uint64_t signals; /* how far this rank is (steps.c); left alone where a call runs no steps */
    unsigned char call[64];   /* the second line: the call itself, read only when prints differ */
};
_Static_assert(sizeof(struct notice) == 128, "a notice is two cache lines");

/* More of a contribution. Each line tells by itself that it is up, so that all come at the same time. */
struct notice_line {
    _Alignas(64) _Atomic uint64_t number;
    unsigned char data[NOTICE_LINE_BYTES];
};

/* A rank's place in a channel. */
struct seat {
    struct notice notices[2];
    struct notice_line lines[2][NOTICE_LINES];
    _Alignas(128) _Atomic uint64_t finished; /* number of the last operation completed here */
    _Atomic uint32_t ended; /* which communicator is over here: its first operation's number */
    int32_t end_status, end_kind, end_culprit; /* and why */
    char end_reason[240];
    _Alignas(128) _Atomic uint64_t probe; /* passed to and fro to measure a line's way */
    _Atomic uint32_t line_ns;             /* what it took, by rank 0's latest measurement */
    _Atomic int32_t core; /* where its latest operation was entered; kept only where ranks share cores */
};

/* Where a rank sleeps; in its segment's header. */
struct bell {
    _Alignas(128) _Atomic uint32_t word;
    _Atomic uint32_t sleeping; /* not 0: ring after leaving something */
};

/* The segments as one communicator sees them, by its own ranks. */
struct board {
    struct seat **seats;
    unsigned char **staging;      /* start of each rank's lanes */
    unsigned char **seat_staging; /* SEAT_STAGING_BYTES of each rank in this channel */
    struct bell **bells;
    unsigned char **heaps; /* start of each rank's heap; NULL where there is none, or it can't be reached */
    size_t *heap_sizes;
    size_t lane_size; /* bytes of the first lane; same for all ranks */
};

/* STAGING_LANES lanes follow each other. The first is the world's; the others are no longer than what
 * a rank can afford to have many of. */
static inline size_t lane_bytes(size_t first_size, int lane)
{
    return lane == 0 || first_size < FURTHER_LANE_BYTES ? first_size : FURTHER_LANE_BYTES;
}

/* Where a lane begins; for STAGING_LANES, where the last one ends. */
static inline size_t lane_offset(size_t first_size, int lane)
{
    return lane == 0 ? 0 : first_size + (size_t)(lane - 1) * lane_bytes(first_size, lane);
}

struct segment;
/* The board of `count` mapped segments, at least one; NULL without memory for it. For board_free(). */
struct board *board_make(int channel, const struct segment *const *segments, int count);

/* Wakes the owner of `bell` if it sleeps. May miss one who is just lying down, who
 * therefore never sleeps longer than BELL_NAP_NS. A few nanoseconds when nobody sleeps. */
enum { BELL_NAP_NS = 1000000 };
void bell_ring(struct bell *bell);

/* Sleeps on the own bell until it is rung, at most `nap_ns` and BELL_NAP_NS. The caller has looked
 * for work after bell_lie_down() and found none:
 *     uint32_t seen = bell_lie_down(bell);
 *     if (!anything_to_do()) bell_sleep(bell, seen, nap_ns);
 *     bell_get_up(bell); */
uint32_t bell_lie_down(struct bell *bell);
void bell_sleep(struct bell *bell, uint32_t seen, int64_t nap_ns);
void bell_get_up(struct bell *bell);

#endif
