/* How the ranks of a host get hold of each other's segments: over a Unix
 * socket with an abstract name, which leaves nothing behind. The lowest rank is the hub.
 *
 *     guest -> hub   HELLO    who I am, a challenge
 *     hub -> guest   WELCOME  proof of the job key, a challenge
 *     guest -> hub   ENTER    proof of the job key; my segment and my lifeline (file descriptors)
 *     hub -> guest   RANKS    segments and lifelines of some ranks, until all are told
 *     hub -> guest   REFUSED  instead: why not
 *
 * Whoever does not prove the key, talks nonsense or says nothing is turned away with one log
 * line, and the hub goes on waiting.
 *
 * A *lifeline* is a file descriptor that polls readable or hung up once its rank's process is gone. */
#ifndef PLAIT_TRANSPORT_JOIN_H
#define PLAIT_TRANSPORT_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bootstrap/bootstrap.h"
#include "transport/transport.h"

enum {
    JOIN_NAME_BYTES = 16,
    JOIN_CHALLENGE_BYTES = 32,
    JOIN_TEXT_BYTES = 256,
    JOIN_BATCH = 8,
    JOIN_VERSION = 1
};

struct join {
    const struct peer *const *peers; /* in order of rank; 0 is the hub */
    int count;
    int own;                       /* this rank's place among them */
    int listener;                  /* this rank's socket */
    const unsigned char *hub_name; /* JOIN_NAME_BYTES */
    uint64_t generation;
    const unsigned char *job_key;
    int64_t deadline;
    int segment, lifeline; /* what the others get; stay the caller's */
    const char
        *trouble; /* instead of them: why this rank has none, for the others' sentences. NULL: it has */

    /* Takes over a peer's two file descriptors. A failure ends the joining. */
    plait_status (*take)(void *context, int peer_index, int segment, int lifeline);
    void *context;
};

/* A socket that listens under a name drawn at random. */
plait_status join_listen(int *listener, unsigned char name[JOIN_NAME_BYTES]);

/* Meets all peers. The sentence names those that did not come. */
plait_status join_meet(const struct join *join);

/* The two sides of it. */
plait_status join_host(const struct join *join);
plait_status join_visit(const struct join *join);

/* ------------------------------------------------------------ what is said */

enum join_kind { JOIN_HELLO = 1, JOIN_WELCOME, JOIN_ENTER, JOIN_RANKS, JOIN_REFUSED };

struct join_head {
    uint64_t magic;
    uint32_t version;
    uint32_t kind;
};

struct join_hello {
    struct join_head head;
    uint64_t generation;
    int32_t rank;
    uint32_t zero;
    unsigned char challenge[JOIN_CHALLENGE_BYTES];
};

struct join_welcome {
    struct join_head head;
    unsigned char challenge[JOIN_CHALLENGE_BYTES];
    unsigned char proof[PROOF_BYTES];
};

struct join_enter {
    struct join_head head;
    unsigned char proof[PROOF_BYTES];
    char trouble[JOIN_TEXT_BYTES]; /* "": none, and two file descriptors come along */
};

struct join_ranks {
    struct join_head head;
    uint32_t count; /* 1 .. JOIN_BATCH; twice as many file descriptors come along */
    uint32_t indexes[JOIN_BATCH];
};

struct join_refused {
    struct join_head head;
    char text[JOIN_TEXT_BYTES];
};

union join_packet {
    struct join_head head;
    struct join_hello hello;
    struct join_welcome welcome;
    struct join_enter enter;
    struct join_ranks ranks;
    struct join_refused refused;
};

struct join_head join_head_of(enum join_kind kind);
/* NULL if the packet of `size` bytes is a sound one of that kind, else what is wrong with it. */
const char *join_check(const union join_packet *packet, size_t size, enum join_kind kind);
/* A stranger's text, made fit to print. */
void join_clean_text(char text[JOIN_TEXT_BYTES]);

/* What both sides prove, each with its own role, so that a proof can't be sent back. */
void join_prove(const struct join *join, bool hub, int32_t guest_rank, const unsigned char *guest_challenge,
                const unsigned char *hub_challenge, unsigned char proof[PROOF_BYTES]);
bool join_proves(const struct join *join, bool hub, int32_t guest_rank, const unsigned char *guest_challenge,
                 const unsigned char *hub_challenge, const unsigned char proof[PROOF_BYTES]);

/* Connects to the socket of that name. 0, or errno: EAGAIN when its queue is full. */
int join_dial(const unsigned char name[JOIN_NAME_BYTES], int *connection);
/* One packet, with file descriptors. 0, or errno. */
int join_tell(int socket, const void *packet, size_t size, const int *fds, int fd_count);
/* Receives one packet. 0, or errno: EAGAIN if there is none, EPIPE at the end, EMFILE if this process
 * has no file descriptors left for those that came, EPROTO if there came more than `fd_most`. */
int join_hear(int socket, union join_packet *packet, size_t *size, int *fds, int fd_most, int *fd_count);

/* PLAIT_OUT_OF_RESOURCES: this process has no file descriptors left for `what`. */
plait_status join_out_of_fds(const struct join *join, const char *what);

/* Waits until something is to be read, for a quarter of a second at most and not beyond the deadline. */
void join_wait(int socket, int64_t deadline);

/* Same user, or root? `who` describes the process at the other end for people. */
bool join_trusts(int socket, char *who, size_t who_size);

void join_close_fds(int *fds, int count);

#endif
