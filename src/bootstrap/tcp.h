/* The way over TCP: rank 0 listens (tcp_host.c), the others come to it (tcp_join.c, tcp_attempt.c).
 *
 *   joiner -> rank 0   HELLO       magic, version, rank, size, pid, nonce
 *   rank 0 -> joiner   CHALLENGE   its nonce, and a proof of the job key over both
 *   joiner -> rank 0   CARD        the card, and a proof over both nonces
 *   rank 0 -> joiner   OUTCOME     all cards, or a sentence, with a proof
 *
 * The joiner speaks first and asks for proof first, so it gives nothing but its number to a
 * stranger's server, and rank 0 parses nothing but the HELLO's fixed fields before the
 * proof. A star serves some thousand ranks; a tree can take its place behind way_environment. */
#ifndef PLAIT_BOOTSTRAP_TCP_H
#define PLAIT_BOOTSTRAP_TCP_H

#include <sys/socket.h>

#include "bootstrap/way.h"

enum {
    PORT_TRIES = 16,   /* MASTER_PORT and the next ones */
    ADDRESSES_MAX = 8, /* of one name */
    ENDPOINT_TEXT_BYTES = 80,
    REASON_BYTES = 224
};

struct endpoint {
    struct sockaddr_storage address;
    socklen_t size;
};

/* "127.0.0.1:29500", "[::1]:29500". */
const char *endpoint_text(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_BYTES]);
const char *endpoint_host(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_BYTES]);
void endpoint_set_port(struct endpoint *endpoint, int port);
bool endpoint_is_loopback(const struct endpoint *endpoint);

/* The addresses of a name or of several with commas between, at most ADDRESSES_MAX. 0: none, and `why` says why. */
int tcp_resolve(const char *names, struct endpoint *list, char why[REASON_BYTES]);

/* The first and the last port that rank 0 may listen on. Under torchrun MASTER_PORT is its own store's. */
void tcp_ports(const struct bootstrap_options *options, int *first, int *last);

/* A stream socket: non-blocking, closed on exec, no delay. -1 and errno. */
int tcp_socket(int family);

/* What a connection's frames are sealed for: the HELLO and rank 0's nonce (NULL before it is known). */
struct place tcp_place(const unsigned char *hello, const unsigned char *leader_nonce);

/* What to do about a reason for which a connection came to nothing, with "; " before it; "" if that is plain. */
const char *tcp_remedy(const char *reason);

/* What a stranger's first bytes look like, for the log: `"GET / HT"`. */
const char *stranger_text(const unsigned char *bytes, size_t size, char text[REASON_BYTES]);

/* The attempt to join at one endpoint. */
enum attempt_end {
    ATTEMPT_REFUSED, /* nobody is there (yet) */
    ATTEMPT_SILENT,  /* somebody is there and did not answer within the patience */
    ATTEMPT_STRANGE, /* somebody else is there: another program, version or job key */
    ATTEMPT_LOST,    /* rank 0 took us in and then went away, or the deadline passed */
    ATTEMPT_OVER     /* it is decided: *status, and the outcome is there or the failure said */
};
enum attempt_end tcp_attempt(struct exchange *exchange, const struct endpoint *endpoint, int64_t patience_ms,
                             char reason[REASON_BYTES], plait_status *status);

plait_status tcp_join(struct exchange *exchange);
plait_status tcp_host(struct exchange *exchange);

/* Listening sockets of rank 0. */
struct listeners {
    int fds[ADDRESSES_MAX];
    int count;
    int port;
    char text[REASON_BYTES]; /* "127.0.0.1:29501 and [::1]:29501" */
};
/* Takes the first port that is free at all local addresses of the name. */
plait_status tcp_listen(const struct bootstrap_options *options, struct listeners *listeners);
void tcp_unlisten(struct listeners *listeners);

#endif
