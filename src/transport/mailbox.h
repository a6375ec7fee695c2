/* A mailbox: what one rank sends another, in the sender's segment. It has room for a few records, each
 * with a small payload of its own, and a ring of slots through which large messages stream. The sender
 * counts up what it wrote, the receiver what it took; each on its own cache lines. An *outbox* is the
 * sender's end, an *inbox* the receiver's: what they remember themselves, because counters in shared
 * memory are the other's word only. */
#ifndef PLAIT_TRANSPORT_MAILBOX_H
#define PLAIT_TRANSPORT_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

struct segment;

enum {
    MAILBOX_RECORDS = 16,
    MAILBOX_INLINE_BYTES = 16,
    MAILBOX_EAGER_BYTES = 8 << 10,
    MAILBOX_SLOTS = 16,
    MAILBOX_SLOT_BYTES = 64 << 10
};

enum record_kind {
    RECORD_MESSAGE = 1, /* a whole message; payload in the record, or beside it if larger */
    RECORD_ANNOUNCE,    /* a large message `id` waits at the sender */
    RECORD_GRANT,       /* answers an announcement: stream it now */
    RECORD_DISCARD,     /* answers an announcement: nobody wants the bytes, count it as received */
    RECORD_WITHDRAW     /* the sender gave up message `id` */
};

/* One cache line. */
struct record {
    _Alignas(64) _Atomic uint64_t number; /* counts from 1; released last */
    struct message_key key;
    uint64_t size; /* of the message */
    uint32_t kind;
    uint32_t id; /* of a large message, by its sender */
    unsigned char payload[MAILBOX_INLINE_BYTES];
};
_Static_assert(sizeof(struct record) == 64, "a record is a cache line");

/* Whose bytes a slot holds, and how many. */
struct slot_tag {
    uint32_t id;
    uint32_t size;
};

struct mailbox {
    struct record records[MAILBOX_RECORDS];
    _Alignas(128) struct slot_tag tags[MAILBOX_SLOTS];
    _Alignas(128) _Atomic uint64_t filled; /* slots; the sender's */
    _Alignas(128) _Atomic uint64_t taken;  /* records; the receiver's */
    _Atomic uint64_t drained;              /* slots; the receiver's */
    _Alignas(4096) unsigned char eager[MAILBOX_RECORDS][MAILBOX_EAGER_BYTES];
    unsigned char slots[MAILBOX_SLOTS][MAILBOX_SLOT_BYTES];
};
_Static_assert(sizeof(struct mailbox) % 4096 == 0, "mailboxes are whole pages");

struct outbox {
    struct mailbox *box;
    const struct segment *segment;          /* the own one, in which it lies */
    uint64_t written, taken;                /* records; taken as last seen */
    uint64_t filled, drained;               /* slots; drained as last seen */
    bool has_records, has_eager, has_slots; /* whether memory is reserved */
};

struct inbox {
    struct mailbox *box;
    uint64_t taken;           /* records */
    uint64_t filled, drained; /* slots; filled as last seen */
};

/* Bytes of a stream's pieces but the last: a few to a message, so that the receiver
 * copies one while the sender copies the next. Both sides know it from the message's size. */
static inline size_t mailbox_piece_size(size_t message_size)
{
    size_t piece = (message_size / 4 + 8191) / 8192 * 8192;
    return piece < MAILBOX_SLOT_BYTES ? piece : MAILBOX_SLOT_BYTES;
}

void outbox_open(struct outbox *outbox, const struct segment *own, int peer_index);
/* May be called before the sender has reserved anything; the first look may come after its doorbell only. */
void inbox_open(struct inbox *inbox, const struct segment *peers, int own_index);

/* Sees to the memory for records, for payloads beside them, for streams. */
plait_status outbox_reserve(struct outbox *outbox, bool eager, bool slots);

/* How many records, or slots, may be written now; -1 if the peer's counter makes no sense. */
int outbox_record_room(struct outbox *outbox);
int outbox_slot_room(struct outbox *outbox);

/* Writes a record; its number is filled in here. Needs room. A message's `bytes` go along. */
void outbox_write(struct outbox *outbox, struct record *record, const void *bytes);
/* Copies up to a slot's bytes of message `id` into the next slot, past the caches if `streamed`.
 * Needs room. */
void outbox_fill(struct outbox *outbox, uint32_t id, const void *bytes, size_t size, bool streamed);

/* A copy of the next record; false if there is none. */
bool inbox_peek(const struct inbox *inbox, struct record *record);
/* The payload of the message that was peeked at; valid until it is taken. */
const void *inbox_payload(const struct inbox *inbox, const struct record *record);
void inbox_take(struct inbox *inbox);

/* Slots to drain; -1 if the peer's counter makes no sense. */
int inbox_slots_ready(struct inbox *inbox);
/* The next slot's bytes and a copy of its tag; valid until it is drained. */
const void *inbox_slot(const struct inbox *inbox, struct slot_tag *tag);
void inbox_drain(struct inbox *inbox);

#endif
