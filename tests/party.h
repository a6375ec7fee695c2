/* Some ranks of a world, all in this process, over a transport: what the transport tests are made of. */
#ifndef PLAIT_TESTS_PARTY_H
#define PLAIT_TESTS_PARTY_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

enum { RANKS_MAX = 9, LARGE = (1 << 20) + 3 };

/* What is held to the tests. */
struct subject {
    const char *name;
    const struct transport *transport;
    const char *provider; /* of a network */
    bool no_writes;
    const char *environment; /* "NAME=value NAME=value", set while it is tested; NULL: none */
    bool chaos;              /* under the transport that chaos.h lays over it */
};

struct party {
    const struct subject *subject;
    const struct transport *transport;
    int size;
    struct endpoint *endpoints[RANKS_MAX];
    unsigned char blobs[RANKS_MAX][TRANSPORT_BLOB_BYTES];
    struct peer peers[RANKS_MAX];
    plait_status connected[RANKS_MAX];
};

/* What is late by chance depends on it; printed at the start. From the environment's PLAIT_TEST_SEED, or drawn. */
uint32_t party_seed(void);

/* Bytes may be on their way while nothing moves here. */
bool is_network(const struct subject *subject);
void set_environment(const struct subject *subject);

struct endpoint_setup setup_of(const struct subject *subject, int rank, int size);
void party_open(struct party *party, const struct subject *subject, int size);
bool party_progress(struct party *party);
/* Until nothing moves any more; over a network, for a while. */
void party_settle(struct party *party);
void party_close(struct party *party);

void fill(unsigned char *bytes, size_t size, unsigned seed);
void assert_filled(const unsigned char *bytes, size_t size, unsigned seed);

struct transfer message_to(int peer, uint64_t operation, void *data, size_t size);
struct transfer callers_message(int peer, uint64_t tag, void *data, size_t size);

#endif
