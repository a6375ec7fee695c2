#include "transport/join.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

static const uint64_t magic = UINT64_C(0x316e6a74696c70); /* "plitjn1" */

enum { FDS_MOST = 2 * JOIN_BATCH };

static socklen_t name_address(struct sockaddr_un *address, const unsigned char name[JOIN_NAME_BYTES])
{
    char hex[2 * JOIN_NAME_BYTES + 1];
    sodium_bin2hex(hex, sizeof hex, name, JOIN_NAME_BYTES);
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    /* The zero byte in front makes the name abstract: the system forgets it with the socket. */
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "plait-%s", hex);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

plait_status join_listen(int *listener, unsigned char name[JOIN_NAME_BYTES])
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return failure_errno(status_of_errno(errno), errno,
                             "can't make the socket on which ranks of one host meet");
    randombytes_buf(name, JOIN_NAME_BYTES);
    socklen_t size = name_address(&address, name);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, SOMAXCONN) != 0) {
        plait_status status = failure_errno(status_of_errno(errno), errno,
                                            "can't listen on the socket on which ranks of one host meet");
        close(fd);
        return status;
    }
    *listener = fd;
    return PLAIT_OK;
}

int join_dial(const unsigned char name[JOIN_NAME_BYTES], int *connection)
{
    struct sockaddr_un address;
    socklen_t size = name_address(&address, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, (struct sockaddr *)&address, size) != 0) {
        int error = errno;
        close(fd);
        return error;
    }
    *connection = fd;
    return 0;
}

plait_status join_meet(const struct join *join)
{
    if (join->count == 1)
        return PLAIT_OK;
    return join->own == 0 ? join_host(join) : join_visit(join);
}

/* ------------------------------------------------------------ what is said */

struct join_head join_head_of(enum join_kind kind)
{
    return (struct join_head){ .magic = magic, .version = JOIN_VERSION, .kind = (uint32_t)kind };
}

static size_t packet_size(enum join_kind kind)
{
    switch (kind) {
    case JOIN_HELLO: return sizeof(struct join_hello);
    case JOIN_WELCOME: return sizeof(struct join_welcome);
    case JOIN_ENTER: return sizeof(struct join_enter);
    case JOIN_RANKS: return sizeof(struct join_ranks);
    case JOIN_REFUSED: return sizeof(struct join_refused);
    }
    return 0;
}

const char *join_check(const union join_packet *packet, size_t size, enum join_kind kind)
{
    if (size < sizeof packet->head || packet->head.magic != magic)
        return "it does not speak Plait's language";
    if (packet->head.version != JOIN_VERSION)
        return "it is of another version of Plait";
    if (packet->head.kind != (uint32_t)kind || size != packet_size(kind))
        return "it said something else than was its turn to say";
    return NULL;
}

void join_clean_text(char text[JOIN_TEXT_BYTES])
{
    text[JOIN_TEXT_BYTES - 1] = '\0';
    for (char *at = text; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

/* Everything that a proof is about. */
struct statement {
    char role[16];
    uint64_t generation;
    uint32_t version;
    int32_t hub_rank, guest_rank;
    uint32_t zero;
    unsigned char guest_challenge[JOIN_CHALLENGE_BYTES], hub_challenge[JOIN_CHALLENGE_BYTES];
};

static struct statement state(const struct join *join, bool hub, int32_t guest_rank,
                              const unsigned char *guest_challenge, const unsigned char *hub_challenge)
{
    struct statement statement = { .generation = join->generation,
                                   .version = JOIN_VERSION,
                                   .hub_rank = join->peers[0]->rank,
                                   .guest_rank = guest_rank };
    snprintf(statement.role, sizeof statement.role, "shm %s", hub ? "hub" : "guest");
    memcpy(statement.guest_challenge, guest_challenge, JOIN_CHALLENGE_BYTES);
    memcpy(statement.hub_challenge, hub_challenge, JOIN_CHALLENGE_BYTES);
    return statement;
}

void join_prove(const struct join *join, bool hub, int32_t guest_rank, const unsigned char *guest_challenge,
                const unsigned char *hub_challenge, unsigned char proof[PROOF_BYTES])
{
    struct statement statement = state(join, hub, guest_rank, guest_challenge, hub_challenge);
    job_key_prove(join->job_key, &statement, sizeof statement, proof);
}

bool join_proves(const struct join *join, bool hub, int32_t guest_rank, const unsigned char *guest_challenge,
                 const unsigned char *hub_challenge, const unsigned char proof[PROOF_BYTES])
{
    struct statement statement = state(join, hub, guest_rank, guest_challenge, hub_challenge);
    return job_key_check(join->job_key, &statement, sizeof statement, proof) != 0;
}

/* ----------------------------------------------------------------- packets */

int join_tell(int socket, const void *packet, size_t size, const int *fds, int fd_count)
{
    _Alignas(struct cmsghdr) unsigned char control[CMSG_SPACE(FDS_MOST * sizeof(int))] = { 0 };
    struct iovec piece = { .iov_base = (void *)(uintptr_t)packet, .iov_len = size };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
    if (fd_count > 0) {
        size_t bytes = (size_t)fd_count * sizeof(int);
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), fds, bytes);
    }
    ssize_t sent;
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

void join_close_fds(int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Takes the file descriptors out of what came; closes those too many. */
static int collect_fds(struct msghdr *message, int *fds, int fd_most, int *fd_count)
{
    int surplus = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            if (*fd_count < fd_most) {
                fds[(*fd_count)++] = fd;
            } else {
                close(fd);
                surplus++;
            }
        }
    }
    return surplus;
}

int join_hear(int socket, union join_packet *packet, size_t *size, int *fds, int fd_most, int *fd_count)
{
    _Alignas(struct cmsghdr) unsigned char control[CMSG_SPACE(FDS_MOST * sizeof(int))];
    struct iovec piece = { .iov_base = packet, .iov_len = sizeof *packet };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
    if (fd_most > 0) { /* without room for them, the system drops what a stranger sends along */
        message.msg_control = control;
        message.msg_controllen = sizeof control;
    }
    *fd_count = 0;
    memset(packet, 0, sizeof *packet);
    ssize_t got;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno;
    int surplus = collect_fds(&message, fds, fd_most, fd_count);
    int error = 0;
    if (got == 0)
        error = EPIPE;
    else if (fd_most > 0 && surplus == 0 && (message.msg_flags & MSG_CTRUNC) && *fd_count < fd_most)
        error = EMFILE;
    else if (surplus > 0 || (message.msg_flags & (MSG_TRUNC | (fd_most > 0 ? MSG_CTRUNC : 0))))
        error = EPROTO;
    if (error != 0) {
        join_close_fds(fds, *fd_count);
        *fd_count = 0;
    }
    *size = (size_t)got;
    return error;
}

plait_status join_out_of_fds(const struct join *join, const char *what)
{
    return failure(
        PLAIT_OUT_OF_RESOURCES,
        "rank %d has no file descriptors left for %s; to meet %d ranks of one host takes up to %d, and %d "
        "afterwards: raise the limit (ulimit -n, now %ld)",
        join->peers[join->own]->rank, what, join->count, 3 * join->count + 2, join->count,
        sysconf(_SC_OPEN_MAX));
}

void join_wait(int socket, int64_t deadline)
{
    int64_t left = deadline_left_ms(deadline);
    struct pollfd entry = { .fd = socket, .events = POLLIN };
    poll(&entry, 1, left < 250 ? (int)left : 250);
}

bool join_trusts(int socket, char *who, size_t who_size)
{
    struct ucred other;
    socklen_t size = sizeof other;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0) {
        snprintf(who, who_size, "a process that the system can't name");
        return false;
    }
    snprintf(who, who_size, "process %d of user %u", (int)other.pid, (unsigned)other.uid);
    return other.uid == geteuid() || other.uid == 0;
}
