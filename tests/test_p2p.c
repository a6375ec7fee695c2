/* Send and receive: types, sizes, tags, order, any source, too long, too short, beside collectives. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

enum { LARGE = 300000 }; /* elements: never taken over at once */

/* One message from rank 0 to the last, checked with its margins. */
static bool pass(struct rank *rank, struct guarded *room, plait_type type, size_t count, size_t shift,
                 uint64_t seed)
{
    const struct data data = { .type = type, .op = PLAIT_SUM, .seed = seed };
    const size_t size = count * data_size(type);
    const int last = rank->size - 1, tag = (int)(seed % 0x7fffffff);
    unsigned char *at = guarded_place(room, size, shift, seed & 1);
    rank_doing(rank, "message of %zu %s, shift %zu", count, plait_type_name(type), shift);
    if (rank->number == 0) {
        data_fill(&data, 0, 0, count, at);
        return rank_ok(rank, plait_send(rank->comm, size == 0 ? NULL : at, count, type, last, tag, NULL),
                       "send");
    }
    if (rank->number != last)
        return true;
    int source = -7;
    size_t received = 7777, wrong = 0;
    memset(at, 0xee, size);
    return rank_ok(
               rank,
               plait_recv(rank->comm, size == 0 ? NULL : at, count, type, 0, tag, &source, &received, NULL),
               "receive") &&
           rank_check(rank, source == 0 && received == count, "source %d, %zu elements", source, received) &&
           rank_check(rank, data_equal(&data, 0, 0, count, at, &wrong), "element %zu is wrong", wrong) &&
           rank_check(rank, guarded_intact(room), "bytes around the buffer were written");
}

static void run_sizes(struct rank *rank)
{
    static const size_t sizes[] = { 0, 1, 2, 7, 39, 41, 127, 1021, 4097, 8191, 65537, LARGE };
    struct guarded room;
    if (!rank_check(rank, guarded_open(&room, LARGE * DATA_MOST_SIZE + 64), "no memory"))
        return;
    bool good = true;
    for (int type = 0; type < DATA_TYPES && good; type++)
        for (size_t i = 0; i < LENGTH(sizes) && good; i++)
            for (size_t shift = 0; shift < 2 && good; shift++)
                good = pass(rank, &room, data_types[type], sizes[i], shift,
                            mix((uint64_t)type * 100 + i * 2 + shift));
    guarded_close(&room);
}

/* Small messages of different tags may be taken in any order. */
static void run_tags(struct rank *rank)
{
    enum { TAGS = 50 };
    if (rank->number == 0) {
        for (int tag = 0; tag < TAGS; tag++)
            rank_ok(rank, plait_send(rank->comm, &tag, 1, PLAIT_I32, 1, tag, NULL), "send");
        return;
    }
    for (int tag = TAGS - 1; tag >= 0; tag--) {
        int value = -1;
        rank_doing(rank, "receiving tag %d", tag);
        rank_ok(rank, plait_recv(rank->comm, &value, 1, PLAIT_I32, 0, tag, NULL, NULL, NULL), "receive");
        rank_check(rank, value == tag, "tag %d brought %d", tag, value);
    }
}

/* Large ones too, when the sends are works. */
static void run_large_tags(struct rank *rank)
{
    enum { TAGS = 4 };
    static int32_t *data[TAGS][2];
    plait_work *works[TAGS] = { NULL };
    for (int tag = 0; tag < TAGS; tag++) {
        data[tag][rank->number] = malloc(LARGE * 4);
        for (int i = 0; i < LARGE; i++)
            data[tag][rank->number][i] = rank->number == 0 ? tag * LARGE + i : -1;
    }
    for (int i = 0; i < TAGS; i++) {
        const int tag = rank->number == 0 ? i : TAGS - 1 - i;
        int32_t *at = data[tag][rank->number];
        if (rank->number == 0)
            rank_ok(rank, plait_send(rank->comm, at, LARGE, PLAIT_I32, 1, tag, &works[tag]), "send");
        else
            rank_ok(rank, plait_recv(rank->comm, at, LARGE, PLAIT_I32, 0, tag, NULL, NULL, NULL), "receive");
    }
    for (int tag = 0; tag < TAGS; tag++) {
        if (rank->number == 0)
            rank_ok(rank, plait_work_wait(works[tag], -1), "waiting for a send");
        plait_work_release(works[tag]);
        for (int i = 0; i < LARGE; i++)
            if (!rank_check(rank, data[tag][rank->number][i] == tag * LARGE + i, "tag %d, element %d is %d",
                            tag, i, data[tag][rank->number][i]))
                break;
        free(data[tag][rank->number]);
    }
}

/* One tag: in the order sent, whatever the sizes are. */
static void run_order(struct rank *rank)
{
    const int messages = 10 * test_settings()->scale;
    uint32_t *data = calloc(40000, 4);
    for (int i = 0; i < messages && !rank_failed(rank); i++) {
        const uint64_t random = mix((uint64_t)i);
        const size_t count = random % 16 == 0 ? 1 + (random >> 8) % 40000 : 1 + (random >> 8) % 30;
        rank_doing(rank, "message %d of %zu elements", i, count);
        if (rank->number == 0) {
            data[0] = (uint32_t)i;
            data[count - 1] = (uint32_t)i;
            rank_ok(rank, plait_send(rank->comm, data, count, PLAIT_U32, 1, 5, NULL), "send");
        } else {
            size_t received = 0;
            rank_ok(rank, plait_recv(rank->comm, data, 40000, PLAIT_U32, 0, 5, NULL, &received, NULL),
                    "receive");
            rank_check(rank, received == count && data[0] == (uint32_t)i && data[count - 1] == (uint32_t)i,
                       "message %d: %zu elements, not %zu; it says %u and %u", i, received, count, data[0],
                       data[count - 1]);
        }
    }
    free(data);
}

/* Rank 0 takes from whoever comes; each says who it is. */
static void run_any_source(struct rank *rank)
{
    enum { EACH = 40 };
    int seen[RANKS_MOST] = { 0 };
    if (rank->number != 0) {
        for (int i = 0; i < EACH; i++) {
            int words[2] = { rank->number, i };
            rank_doing(rank, "sending %d", i);
            rank_ok(rank, plait_send(rank->comm, words, 2, PLAIT_I32, 0, 9, NULL), "send");
        }
        return;
    }
    for (int i = 0; i < EACH * (rank->size - 1); i++) {
        int words[2] = { -1, -1 }, source = -1;
        rank_doing(rank, "receiving %d from any", i);
        if (!rank_ok(rank,
                     plait_recv(rank->comm, words, 2, PLAIT_I32, PLAIT_ANY_SOURCE, 9, &source, NULL, NULL),
                     "receive from any") ||
            !rank_check(rank, source >= 1 && source < rank->size && words[0] == source, "from %d, it says %d",
                        source, words[0]) ||
            !rank_check(rank, words[1] == seen[source]++, "rank %d's message %d came out of order", source,
                        words[1]))
            return;
    }
}

/* A work for any source tells where its message came from. */
static void run_any_source_work(struct rank *rank)
{
    static int32_t big[LARGE];
    if (rank->number == 1) {
        sleep_ms(20);
        memset(big, 1, sizeof big);
        rank_ok(rank, plait_send(rank->comm, big, LARGE, PLAIT_I32, 0, 0, NULL), "send");
    } else if (rank->number == 0) {
        int32_t *got = calloc(LARGE + 10, 4);
        plait_work *work = NULL;
        rank_ok(rank,
                plait_recv(rank->comm, got, LARGE + 10, PLAIT_I32, PLAIT_ANY_SOURCE, 0, NULL, NULL, &work),
                "receive");
        rank_check(rank, plait_work_source(work) == -1 && plait_work_count(work) == 0,
                   "a source before it came");
        rank_ok(rank, plait_work_wait(work, -1), "waiting");
        rank_check(rank, plait_work_source(work) == 1, "source %d", plait_work_source(work));
        rank_check(rank, plait_work_count(work) == LARGE, "%zu elements", plait_work_count(work));
        rank_check(rank, got[0] == 0x01010101 && got[LARGE - 1] == 0x01010101 && got[LARGE] == 0,
                   "wrong data");
        plait_work_release(work);
        free(got);
    }
}

/* A receive that is too short fails alone: its buffer is untouched, the next message comes. */
static void run_truncated(struct rank *rank)
{
    static const size_t sizes[] = { 2, 100, LARGE };
    int32_t *data = malloc(LARGE * 4);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        const size_t count = sizes[i];
        rank_doing(rank, "a message of %zu for %zu", count, count - 1);
        memset(data, rank->number == 0 ? 3 : 4, LARGE * 4);
        if (rank->number == 0) {
            rank_ok(rank, plait_send(rank->comm, data, count, PLAIT_I32, 1, 1, NULL),
                    "send of what is too long");
            rank_ok(rank, plait_send(rank->comm, data, count, PLAIT_I32, 1, 1, NULL), "send");
        } else {
            size_t received = 0;
            rank_status(rank, plait_recv(rank->comm, data, count - 1, PLAIT_I32, 0, 1, NULL, NULL, NULL),
                        PLAIT_TRUNCATED, "too short a receive");
            char number[24];
            snprintf(number, sizeof number, "%zu", count);
            rank_check(rank, plait_last_error()[0] != '\0', "no sentence");
            rank_check(rank, data[0] == 0x04040404 && data[count - 1] == 0x04040404,
                       "the buffer was written");
            rank_ok(rank, plait_recv(rank->comm, data, count, PLAIT_I32, 0, 1, NULL, &received, NULL),
                    "the next one");
            rank_check(rank, received == count && data[count - 1] == 0x03030303, "%zu elements, the last %x",
                       received, (unsigned)data[count - 1]);
        }
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    }
    free(data);
}

/* A message shorter than the receive leaves the rest alone. */
static void run_short(struct rank *rank)
{
    static const size_t sizes[] = { 0, 1, 5000, LARGE - 1 };
    unsigned char *data = malloc(LARGE);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        const size_t count = sizes[i];
        size_t received = 99;
        memset(data, rank->number + 1, LARGE);
        rank_doing(rank, "a message of %zu for %d", count, LARGE);
        if (rank->number == 0) {
            rank_ok(rank, plait_send(rank->comm, data, count, PLAIT_U8, 1, 0, NULL), "send");
        } else {
            rank_ok(rank, plait_recv(rank->comm, data, LARGE, PLAIT_U8, 0, 0, NULL, &received, NULL),
                    "receive");
            rank_check(rank, received == count, "%zu elements, not %zu", received, count);
            rank_check(rank, (count == 0 || data[count - 1] == 1) && data[count] == 2,
                       "the wrong bytes were written");
        }
    }
    free(data);
}

/* Everyone sends to the right and receives from the left at once. */
static void run_exchange(struct rank *rank)
{
    const int right = (rank->number + 1) % rank->size, left = (rank->number + rank->size - 1) % rank->size;
    static const size_t sizes[] = { 1, 1000, LARGE };
    int32_t *out = malloc(LARGE * 4), *in = malloc(LARGE * 4);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        plait_work *sent = NULL, *received = NULL;
        memset(out, rank->number + 1, sizes[i] * 4);
        rank_doing(rank, "exchange of %zu", sizes[i]);
        rank_ok(rank, plait_send(rank->comm, out, sizes[i], PLAIT_I32, right, 3, &sent), "send");
        rank_ok(rank, plait_recv(rank->comm, in, sizes[i], PLAIT_I32, left, 3, NULL, NULL, &received),
                "receive");
        rank_ok(rank, plait_work_wait(sent, -1), "waiting for the send");
        rank_ok(rank, plait_work_wait(received, -1), "waiting for the receive");
        const int32_t wanted = (left + 1) * 0x01010101;
        rank_check(rank, in[0] == wanted && in[sizes[i] - 1] == wanted, "got %x, not %x", (unsigned)in[0],
                   (unsigned)wanted);
        plait_work_release(sent);
        plait_work_release(received);
    }
    free(out);
    free(in);
}

/* Messages and collectives on one communicator do not see each other. */
static void run_beside_collectives(struct rank *rank)
{
    static int32_t in[2][LARGE], out[2][LARGE];
    int32_t *got = in[rank->number], *gave = out[rank->number];
    plait_work *received = NULL, *sent = NULL;
    const int peer = 1 - rank->number;
    for (int i = 0; i < LARGE; i++)
        gave[i] = rank->number * LARGE + i;
    rank_ok(rank, plait_recv(rank->comm, got, LARGE, PLAIT_I32, peer, 8, NULL, NULL, &received), "receive");
    for (int i = 0; i < 50; i++) {
        float value = 1, sum = 0;
        rank_doing(rank, "all-reduce %d with a receive open", i);
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_F32, PLAIT_SUM, NULL), "all-reduce");
        rank_check(rank, sum == 2, "the sum is %g", (double)sum);
        if (i == 25)
            rank_ok(rank, plait_send(rank->comm, gave, LARGE, PLAIT_I32, peer, 8, &sent), "send");
    }
    rank_doing(rank, "waiting for the exchange");
    rank_ok(rank, plait_work_wait(received, -1), "waiting for the receive");
    rank_ok(rank, plait_work_wait(sent, -1), "waiting for the send");
    rank_check(rank, got[0] == peer * LARGE && got[LARGE - 1] == peer * LARGE + LARGE - 1, "wrong data");
    plait_work_release(received);
    plait_work_release(sent);
}

/* A wait with a limit comes back; the receive goes on and gets its message. */
static void run_patience(struct rank *rank)
{
    int value = 0;
    if (rank->number == 1) {
        plait_work *work = NULL;
        rank_ok(rank, plait_recv(rank->comm, &value, 1, PLAIT_I32, 0, 0, NULL, NULL, &work), "receive");
        const int64_t start = now_ns();
        rank_status(rank, plait_work_wait(work, 50), PLAIT_IN_PROGRESS, "waiting 50 ms for nothing");
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms >= 49 && took_ms < 1000, "a wait of 50 ms took %lld ms", (long long)took_ms);
        rank_status(rank, plait_work_wait(work, 0), PLAIT_IN_PROGRESS, "waiting 0 ms");
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        rank_ok(rank, plait_work_wait(work, 10000), "waiting");
        rank_check(rank, value == 42, "got %d", value);
        plait_work_release(work);
        return;
    }
    value = 42;
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    rank_ok(rank, plait_send(rank->comm, &value, 1, PLAIT_I32, 1, 0, NULL), "send");
}

/* Works of sends between all pairs at once, received in another order. */
enum { CROWD_EACH = 12, CROWD_MOST = 20000 };

struct message {
    int peer, tag;
    size_t count;
    unsigned char fill;
    unsigned char *bytes;
    plait_work *work;
};

/* What `from` sends to `to` under `tag`, as both sides know it. */
static struct message message_of(int from, int to, int tag, int peer)
{
    const uint64_t random = mix((uint64_t)((from * RANKS_MOST + to) * CROWD_EACH + tag));
    return (struct message){ .peer = peer,
                             .tag = tag,
                             .count = 1 + random % (random >> 63 ? 50 : CROWD_MOST),
                             .fill = (unsigned char)(1 + (random >> 20 & 0x7f)) };
}

static void start_message(struct rank *rank, struct message *message, bool sends)
{
    message->bytes = malloc(CROWD_MOST + 1);
    memset(message->bytes, sends ? message->fill : 0, CROWD_MOST + 1);
    if (sends)
        rank_ok(rank,
                plait_send(rank->comm, message->bytes, message->count, PLAIT_U8, message->peer, message->tag,
                           &message->work),
                "send");
    else
        rank_ok(rank,
                plait_recv(rank->comm, message->bytes, CROWD_MOST, PLAIT_U8, message->peer, message->tag,
                           NULL, NULL, &message->work),
                "receive");
}

static void end_message(struct rank *rank, struct message *message, bool sends)
{
    rank_doing(rank, "%s rank %d, tag %d, %zu bytes", sends ? "sending to" : "receiving from", message->peer,
               message->tag, message->count);
    rank_ok(rank, plait_work_wait(message->work, -1), "waiting");
    if (!sends) {
        const size_t count = plait_work_count(message->work);
        rank_check(rank, count == message->count && plait_work_source(message->work) == message->peer,
                   "%zu bytes from rank %d", count, plait_work_source(message->work));
        rank_check(rank,
                   message->bytes[0] == message->fill &&
                       message->bytes[message->count - 1] == message->fill &&
                       message->bytes[message->count] == 0,
                   "the bytes are wrong");
    }
    plait_work_release(message->work);
    free(message->bytes);
}

static void run_crowd(struct rank *rank)
{
    struct message *out = calloc((size_t)(CROWD_EACH * rank->size), sizeof *out);
    struct message *in = calloc((size_t)(CROWD_EACH * rank->size), sizeof *in);
    int count = 0;
    for (int peer = 0; peer < rank->size; peer++)
        for (int tag = 0; tag < CROWD_EACH && peer != rank->number; tag++) {
            out[count] = message_of(rank->number, peer, tag, peer);
            in[count++] = message_of(peer, rank->number, tag, peer);
        }
    for (int i = 0; i < count; i++)
        start_message(rank, &out[i], true);
    for (int i = count - 1; i >= 0; i--)
        start_message(rank, &in[i], false);
    for (int i = 0; i < count; i++) {
        end_message(rank, &out[i], true);
        end_message(rank, &in[i], false);
    }
    free(out);
    free(in);
}

/* A receive that nobody serves ends at the deadline and names the peer. */
static void run_deadline(struct rank *rank)
{
    if (rank->number == 0) {
        int value;
        const int64_t start = now_ns();
        rank_ok(rank, plait_comm_set_timeout(rank->comm, 200), "setting the deadline");
        rank_status(rank, plait_recv(rank->comm, &value, 1, PLAIT_I32, 1, 77, NULL, NULL, NULL),
                    PLAIT_TIMED_OUT, "a receive without a send");
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms >= 190 && took_ms < 2000, "a deadline of 200 ms took %lld ms",
                   (long long)took_ms);
        rank_says(rank, "rank 1");
    }
    rank_meet(rank);
}

#define BOTH(title, function, ranks)                                                                         \
    { title, function, { .way = RANKS_THREADS, .size = ranks }, NULL },                                      \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks }, NULL                                          \
    }

static const struct scenario scenarios[] = {
    BOTH("all types and sizes", run_sizes, 2),       BOTH("all types and sizes, past a third", run_sizes, 3),
    BOTH("tags in any order", run_tags, 2),          BOTH("large tags in any order", run_large_tags, 2),
    BOTH("one tag in the order sent", run_order, 2), BOTH("any source", run_any_source, 2),
    BOTH("any source", run_any_source, 5),           BOTH("any source as a work", run_any_source_work, 3),
    BOTH("too long a message", run_truncated, 2),    BOTH("a message shorter than its receive", run_short, 2),
    BOTH("everyone to the right", run_exchange, 2),  BOTH("everyone to the right", run_exchange, 3),
    BOTH("everyone to the right", run_exchange, 8),  BOTH("beside collectives", run_beside_collectives, 2),
    BOTH("a wait with a limit", run_patience, 2),    BOTH("all pairs at once", run_crowd, 2),
    BOTH("all pairs at once", run_crowd, 5),         BOTH("a receive without a send", run_deadline, 2),
};

int main(void)
{
    return scenarios_run("point to point", scenarios, LENGTH(scenarios));
}
