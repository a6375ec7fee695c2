/* What two ranks say to each other over libfabric. Little is asked of the fabric: a packet arrives
 * whole, once, in any order; a write arrives with its immediate, in any order.
 *
 * Packets go into buffers that the receiver keeps posted, only as many as it granted (credits), so
 * "receiver not ready", truncation and a full completion queue can't happen. They are numbered, and the
 * receiver takes them in that order. OFI_CREDIT alone needs no credit: a rank sends one when half of its
 * buffers are free again and unsaid, so at most two are on their way, and two more buffers are posted.
 *
 *     sender                                   receiver
 *     OFI_MESSAGE   key, all bytes        ->   match; small ones that are sent at the same time share a packet
 * or  OFI_ANNOUNCE  key, size, id         ->   match; wait for the receive
 *                                         <-   OFI_GRANT     id, first piece, an immediate a piece
 *     write with immediate, a piece each  ->   take the piece out of its slot; grant further ones
 * or  OFI_PIECE     id, offset, bytes     ->   the same, where the fabric has no remote write
 *                                         <-   OFI_DISCARD   id: nobody wants the rest
 *     OFI_WITHDRAW  id, pieces written    ->   the sender gave it up
 *
 * Both ranks have the same byte order; the handshake (ofi_lifelines.h) would not work otherwise. */
#ifndef PLAIT_TRANSPORT_OFI_WIRE_H
#define PLAIT_TRANSPORT_OFI_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

enum {
    OFI_RAILS = 4,              /* at most, of one link */
    OFI_PACKET_BYTES = 8 << 10, /* header and payload; what efa-direct takes in one piece */
    OFI_SLOT_BYTES = 128 << 10, /* of a landing slot: the largest piece */
    OFI_SLOTS = 64,             /* landing slots of a rank, for all its peers */
    OFI_WINDOW = 16,            /* slots that one message may have at a time */
    OFI_CREDITS_MOST = 16,      /* packets on their way from one rank to another */
    OFI_CREDITS_LEAST = 2,      /* even numbers */
    OFI_FREE_PACKETS = 2,       /* beside them: OFI_CREDIT */
    OFI_PARKED = 32,            /* more than packets can overtake each other */
    OFI_NAME_BYTES = 56         /* of an endpoint's address */
};

enum ofi_kind {
    OFI_HELLO = 1,
    OFI_MESSAGE,
    OFI_ANNOUNCE,
    OFI_GRANT,
    OFI_PIECE,
    OFI_DISCARD,
    OFI_WITHDRAW,
    OFI_CREDIT
};

struct ofi_packet {
    uint64_t token;    /* drawn by the receiver for this sender: a stranger does not know it */
    int32_t source;    /* world rank */
    uint32_t sequence; /* from 0, wraps */
    uint16_t kind;
    uint16_t credits; /* further buffers that the sender of this packet has free */
    uint32_t id;      /* of a large message, by its sender */
    struct message_key key;
    uint64_t size;   /* of the message; OFI_PIECE: the offset */
    uint32_t first;  /* OFI_GRANT: piece; OFI_WITHDRAW: pieces written; OFI_MESSAGE: further ones */
    uint32_t length; /* bytes that follow */
    unsigned char payload[];
};
_Static_assert(sizeof(struct ofi_packet) == 64, "a header is a cache line");

/* A further message of a packet: this and its bytes, from the next multiple of 8 of the payload on. */
struct ofi_further {
    struct message_key key;
    uint64_t size;
};

enum {
    OFI_FURTHER_MOST =
        2, /* so a packet's loss of time for the first is bounded, and a link's queue is known */
    OFI_TOGETHER_BYTES =
        1024 /* payload up to which messages share a packet: where a packet costs more than bytes */
};

static inline size_t ofi_padded(size_t size)
{
    return (size + 7) / 8 * 8;
}

enum { OFI_EAGER_BYTES = OFI_PACKET_BYTES - (int)sizeof(struct ofi_packet) };

/* The immediate of a write: 32 bits, which every fabric carries. The receiver makes it, the sender sends
 * it back with the piece that the grant names.
 *
 *     31 .. 20   the landing slot
 *     19 ..  0   how often the slot was granted before, modulo 2^20
 *
 * The count tells a late write from the slot's present use. It may wrap: a slot is not granted again
 * before its write has come or its sender has said that it will not. */
enum { OFI_LAP_BITS = 20 };

static inline uint32_t ofi_immediate(uint32_t slot, uint32_t lap)
{
    return slot << OFI_LAP_BITS | (lap & ((UINT32_C(1) << OFI_LAP_BITS) - 1));
}

static inline uint32_t ofi_immediate_slot(uint32_t immediate)
{
    return immediate >> OFI_LAP_BITS;
}

/* Bytes of a large message's pieces but the last. Both sides know it from the message's size: at least
 * two, so that one is copied while the other travels. */
static inline size_t ofi_piece_size(size_t message_size)
{
    size_t piece = (message_size / 2 + 4095) / 4096 * 4096;
    return piece < OFI_SLOT_BYTES ? piece : OFI_SLOT_BYTES;
}

static inline size_t ofi_piece_count(size_t message_size)
{
    size_t piece = ofi_piece_size(message_size);
    return (message_size + piece - 1) / piece;
}

#endif
