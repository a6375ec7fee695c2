#include "transport/mailbox.h"

#include <string.h>

#include "device/copy.h"
#include "transport/segment.h"

static struct mailbox *mailbox_of(const struct segment *segment, int index)
{
    return (struct mailbox *)(void *)(segment->base + segment->layout.mailboxes) + index;
}

void outbox_open(struct outbox *outbox, const struct segment *own, int peer_index)
{
    *outbox = (struct outbox){ .box = mailbox_of(own, peer_index), .segment = own };
}

void inbox_open(struct inbox *inbox, const struct segment *peers, int own_index)
{
    *inbox = (struct inbox){ .box = mailbox_of(peers, own_index) };
}

static plait_status reserve(struct outbox *outbox, bool *has, size_t first, size_t size)
{
    if (*has)
        return PLAIT_OK;
    size_t box = (size_t)((unsigned char *)outbox->box - outbox->segment->base);
    plait_status status = segment_reserve(outbox->segment, box + first, size, "messages to a peer");
    *has = status == PLAIT_OK;
    return status;
}

plait_status outbox_reserve(struct outbox *outbox, bool eager, bool slots)
{
    const size_t eager_at = offsetof(struct mailbox, eager), slots_at = offsetof(struct mailbox, slots);
    plait_status status = reserve(outbox, &outbox->has_records, 0, eager_at);
    if (status == PLAIT_OK && eager)
        status = reserve(outbox, &outbox->has_eager, eager_at, slots_at - eager_at);
    if (status == PLAIT_OK && slots)
        status = reserve(outbox, &outbox->has_slots, slots_at, sizeof(struct mailbox) - slots_at);
    return status;
}

/* `written` is ours and true; what the peer says it took has to lie between what it said last and that. */
static int room(uint64_t written, uint64_t *taken, const _Atomic uint64_t *counter, uint64_t places)
{
    if (written - *taken < places)
        return (int)(places - (written - *taken));
    uint64_t now = atomic_load_explicit(counter, memory_order_acquire);
    if (now - *taken > written - *taken)
        return -1;
    *taken = now;
    return (int)(places - (written - now));
}

int outbox_record_room(struct outbox *outbox)
{
    return room(outbox->written, &outbox->taken, &outbox->box->taken, MAILBOX_RECORDS);
}

int outbox_slot_room(struct outbox *outbox)
{
    return room(outbox->filled, &outbox->drained, &outbox->box->drained, MAILBOX_SLOTS);
}

void outbox_write(struct outbox *outbox, struct record *record, const void *bytes)
{
    uint64_t place = outbox->written % MAILBOX_RECORDS;
    struct record *line = &outbox->box->records[place];
    if (record->kind == RECORD_MESSAGE && record->size > MAILBOX_INLINE_BYTES)
        memcpy(outbox->box->eager[place], bytes, record->size);
    else if (record->kind == RECORD_MESSAGE && record->size > 0)
        memcpy(line->payload, bytes, record->size);
    line->key = record->key;
    line->size = record->size;
    line->kind = record->kind;
    line->id = record->id;
    atomic_store_explicit(&line->number, ++outbox->written, memory_order_release);
}

void outbox_fill(struct outbox *outbox, uint32_t id, const void *bytes, size_t size, bool streamed)
{
    uint64_t place = outbox->filled % MAILBOX_SLOTS;
    if (streamed)
        copy_streamed(outbox->box->slots[place], bytes, size);
    else
        memcpy(outbox->box->slots[place], bytes, size);
    outbox->box->tags[place] = (struct slot_tag){ .id = id, .size = (uint32_t)size };
    atomic_store_explicit(&outbox->box->filled, ++outbox->filled, memory_order_release);
}

bool inbox_peek(const struct inbox *inbox, struct record *record)
{
    const struct record *line = &inbox->box->records[inbox->taken % MAILBOX_RECORDS];
    if (atomic_load_explicit(&line->number, memory_order_acquire) != inbox->taken + 1)
        return false;
    record->key = line->key;
    record->size = line->size;
    record->kind = line->kind;
    record->id = line->id;
    atomic_signal_fence(
        memory_order_seq_cst); /* what is checked is this copy; the line may change meanwhile */
    return true;
}

const void *inbox_payload(const struct inbox *inbox, const struct record *record)
{
    uint64_t place = inbox->taken % MAILBOX_RECORDS;
    return record->size > MAILBOX_INLINE_BYTES ? inbox->box->eager[place]
                                               : inbox->box->records[place].payload;
}

void inbox_take(struct inbox *inbox)
{
    atomic_store_explicit(&inbox->box->taken, ++inbox->taken, memory_order_release);
}

int inbox_slots_ready(struct inbox *inbox)
{
    if (inbox->filled == inbox->drained) {
        uint64_t now = atomic_load_explicit(&inbox->box->filled, memory_order_acquire);
        if (now - inbox->drained > MAILBOX_SLOTS)
            return -1;
        inbox->filled = now;
    }
    return (int)(inbox->filled - inbox->drained);
}

const void *inbox_slot(const struct inbox *inbox, struct slot_tag *tag)
{
    uint64_t place = inbox->drained % MAILBOX_SLOTS;
    *tag = inbox->box->tags[place];
    atomic_signal_fence(memory_order_seq_cst); /* as above */
    return inbox->box->slots[place];
}

void inbox_drain(struct inbox *inbox)
{
    atomic_store_explicit(&inbox->box->drained, ++inbox->drained, memory_order_release);
}
