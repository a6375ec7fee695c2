/* Bootstrap: how the ranks of a world find each other. It ends when every rank
 * has every rank's card; after that nothing of it is left running.
 *
 * A way (environment, launcher, file, store, threads) is one struct bootstrap_way. Each handshake
 * and each stored value carries the magic, the wire version, the world's
 * generation and a proof of the job key. What does not fit is turned away
 * with one log line and the waiting goes on. */
#ifndef PLAIT_BOOTSTRAP_BOOTSTRAP_H
#define PLAIT_BOOTSTRAP_BOOTSTRAP_H

#include <stdint.h>

#include "base/settings.h"
#include "plait.h"

enum { CARD_BYTES = 512, JOB_KEY_BYTES = 32, RESULT_ADDRESS_BYTES = 80 };

/* What one rank tells all others: the front and the transports fill it, the
 * bootstrap carries it as opaque bytes. */
struct card {
    unsigned char bytes[CARD_BYTES];
};

/* What the settings and the caller's options say, merged and checked. */
struct bootstrap_options {
    int rank, size;              /* known: 0 <= rank < size */
    plait_thread_group *threads; /* the first that is not NULL is the way */
    const plait_store *store;
    const char *file;
    const char *address; /* else rank 0 listens here */
    int port;
    enum launcher
        launcher;          /* LAUNCHER_PMIX, _PMI, _MPI: find rank 0 through it; the address is the way out */
    bool launcher_asked;   /* there is no way out */
    const char *interface; /* PLAIT_INTERFACE */
    const char *job;       /* the launcher's name for it; NULL: none */
    const void *job_key;   /* NULL: draw one (store, file, threads) or derive an unsecret one (environment) */
    size_t job_key_size;
    int64_t deadline; /* clock_ns() */
};

struct bootstrap_result {
    uint64_t generation;                  /* the same on all ranks, new for each world */
    unsigned char job_key[JOB_KEY_BYTES]; /* of this world; all ranks have it */
    char toward[RESULT_ADDRESS_BYTES];    /* where rank 0 was found, if its launcher told that; else "" */
};

/* Gives this rank's card to all and takes everyone's: cards[size], in rank
 * order, the caller's own included. Returns once the whole table is there.
 * PLAIT_START_FAILED names the ranks that were missing at the deadline, or the two
 * processes (pid, host) that claim one rank, or why nobody answered. */
plait_status bootstrap_exchange(const struct bootstrap_options *options, const struct card *mine,
                                struct card *cards, struct bootstrap_result *result);

/* MAC over a handshake, with a key: used here and by transports when they
 * connect (crypto_auth of libsodium). `proof` is PROOF_BYTES long. */
enum { PROOF_BYTES = 32 };
void job_key_prove(const unsigned char key[JOB_KEY_BYTES], const void *message, size_t size,
                   unsigned char proof[PROOF_BYTES]);
/* Constant time. 1 if the proof holds. */
int job_key_check(const unsigned char key[JOB_KEY_BYTES], const void *message, size_t size,
                  const unsigned char proof[PROOF_BYTES]);

#endif
