/* What a peer on this host can do to us: say anything where ranks meet, as guest or as hub, with any
 * file descriptors, knowing the job key or not; and write anything into its mailbox. */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/join.h"
#include "transport/mailbox.h"
#include "transport/segment.h"
#include "transport/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char job_key[JOB_KEY_BYTES] = "a key that the fuzzer knows";

struct bytes {
    const uint8_t *at;
    size_t left;
};

static uint8_t next_byte(struct bytes *bytes)
{
    if (bytes->left == 0)
        return 0;
    bytes->left--;
    return *bytes->at++;
}

static void drop_line(void *context, plait_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (strlen(line) > 2000)
        abort();
}

static plait_status drop_peer(void *context, int index, int segment, int lifeline)
{
    struct segment mapped;
    struct segment_layout layout = segment_lay_out(2, 64 << 10);
    struct segment_owner owner = { .rank = index, .pid = -1, .generation = 5 };
    (void)context;
    plait_status status = segment_map(&mapped, &layout, &owner, segment);
    segment_free(&mapped);
    close(segment);
    close(lifeline);
    return status == PLAIT_OK ? PLAIT_OK : PLAIT_START_FAILED;
}

static struct join make_join(const struct peer *const *peers, int own, int listener,
                             const unsigned char *name)
{
    return (struct join){ .peers = peers,
                          .count = 3,
                          .own = own,
                          .listener = listener,
                          .hub_name = name,
                          .generation = 5,
                          .job_key = job_key,
                          .deadline = clock_ns() + 3000000,
                          .segment = 0,
                          .lifeline = 0,
                          .take = drop_peer };
}

/* ---------------------------------------------------------------- meeting */

struct stranger {
    struct bytes bytes;
    const struct join *join;
    bool is_hub;
};

/* Says packets of the input's making, the first bytes of which may be right. */
static void babble(struct stranger *stranger, int fd, const union join_packet *right,
                   const size_t *right_sizes)
{
    for (int i = 0; i < 6 && stranger->bytes.left > 0; i++) {
        union join_packet packet = { 0 };
        unsigned char *bytes = (unsigned char *)&packet;
        uint8_t how = next_byte(&stranger->bytes);
        size_t size =
            how & 1 && right_sizes[i % 2] > 0 ? right_sizes[i % 2] : next_byte(&stranger->bytes) * 2u;
        if (how & 1)
            packet = right[i % 2];
        size_t from = how & 2 ? next_byte(&stranger->bytes) : size;
        if (size > sizeof packet)
            size = sizeof packet;
        for (size_t k = from; k < size && stranger->bytes.left > 0; k++)
            bytes[k] = next_byte(&stranger->bytes);
        int fds[16], fd_count = how >> 2 & 15;
        for (int k = 0; k < fd_count; k++)
            fds[k] = stranger->join->listener;
        join_tell(fd, &packet, size, fds, fd_count);
    }
}

static void *call_as_guest(void *argument)
{
    struct stranger *stranger = argument;
    const struct join *join = stranger->join;
    union join_packet right[2] = { 0 };
    size_t sizes[2] = { 0 }, size;
    int fd, none;
    if (join_dial(join->hub_name, &fd) != 0)
        return NULL;
    struct join_hello hello = { .head = join_head_of(JOIN_HELLO), .generation = 5, .rank = 1 };
    if (next_byte(&stranger->bytes) & 1) {
        struct pollfd entry = { .fd = fd, .events = POLLIN };
        join_tell(fd, &hello, sizeof hello, NULL, 0);
        poll(&entry, 1, 3);
        if (join_hear(fd, &right[1], &size, NULL, 0, &none) == 0) {
            struct join_enter enter = { .head = join_head_of(JOIN_ENTER) };
            join_prove(join, false, 1, hello.challenge, right[1].welcome.challenge, enter.proof);
            right[0].enter = right[1].enter = enter;
            sizes[0] = sizes[1] = sizeof enter;
        }
    } else {
        right[0].hello = hello;
        sizes[0] = sizeof hello;
    }
    babble(stranger, fd, right, sizes);
    close(fd);
    return NULL;
}

static void *answer_as_hub(void *argument)
{
    struct stranger *stranger = argument;
    const struct join *join = stranger->join;
    struct pollfd entry = { .fd = join->listener, .events = POLLIN };
    union join_packet heard, right[2] = { 0 };
    size_t size, sizes[2] = { 0 };
    int none;
    poll(&entry, 1, 3);
    int fd = accept4(join->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return NULL;
    entry.fd = fd;
    poll(&entry, 1, 3);
    if (join_hear(fd, &heard, &size, NULL, 0, &none) == 0 && (next_byte(&stranger->bytes) & 1)) {
        struct join_welcome welcome = { .head = join_head_of(JOIN_WELCOME) };
        join_prove(join, true, 1, heard.hello.challenge, welcome.challenge, welcome.proof);
        join_tell(fd, &welcome, sizeof welcome, NULL, 0);
    }
    right[0].ranks = (struct join_ranks){ .head = join_head_of(JOIN_RANKS), .count = 2, .indexes = { 0, 2 } };
    right[1].refused.head = join_head_of(JOIN_REFUSED);
    sizes[0] = sizeof right[0].ranks;
    sizes[1] = sizeof right[1].refused;
    babble(stranger, fd, right, sizes);
    close(fd);
    return NULL;
}

static void meet_a_stranger(struct bytes bytes, bool stranger_is_hub)
{
    static const struct peer all[3] = { { .rank = 0, .pid = 1 },
                                        { .rank = 1, .pid = 1 },
                                        { .rank = 2, .pid = 1 } };
    const struct peer *peers[3] = { &all[0], &all[1], &all[2] };
    unsigned char name[JOIN_NAME_BYTES];
    int listener;
    pthread_t thread;
    if (join_listen(&listener, name) != PLAIT_OK)
        return;
    struct join join = make_join(peers, stranger_is_hub ? 1 : 0, listener, name);
    struct stranger stranger = { .bytes = bytes, .join = &join, .is_hub = stranger_is_hub };
    if (pthread_create(&thread, NULL, stranger_is_hub ? answer_as_hub : call_as_guest, &stranger) == 0) {
        join_meet(&join);
        pthread_join(thread, NULL);
    }
    close(listener);
}

/* --------------------------------------------------------------- mailboxes */

enum { ROOM = 70000 };

static void damage_a_mailbox(struct bytes bytes)
{
    const struct transport *transport = &transport_inproc;
    struct endpoint *endpoints[2];
    unsigned char blobs[2][TRANSPORT_BLOB_BYTES];
    struct peer peers[2];
    for (int i = 0; i < 2; i++) {
        struct endpoint_setup setup = { .rank = i, .size = 2, .lane_size = 64 << 10 };
        if (transport->open(&setup, &endpoints[i], blobs[i]) != PLAIT_OK)
            abort();
        peers[i] = (struct peer){ .rank = i, .pid = getpid(), .blob = blobs[i] };
    }
    for (int i = 0; i < 2; i++)
        if (transport->connect(endpoints[i], peers, 2, 5, job_key, NO_DEADLINE) != PLAIT_OK)
            abort();

    /* Some traffic both ways, then the damage, then what comes of it. */
    static unsigned char from[ROOM], to[8][ROOM];
    struct transfer sends[8], recvs[8];
    for (int i = 0; i < 8; i++) {
        struct message_key key = { i & 2 ? CONTEXT_CALLERS | 1 : 1, (uint64_t)i / 4, 0 };
        uint8_t what = next_byte(&bytes);
        sends[i] =
            (struct transfer){ .peer = i & 1, .key = key, .data = from, .size = what & 3 ? what : ROOM };
        recvs[i] = (struct transfer){ .peer = what & 4 && i & 2 ? PLAIT_ANY_SOURCE : !(i & 1),
                                      .key = key,
                                      .data = to[i],
                                      .size = what & 8 ? ROOM : 100 };
        transport->send(endpoints[!(i & 1)], &sends[i]);
        transport->recv(endpoints[i & 1], &recvs[i]);
    }
    for (int i = next_byte(&bytes) % 8; i > 0; i--)
        transport->progress(endpoints[i & 1]);
    int sender = 0;
    struct board *board = transport->board(endpoints[1], 0, &sender, 1);
    struct mailbox *box =
        (struct mailbox *)(void *)(board->staging[0] + lane_offset(board->lane_size, STAGING_LANES)) + 1;
    board_free(board);
    while (bytes.left > 0) {
        size_t at = next_byte(&bytes) * 8u % offsetof(struct mailbox, eager);
        if (at >= sizeof box->records)
            at += (next_byte(&bytes) & 3) * 128u;
        for (size_t count = next_byte(&bytes) % 16; count > 0 && at < offsetof(struct mailbox, eager);
             count--)
            ((unsigned char *)box)[at++] = next_byte(&bytes);
        transport->progress(endpoints[1]);
        transport->progress(endpoints[0]);
    }
    for (int i = 0; i < 20; i++)
        transport->progress(endpoints[i & 1]);
    for (int i = 0; i < 4; i++) {
        transport->cancel(endpoints[!(i & 1)], &sends[i]);
        transport->cancel(endpoints[i & 1], &recvs[i]);
    }
    transport->close(endpoints[0]);
    transport->progress(endpoints[1]);
    transport->close(endpoints[1]);
    for (int i = 0; i < 8; i++)
        if (sends[i].status == PLAIT_IN_PROGRESS || recvs[i].status == PLAIT_IN_PROGRESS)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plait_log_set_sink(drop_line, NULL);
    struct bytes bytes = { data, size };
    uint8_t mode = next_byte(&bytes);
    if (mode % 8 == 0)
        meet_a_stranger(bytes, false);
    else if (mode % 8 == 1)
        meet_a_stranger(bytes, true);
    else
        damage_a_mailbox(bytes);
    return 0;
}
