/* Every transport held to transport.h: the same suite over each, and over each of libfabric's providers
 * that are here. Most tests drive all endpoints from one thread, which makes them exact; some give each
 * endpoint a thread of its own. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "party.h"
#include "transport/mailbox.h"
#include "transport/segment.h"
#include "transport/transport.h"

/* What is held to the suite. */
static const struct subject subjects[] = {
    { "inproc", &transport_inproc, NULL, false, NULL, false },
    { "shm", &transport_shm, NULL, false, NULL, false },
    { "chaos over inproc", &transport_inproc, NULL, false, NULL, true },
    { "chaos over shm", &transport_shm, NULL, false, NULL, true },
    { "ofi net", &transport_ofi, "net", false, NULL, false },
    { "ofi tcp", &transport_ofi, "tcp", false, NULL, false },
    { "ofi tcp;ofi_rxm", &transport_ofi, "tcp;ofi_rxm", false, NULL, false },
    { "ofi shm", &transport_ofi, "shm", false, NULL, false },
    { "ofi by messages", &transport_ofi, NULL, true, NULL, false },
};

/* Over a provider that does all that EFA may do (efa_like/). */
static const struct subject efa_subjects[] = {
    { "ofi efa", &transport_ofi, "efa", false, NULL, false },
    { "chaos over ofi efa", &transport_ofi, "efa", false, NULL, true },
    { "ofi efa whose writes take receives", &transport_ofi, "efa", false, "EFA_LIKE_RX_CQ_DATA=1", false },
    { "ofi efa without writes", &transport_ofi, "efa", false, "EFA_LIKE_NO_RMA=1", false },
    { "ofi efa by itself", &transport_ofi, NULL, false, "EFA_LIKE_AGAIN=2", false },
};

static const struct subject *subject_of(void **state)
{
    return *state;
}

/* ---------------------------------------------------------------- messages */

static const size_t sizes[] = { 0,
                                1,
                                MAILBOX_INLINE_BYTES - 1,
                                MAILBOX_INLINE_BYTES,
                                MAILBOX_INLINE_BYTES + 1,
                                63,
                                64,
                                65,
                                MAILBOX_EAGER_BYTES - 1,
                                MAILBOX_EAGER_BYTES,
                                MAILBOX_EAGER_BYTES + 1,
                                MAILBOX_SLOT_BYTES - 1,
                                MAILBOX_SLOT_BYTES,
                                MAILBOX_SLOT_BYTES + 1,
                                MAILBOX_SLOTS *MAILBOX_SLOT_BYTES,
                                MAILBOX_SLOTS *MAILBOX_SLOT_BYTES + 1,
                                LARGE };

/* Each size, receive first and send first, to another and to oneself. */
static void every_size_arrives(void **state)
{
    struct party party;
    party_open(&party, subject_of(state), 2);
    const struct transport *transport = party.transport;
    unsigned char *from = malloc(LARGE), *to = malloc(LARGE + 1);
    for (size_t i = 0; i < LENGTH(sizes) * 4; i++) {
        size_t size = sizes[i / 4];
        int target = i % 2 == 0;
        bool receive_first = i / 2 % 2 == 0;
        fill(from, size, (unsigned)i);
        memset(to, 0xee, size + 1);
        struct transfer send = message_to(target, i, from, size), recv = message_to(0, i, to, size);
        if (receive_first)
            transport->recv(party.endpoints[target], &recv);
        transport->send(party.endpoints[0], &send);
        party_settle(&party);
        if (!receive_first)
            transport->recv(party.endpoints[target], &recv);
        party_settle(&party);
        assert_int_equal(send.status, PLAIT_OK);
        assert_int_equal(send.moved, size);
        assert_int_equal(recv.status, PLAIT_OK);
        assert_int_equal(recv.moved, size);
        assert_int_equal(recv.source, 0);
        assert_filled(to, size, (unsigned)i);
        assert_int_equal(to[size], 0xee);
    }
    free(from);
    free(to);
    party_close(&party);
}

struct sunk {
    unsigned char *bytes;
    size_t total;
    bool odd; /* a piece began or ended where none may */
    size_t whole;
};

static void sink(struct transfer *transfer, size_t offset, const void *bytes, size_t size)
{
    struct sunk *sunk = transfer->context;
    memcpy(sunk->bytes + offset, bytes, size);
    sunk->total += size;
    sunk->odd |= size == 0 || (size % 64 != 0 && offset + size != sunk->whole);
}

static void sink_gets_each_byte_once(void **state)
{
    struct party party;
    party_open(&party, subject_of(state), 2);
    unsigned char *from = malloc(LARGE), *to = malloc(LARGE);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        fill(from, sizes[i], (unsigned)i);
        struct sunk sunk = { .bytes = to, .whole = sizes[i] };
        struct transfer send = message_to(1, i, from, sizes[i]), recv = message_to(0, i, NULL, sizes[i]);
        recv.sink = sink;
        recv.context = &sunk;
        party.transport->send(party.endpoints[0], &send);
        party.transport->recv(party.endpoints[1], &recv);
        party_settle(&party);
        assert_int_equal(recv.status, PLAIT_OK);
        assert_int_equal(sunk.total, sizes[i]);
        assert_false(sunk.odd);
        assert_filled(to, sizes[i], (unsigned)i);
    }
    free(from);
    free(to);
    party_close(&party);
}

/* More messages than the mailbox has room for, received in the opposite order; some large. */
static void order_of_posting_does_not_matter(void **state)
{
    enum { MESSAGES = 200, MOST = 20000 };
    struct party party;
    party_open(&party, subject_of(state), 2);
    unsigned char *from = malloc((size_t)MESSAGES * MOST), *to = malloc((size_t)MESSAGES * MOST);
    struct transfer *sends = calloc(MESSAGES, sizeof *sends), *recvs = calloc(MESSAGES, sizeof *recvs);
    for (unsigned i = 0; i < MESSAGES; i++) {
        size_t size = i % 4 == 3 ? MOST : i % 4 == 2 ? 5000 : i;
        fill(from + (size_t)i * MOST, size, i);
        sends[i] = message_to(1, i, from + (size_t)i * MOST, size);
        party.transport->send(party.endpoints[0], &sends[i]);
    }
    party_settle(&party);
    for (unsigned i = MESSAGES; i-- > 0;) {
        recvs[i] = message_to(0, i, to + (size_t)i * MOST, MOST);
        party.transport->recv(party.endpoints[1], &recvs[i]);
    }
    party_settle(&party);
    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_int_equal(sends[i].status, PLAIT_OK);
        assert_int_equal(recvs[i].status, PLAIT_OK);
        assert_int_equal(recvs[i].moved, sends[i].size);
        assert_filled(to + (size_t)i * MOST, sends[i].size, i);
    }
    free(from);
    free(to);
    free(sends);
    free(recvs);
    party_close(&party);
}

/* Both sides send more than fits before either receives. */
static void full_mailboxes_do_not_lock_up(void **state)
{
    enum { MESSAGES = 100, SIZE = 30000 };
    struct party party;
    party_open(&party, subject_of(state), 2);
    unsigned char *from = malloc(SIZE), *to = malloc(SIZE);
    struct transfer *sends = calloc(MESSAGES * 2, sizeof *sends),
                    *recvs = calloc(MESSAGES * 2, sizeof *recvs);
    fill(from, SIZE, 9);
    for (int i = 0; i < MESSAGES * 2; i++) {
        sends[i] = message_to(1 - i % 2, (uint64_t)i / 2, from, i % 3 ? SIZE : 100);
        party.transport->send(party.endpoints[i % 2], &sends[i]);
    }
    for (int i = 0; i < MESSAGES * 2; i++) {
        recvs[i] = message_to(i % 2, (uint64_t)i / 2, to, SIZE);
        party.transport->recv(party.endpoints[1 - i % 2], &recvs[i]);
    }
    party_settle(&party);
    for (int i = 0; i < MESSAGES * 2; i++) {
        assert_int_equal(sends[i].status, PLAIT_OK);
        assert_int_equal(recvs[i].status, PLAIT_OK);
        assert_int_equal(recvs[i].moved, sends[i].size);
    }
    assert_filled(to, SIZE, 9);
    free(from);
    free(to);
    free(sends);
    free(recvs);
    party_close(&party);
}

static void callers_messages_keep_their_order(void **state)
{
    struct party party;
    party_open(&party, subject_of(state), 2);
    static unsigned char large[3][LARGE];
    unsigned numbers[6], got[6];
    struct transfer sends[6], recvs[6];
    for (unsigned i = 0; i < 6; i++) { /* two tags in turns, small after large */
        numbers[i] = i;
        sends[i] = i == 2 ? callers_message(1, 0, large[0], LARGE)
                          : callers_message(1, i % 2, &numbers[i], sizeof numbers[i]);
        party.transport->send(party.endpoints[0], &sends[i]);
    }
    party_settle(&party);
    for (unsigned i = 0; i < 6; i++) {
        unsigned tag = i < 3;
        recvs[i] = i == 4 ? callers_message(0, tag, large[1], LARGE)
                          : callers_message(i % 2 ? PLAIT_ANY_SOURCE : 0, tag, &got[i], sizeof got[i]);
        party.transport->recv(party.endpoints[1], &recvs[i]);
    }
    party_settle(&party);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(recvs[i].status, PLAIT_OK);
        if (i != 4)
            assert_int_equal(got[i], i < 3 ? 2 * i + 1 : 2 * (i - 3));
    }
    assert_int_equal(recvs[4].moved, LARGE);
    party_close(&party);
}

static void any_source_takes_everyone(void **state)
{
    enum { SENDERS = 4, EACH = 50 };
    struct party party;
    party_open(&party, subject_of(state), SENDERS + 1);
    static struct transfer sends[SENDERS][EACH], recvs[SENDERS * EACH];
    static unsigned numbers[EACH], got[SENDERS * EACH];
    unsigned next[SENDERS + 1] = { 0 };
    for (unsigned i = 0; i < SENDERS * EACH; i += 2) { /* half of the receives come first */
        recvs[i] = callers_message(PLAIT_ANY_SOURCE, 3, &got[i], sizeof got[i]);
        party.transport->recv(party.endpoints[0], &recvs[i]);
    }
    for (unsigned i = 0; i < EACH; i++) {
        numbers[i] = i;
        for (int s = 0; s < SENDERS; s++) {
            sends[s][i] = callers_message(0, 3, &numbers[i], sizeof numbers[i]);
            party.transport->send(party.endpoints[s + 1], &sends[s][i]);
        }
    }
    party_settle(&party);
    for (unsigned i = 1; i < SENDERS * EACH; i += 2) {
        recvs[i] = callers_message(PLAIT_ANY_SOURCE, 3, &got[i], sizeof got[i]);
        party.transport->recv(party.endpoints[0], &recvs[i]);
    }
    party_settle(&party);
    for (unsigned half = 0; half < 2;
         half++) { /* matched in order of posting; the second half in what was left */
        for (unsigned i = half; i < SENDERS * EACH; i += 2) {
            assert_int_equal(recvs[i].status, PLAIT_OK);
            assert_in_range(recvs[i].source, 1, SENDERS);
            assert_int_equal(got[i], next[recvs[i].source]++);
        }
    }
    for (int s = 1; s <= SENDERS; s++)
        assert_int_equal(next[s], EACH);
    party_close(&party);
}

static void longer_than_room_is_truncated(void **state)
{
    struct party party;
    party_open(&party, subject_of(state), 2);
    static const size_t lengths[] = { 1, 17, 9000, LARGE };
    unsigned char *from = calloc(1, LARGE), *to = malloc(LARGE);
    for (size_t i = 0; i < LENGTH(lengths) * 2; i++) {
        size_t size = lengths[i / 2];
        memset(to, 0xee, size);
        struct transfer send = callers_message(1, 1, from, size), recv = callers_message(0, 1, to, size - 1);
        struct transfer next_send = callers_message(1, 1, from, 3), next_recv = callers_message(0, 1, to, 3);
        if (i % 2 == 0)
            party.transport->recv(party.endpoints[1], &recv);
        party.transport->send(party.endpoints[0], &send);
        party_settle(&party);
        if (i % 2 == 1)
            party.transport->recv(party.endpoints[1], &recv);
        party_settle(&party);
        assert_int_equal(send.status, PLAIT_OK);
        assert_int_equal(recv.status, PLAIT_TRUNCATED);
        assert_int_equal(recv.moved, size);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(to[k], 0xee);
        party.transport->send(party.endpoints[0], &next_send); /* it was consumed: the next one is next */
        party.transport->recv(party.endpoints[1], &next_recv);
        party_settle(&party);
        assert_int_equal(next_recv.status, PLAIT_OK);
        assert_int_equal(next_recv.moved, 3);
    }
    free(from);
    free(to);
    party_close(&party);
}

/* ----------------------------------------------------------------- cancel */

/* A message that arrives after all that shows whether the link still works. */
static void assert_link_works(struct party *party, unsigned char *to)
{
    static unsigned char from[LARGE];
    fill(from, LARGE, 3);
    struct transfer send = message_to(1, 999, from, LARGE), recv = message_to(0, 999, to, LARGE);
    party->transport->recv(party->endpoints[1], &recv);
    party->transport->send(party->endpoints[0], &send);
    party_settle(party);
    assert_int_equal(send.status, PLAIT_OK);
    assert_int_equal(recv.status, PLAIT_OK);
    assert_filled(to, LARGE, 3);
}

/* Cancels after each number of steps that a large message can have got to; the buffer is
 * freed at once, so that a touch of it shows under a sanitizer. */
static void canceled_anywhere(void **state, bool cancel_send)
{
    struct party party;
    party_open(&party, subject_of(state), 2);
    unsigned char *to = malloc(LARGE), *from = malloc(LARGE);
    for (int steps = 0; steps < 12; steps++) {
        unsigned char *own = malloc(LARGE);
        memset(own, 0, LARGE);
        struct transfer send = message_to(1, 1, cancel_send ? own : from, LARGE);
        struct transfer recv = message_to(0, 1, cancel_send ? to : own, LARGE);
        struct transfer *canceled = cancel_send ? &send : &recv, *other = cancel_send ? &recv : &send;
        struct endpoint *canceler = party.endpoints[cancel_send ? 0 : 1];
        if (cancel_send || steps % 2)
            party.transport->recv(party.endpoints[1], &recv);
        party.transport->send(party.endpoints[0], &send);
        for (int i = 0; i < steps; i++)
            party.transport->progress(party.endpoints[i % 2]);
        if (!cancel_send && steps % 2 == 0)
            party.transport->recv(party.endpoints[1], &recv);
        party.transport->cancel(canceler, canceled);
        bool was_done = canceled->status == PLAIT_OK;
        assert_true(was_done || canceled->status == PLAIT_ABORTED);
        free(own);
        memset(canceled, 0xee, sizeof *canceled);
        party_settle(&party);
        if (cancel_send && !was_done)
            assert_true(other->status == PLAIT_ABORTED || other->status == PLAIT_IN_PROGRESS);
        if (cancel_send && other->status == PLAIT_IN_PROGRESS)
            party.transport->cancel(party.endpoints[1], other);
        if (!cancel_send) /* a receive nobody wants any more leaves the send waiting, or swallows it */
            party.transport->cancel(party.endpoints[0], other);
        party_settle(&party);
        assert_link_works(&party, to);
    }
    free(from);
    free(to);
    party_close(&party);
}

static void a_canceled_send_is_withdrawn(void **state)
{
    canceled_anywhere(state, true);
}

static void a_canceled_receive_swallows(void **state)
{
    canceled_anywhere(state, false);
}

static void cancel_of_what_waits_in_queues(void **state)
{
    enum { MESSAGES = 90 };
    struct party party;
    party_open(&party, subject_of(state), 2);
    unsigned char byte = 1, *to = malloc(LARGE);
    struct transfer sends[MESSAGES], recv;
    int first = is_network(party.subject) ? 60 : MAILBOX_RECORDS; /* there, the first of the queue */
    for (int i = 0; i < MESSAGES; i++) { /* nobody takes them, so the later ones are queued */
        sends[i] = callers_message(1, 0, &byte, 1);
        party.transport->send(party.endpoints[0], &sends[i]);
    }
    while (is_network(party.subject) && sends[0].status == PLAIT_IN_PROGRESS)
        party.transport->progress(party.endpoints[0]);
    assert_int_equal(sends[MESSAGES - 1].status, PLAIT_IN_PROGRESS);
    party.transport->cancel(party.endpoints[0], &sends[MESSAGES - 1]);
    party.transport->cancel(party.endpoints[0], &sends[first]);
    party.transport->cancel(party.endpoints[0], &sends[70]);
    party.transport->cancel(party.endpoints[0], &sends[0]); /* done: stays so */
    assert_int_equal(sends[MESSAGES - 1].status, PLAIT_ABORTED);
    assert_int_equal(sends[70].status, PLAIT_ABORTED);
    assert_int_equal(sends[first].status, PLAIT_ABORTED);
    assert_int_equal(sends[0].status, PLAIT_OK);
    for (int i = 0; i < MESSAGES - 3; i++) { /* the rest arrives, without a gap in the numbers */
        recv = callers_message(0, 0, &byte, 1);
        party.transport->recv(party.endpoints[1], &recv);
        party_settle(&party);
        assert_int_equal(recv.status, PLAIT_OK);
    }
    recv = callers_message(0, 0, &byte, 1);
    party.transport->recv(party.endpoints[1], &recv);
    party_settle(&party);
    assert_int_equal(recv.status, PLAIT_IN_PROGRESS);
    party.transport->cancel(party.endpoints[1], &recv);
    assert_int_equal(recv.status, PLAIT_ABORTED);
    assert_link_works(&party, to);
    free(to);
    party_close(&party);
}

static void close_settles_what_is_left(void **state)
{
    struct party party;
    party_open(&party, subject_of(state), 2);
    unsigned char *bytes = calloc(1, LARGE);
    struct transfer sends[40], recvs[3];
    for (int i = 0; i < 40; i++) {
        sends[i] = message_to(1, (uint64_t)i, bytes, i % 2 ? 10 : LARGE);
        party.transport->send(party.endpoints[0], &sends[i]);
    }
    recvs[0] = message_to(0, 0, bytes, LARGE);
    recvs[1] = message_to(0, 77, bytes, LARGE);
    recvs[2] = callers_message(PLAIT_ANY_SOURCE, 1, bytes, LARGE);
    for (int i = 0; i < 3; i++)
        party.transport->recv(party.endpoints[1], &recvs[i]);
    party.transport->progress(party.endpoints[1]);
    party.transport->progress(party.endpoints[0]);
    for (int i = 0; i < 2; i++)
        party.transport->close(party.endpoints[i]);
    for (int i = 0; i < 40; i++)
        assert_int_equal(sends[i].status, sends[i].moved == sends[i].size ? PLAIT_OK : PLAIT_ABORTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(recvs[i].status, PLAIT_ABORTED);
    free(bytes);
}

/* ---------------------------------------------------- boards, life, nonsense */

static void boards_show_what_others_wrote(void **state)
{
    struct party party;
    party_open(&party, subject_of(state), 3);
    static const int ranks[] = { 2, 0 };
    static const int strangers[] = { 2, 3 };
    const struct transport *transport = party.transport;
    assert_int_equal(transport->channel_open(party.endpoints[0], BOARD_CHANNELS - 1), PLAIT_OK);
    assert_int_equal(transport->channel_open(party.endpoints[2], BOARD_CHANNELS - 1), PLAIT_OK);
    assert_int_equal(transport->channel_open(party.endpoints[2], BOARD_CHANNELS - 1), PLAIT_OK);
    assert_int_equal(transport->channel_open(party.endpoints[2], BOARD_CHANNELS), PLAIT_OUT_OF_RESOURCES);
    assert_null(transport->board(party.endpoints[0], 0, strangers, 2));
    struct board *left = transport->board(party.endpoints[0], BOARD_CHANNELS - 1, ranks, 2);
    struct board *right = transport->board(party.endpoints[2], BOARD_CHANNELS - 1, ranks, 2);
    assert_non_null(left);
    assert_non_null(right);
    assert_int_equal(left->lane_size, 64 << 10);
    assert_int_equal(transport->lane_open(party.endpoints[2], STAGING_LANES - 1), PLAIT_OK);
    assert_int_equal(transport->lane_open(party.endpoints[2], STAGING_LANES), PLAIT_INTERNAL);

    assert_int_equal(atomic_load(&left->seats[0]->notices[0].number), 0);
    atomic_store(&right->seats[0]->notices[1].number, 42); /* rank 2's own */
    right->staging[0][lane_offset(right->lane_size, STAGING_LANES) - 1] = 7;
    right->seat_staging[0][SEAT_STAGING_BYTES - 1] = 8;
    left->seat_staging[1][0] = 9; /* rank 0's own */
    assert_int_equal(atomic_load(&left->seats[0]->notices[1].number), 42);
    assert_int_equal(left->staging[0][lane_offset(right->lane_size, STAGING_LANES) - 1], 7);
    assert_int_equal(left->seat_staging[0][SEAT_STAGING_BYTES - 1], 8);
    assert_int_equal(right->seat_staging[1][0], 9);
    assert_int_equal((uintptr_t)left->seats[0] % 128, 0);
    assert_int_equal((uintptr_t)left->staging[0] % 4096, 0);
    assert_ptr_equal(transport->bell(party.endpoints[2]), right->bells[0]);

    /* A leaver's memory stays for those who still read it. */
    transport->close(party.endpoints[2]);
    party.endpoints[2] = NULL;
    assert_int_equal(left->staging[0][lane_offset(left->lane_size, STAGING_LANES) - 1], 7);
    assert_int_equal(transport->life(party.endpoints[0], 2), LIFE_LEFT);
    board_free(left);
    board_free(right);
    transport->channel_close(party.endpoints[0], BOARD_CHANNELS - 1);
    party_close(&party);
}

static void life_tells_who_left(void **state)
{
    struct party party;
    party_open(&party, subject_of(state), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(party.transport->life(party.endpoints[0], i), LIFE_HERE);
    party.transport->leave(party.endpoints[1]);
    assert_int_equal(party.transport->life(party.endpoints[0], 1), LIFE_LEFT);
    assert_int_equal(party.transport->life(party.endpoints[0], 2), LIFE_HERE);
    party_close(&party);
}

static void peers_that_do_not_exist_are_refused(void **state)
{
    struct party party;
    party_open(&party, subject_of(state), 2);
    static const int peers[] = { -2, PLAIT_ANY_SOURCE, 2, 1000000 };
    for (size_t i = 0; i < LENGTH(peers); i++) {
        struct transfer send = message_to(peers[i], 1, NULL, 0), recv = message_to(peers[i], 1, NULL, 0);
        party.transport->send(party.endpoints[0], &send);
        party.transport->recv(party.endpoints[0], &recv);
        assert_int_equal(send.status, PLAIT_INTERNAL);
        assert_int_equal(recv.status, PLAIT_INTERNAL);
    }
    party_close(&party);
}

/* The board gives a way to a peer's mailbox, which the tests below damage. */
static struct mailbox *mailbox_from(struct party *party, int sender, int receiver)
{
    struct board *board = party->transport->board(party->endpoints[receiver], 0, &sender, 1);
    struct mailbox *boxes =
        (struct mailbox *)(void *)(board->staging[0] + lane_offset(board->lane_size, STAGING_LANES));
    board_free(board);
    return &boxes[receiver];
}

static unsigned log_lines;

static void count_line(void *context, plait_log_level level, const char *line)
{
    (void)context;
    (void)level;
    log_lines += strstr(line, "nonsense") != NULL;
}

static const struct nonsense {
    const char *what;
    uint32_t kind;
    uint64_t size;
    uint64_t taken, drained, filled; /* counters, unless 0 */
} nonsenses[] = {
    { "a kind there is none of", 99, 0, 0, 0, 0 },
    { "no kind", 0, 0, 0, 0, 0 },
    { "an eager message too large", RECORD_MESSAGE, MAILBOX_EAGER_BYTES + 1, 0, 0, 0 },
    { "a huge one", RECORD_MESSAGE, UINT64_MAX, 0, 0, 0 },
    { "an announcement too small", RECORD_ANNOUNCE, MAILBOX_EAGER_BYTES, 0, 0, 0 },
    { "an announcement too large", RECORD_ANNOUNCE, UINT64_MAX, 0, 0, 0 },
    { "slots from nowhere", RECORD_GRANT, 0, 0, 0, 1000 },
};

static void nonsense_ends_the_link(void **state)
{
    for (size_t i = 0; i < LENGTH(nonsenses); i++) {
        struct party party;
        party_open(&party, subject_of(state), 3);
        const struct transport *transport = party.transport;
        unsigned char byte = 1, got[10];
        struct transfer first = message_to(1, 1, &byte, 1), recv = message_to(0, 2, got, 1);
        struct transfer any = callers_message(PLAIT_ANY_SOURCE, 1, got, 1), from_2 = message_to(2, 3, got, 1);
        transport->send(party.endpoints[0], &first);
        transport->recv(party.endpoints[1], &recv);
        transport->recv(party.endpoints[1], &any);
        transport->recv(party.endpoints[1], &from_2);
        party_settle(&party);

        struct mailbox *box = mailbox_from(&party, 0, 1);
        box->records[1].kind = nonsenses[i].kind;
        box->records[1].size = nonsenses[i].size;
        box->records[1].key = (struct message_key){ 5, 5, 5 };
        atomic_store(&box->records[1].number, 2);
        if (nonsenses[i].filled)
            atomic_store(&box->filled, nonsenses[i].filled);
        struct transfer second = message_to(1, 4, &byte, 1); /* rings the doorbell */
        transport->send(party.endpoints[0], &second);
        /* It also wrote over the record: damage it again. */
        box->records[1].kind = nonsenses[i].kind;
        box->records[1].size = nonsenses[i].size;
        log_lines = 0;
        plait_log_set_sink(count_line, NULL);
        party_settle(&party);
        plait_log_set_sink(NULL, NULL);
        assert_int_equal(log_lines, 1);
        assert_int_equal(recv.status, PLAIT_PEER_LOST);
        assert_int_equal(any.status, PLAIT_IN_PROGRESS);
        assert_int_equal(from_2.status, PLAIT_IN_PROGRESS);
        struct transfer late = message_to(0, 6, got, 1), later = message_to(0, 7, &byte, 1);
        transport->recv(party.endpoints[1], &late);
        transport->send(party.endpoints[1], &later);
        assert_int_equal(late.status, PLAIT_PEER_LOST);
        assert_int_equal(later.status, PLAIT_PEER_LOST);
        party_close(&party);
    }
}

/* -------------------------------------------------------- ranks as threads */

struct busy_rank {
    struct party *party;
    int rank;
    int wrong;
};

/* Everyone sends everyone messages of all sizes, sleeping on the bell when nothing moves. */
static void *exchange(void *argument)
{
    enum { ROUNDS = 30 };
    struct busy_rank *me = argument;
    struct party *party = me->party;
    struct endpoint *endpoint = party->endpoints[me->rank];
    const struct transport *transport = party->transport;
    struct bell *bell = transport->bell(endpoint);
    size_t most = 150001;
    unsigned char *from = malloc(most), *to = malloc(most * (size_t)party->size);
    struct transfer sends[RANKS_MAX], recvs[RANKS_MAX];
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t size = round % 3 == 0 ? most - round : round % 3 == 1 ? 3000 + round : round;
        fill(from, size, (unsigned)me->rank + round);
        for (int i = 0; i < party->size; i++) {
            sends[i] = message_to(i, round, from, size);
            recvs[i] = message_to(i, round, to + (size_t)i * most, size);
            transport->send(endpoint, &sends[i]);
            transport->recv(endpoint, &recvs[i]);
        }
        bool done;
        do {
            if (bell == NULL) {
                if (!transport->progress(endpoint))
                    sched_yield();
            } else {
                uint32_t seen = bell_lie_down(bell);
                if (!transport->progress(endpoint))
                    bell_sleep(bell, seen, BELL_NAP_NS);
                bell_get_up(bell);
            }
            done = true;
            for (int i = 0; i < party->size; i++)
                done &= sends[i].status != PLAIT_IN_PROGRESS && recvs[i].status != PLAIT_IN_PROGRESS;
        } while (!done);
        for (int i = 0; i < party->size; i++) {
            const unsigned char *bytes = to + (size_t)i * most;
            me->wrong += sends[i].status != PLAIT_OK || recvs[i].status != PLAIT_OK;
            for (size_t k = 0; k < size; k++)
                me->wrong += bytes[k] != (unsigned char)(k * 7 + k / 251 + (unsigned)i + round);
        }
    }
    free(from);
    free(to);
    transport->leave(endpoint);
    return NULL;
}

static void everyone_to_everyone(void **state)
{
    struct party party;
    pthread_t threads[RANKS_MAX];
    struct busy_rank ranks[RANKS_MAX];
    party_open(&party, subject_of(state), 5);
    for (int i = 0; i < party.size; i++) {
        ranks[i] = (struct busy_rank){ .party = &party, .rank = i };
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, &ranks[i]), 0);
    }
    for (int i = 0; i < party.size; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < party.size; i++)
        assert_int_equal(ranks[i].wrong, 0);
    party_close(&party);
}

static void two_worlds_in_one_process(void **state)
{
    struct party first, second;
    party_open(&first, subject_of(state), 2);
    party_open(&second, subject_of(state), 3);
    unsigned one = 1, two = 2, got_one = 0, got_two = 0;
    struct transfer sends[] = { message_to(1, 1, &one, sizeof one), message_to(1, 1, &two, sizeof two) };
    struct transfer recvs[] = { message_to(0, 1, &got_one, sizeof one),
                                message_to(0, 1, &got_two, sizeof two) };
    first.transport->send(first.endpoints[0], &sends[0]);
    second.transport->send(second.endpoints[0], &sends[1]);
    second.transport->recv(second.endpoints[1], &recvs[1]);
    first.transport->recv(first.endpoints[1], &recvs[0]);
    party_settle(&first);
    party_settle(&second);
    assert_int_equal(got_one, 1);
    assert_int_equal(got_two, 2);
    party_close(&first);
    party_close(&second);
}

static int open_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct pollfd entry = { .fd = fd };
        count += poll(&entry, 1, 0) >= 0 && (entry.revents & POLLNVAL) == 0;
    }
    return count;
}

static void nothing_is_left_after_close(void **state)
{
    struct party party;
    int before = open_fds();
    for (int i = 0; i < 5; i++) {
        party_open(&party, subject_of(state), 4);
        assert_true(is_network(party.subject) || open_fds() <= before + 4 * 5);
        party_close(&party);
    }
    assert_int_equal(open_fds(), before);
}

static void endpoints_that_never_met_close(void **state)
{
    const struct subject *subject = subject_of(state);
    const struct transport *transport = subject->transport;
    unsigned char blob[TRANSPORT_BLOB_BYTES];
    struct endpoint *endpoint = NULL;
    struct endpoint_setup setup = setup_of(subject, 0, 1);
    assert_int_equal(transport->open(&setup, &endpoint, blob), PLAIT_OK);
    assert_false(transport->progress(endpoint));
    assert_null(transport->bell(endpoint));
    transport->leave(endpoint);
    transport->close(endpoint);
    transport->close(NULL);
    struct party alone;
    party_open(&alone, subject, 1);
    party_close(&alone);
}

static const struct {
    const char *name;
    CMUnitTestFunction function;
    bool needs_board;
    bool at_once; /* counts on what is queued being taken up at once */
} cases[] = {
    { "endpoints that never met close", endpoints_that_never_met_close, false, false },
    { "every size arrives", every_size_arrives, false, false },
    { "a sink gets each byte once", sink_gets_each_byte_once, false, false },
    { "the order of posting does not matter", order_of_posting_does_not_matter, false, false },
    { "full mailboxes do not lock up", full_mailboxes_do_not_lock_up, false, false },
    { "callers' messages keep their order", callers_messages_keep_their_order, false, false },
    { "any source takes everyone", any_source_takes_everyone, false, false },
    { "longer than room is truncated", longer_than_room_is_truncated, false, false },
    { "a canceled send is withdrawn", a_canceled_send_is_withdrawn, false, false },
    { "a canceled receive swallows", a_canceled_receive_swallows, false, false },
    { "cancel of what waits in queues", cancel_of_what_waits_in_queues, false, true },
    { "close settles what is left", close_settles_what_is_left, false, false },
    { "boards show what others wrote", boards_show_what_others_wrote, true, false },
    { "life tells who left", life_tells_who_left, false, false },
    { "peers that do not exist are refused", peers_that_do_not_exist_are_refused, false, false },
    { "nonsense ends the link", nonsense_ends_the_link, true, false },
    { "everyone to everyone", everyone_to_everyone, false, false },
    { "two worlds in one process", two_worlds_in_one_process, false, false },
    { "nothing is left after close", nothing_is_left_after_close, false, false },
};

/* Does libfabric offer the provider here? */
static bool is_here(const struct subject *subject)
{
    set_environment(subject);
    struct endpoint_setup setup = setup_of(subject, 0, 1);
    unsigned char blob[TRANSPORT_BLOB_BYTES];
    struct endpoint *endpoint;
    if (subject->transport->open(&setup, &endpoint, blob) != PLAIT_OK) {
        printf("%s is left out: %s\n", subject->name, plait_last_error());
        return false;
    }
    subject->transport->close(endpoint);
    return true;
}

enum { CASES = LENGTH(cases), MOST = CASES * (LENGTH(subjects) + LENGTH(efa_subjects)) };
static struct CMUnitTest tests[MOST];
static char names[MOST][80];

static size_t add_cases(const struct subject *subject, size_t used)
{
    for (size_t k = 0; k < CASES; k++) {
        if ((cases[k].needs_board && (is_network(subject) || subject->chaos)) ||
            (cases[k].at_once && subject->chaos))
            continue;
        snprintf(names[used], sizeof names[used], "%s: %s", subject->name, cases[k].name);
        tests[used] = (struct CMUnitTest){ .name = names[used],
                                           .test_func = cases[k].function,
                                           .initial_state = (void *)(uintptr_t)subject };
        used++;
    }
    return used;
}

/* Without an argument: the transports through memory; with "ofi": the network; with "efa": the made-up one,
 * which has to be there. */
int main(int count, char **arguments)
{
    size_t used = 0;
    cmocka_set_test_filter(getenv("PLAIT_TEST_ONLY"));
    const char *which = count > 1 ? arguments[1] : "";
    if (strcmp(which, "efa") == 0) {
        char seed[20];
        snprintf(seed, sizeof seed, "%u", party_seed());
        setenv("EFA_LIKE_SEED", seed, 1);
        setenv("FI_PROVIDER_PATH", EFA_LIKE_DIR, 1);
        for (size_t i = 0; i < LENGTH(efa_subjects); i++) {
            if (!is_here(&efa_subjects[i]))
                return 1;
            used = add_cases(&efa_subjects[i], used);
        }
    }
    for (size_t i = 0; i < LENGTH(subjects) && strcmp(which, "efa") != 0; i++)
        if (is_network(&subjects[i]) == (strcmp(which, "ofi") == 0) && is_here(&subjects[i]))
            used = add_cases(&subjects[i], used);
    return check_run("transport", tests, used);
}
