/* What ranks say to each other while a world starts, as bytes: little-endian,
 * fixed sizes, no pointers. Pure functions; every decoder takes any bytes.
 *
 * A frame is a header, a body and, when it is sealed, a proof of the job key
 * over where the frame belongs (its place), the header and the body. A place is what
 * makes a frame useless elsewhere: both sides' nonces on a connection, the
 * key's name and the generation in a store. */
#ifndef PLAIT_BOOTSTRAP_WIRE_H
#define PLAIT_BOOTSTRAP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/bootstrap.h"

enum {
    WIRE_VERSION = 1,
    WIRE_RANKS_MAX = 1 << 20,
    NONCE_BYTES = 16,
    HOST_BYTES = 64,
    OUTCOME_TEXT_BYTES = 512,

    HEADER_BYTES = 16, /* magic 8, version 2, kind 2, size of the body 4 */
    CLAIM_BYTES = 4 + 4 + 8 + 8 + 8 + NONCE_BYTES + HOST_BYTES,
    HELLO_BYTES = HEADER_BYTES + CLAIM_BYTES,
    CHALLENGE_BYTES = HEADER_BYTES + CLAIM_BYTES + PROOF_BYTES,
    OPEN_BYTES = HEADER_BYTES + CLAIM_BYTES + 8 + PROOF_BYTES,
    CARD_FRAME_BYTES = HEADER_BYTES + CLAIM_BYTES + CARD_BYTES + PROOF_BYTES,
    COMPLAINT_BYTES = HEADER_BYTES + 4 + CLAIM_BYTES + PROOF_BYTES,
    FAREWELL_BYTES = HEADER_BYTES + 4,
    PLACE_MAX = 512
};

enum wire_kind {
    WIRE_HELLO = 1, /* joiner to rank 0: a claim. Not sealed: it is what the proofs are over */
    WIRE_CHALLENGE, /* rank 0's answer: its claim with its nonce, sealed */
    WIRE_CARD,      /* a claim and a card, sealed */
    WIRE_OUTCOME,   /* rank 0's last word: the table, or why there is none; sealed */
    WIRE_OPEN,      /* in a store: rank 0 opens a round; sealed */
    WIRE_COMPLAINT, /* in a store: a joiner that can't take its place; sealed */
    WIRE_FAREWELL   /* why one side hangs up before the proof: a reason for people, believed by nobody */
};

enum farewell { FAREWELL_VERSION = 1, FAREWELL_KEY = 2 };
enum complaint { COMPLAINT_TAKEN = 1, COMPLAINT_SIZE = 2, COMPLAINT_LEADER = 3 };

/* Who wants to be which rank. */
struct claim {
    int rank, size;
    int64_t pid, thread; /* thread: its id, for ranks of one process */
    int64_t left_ms;     /* until its deadline, when this was written */
    unsigned char nonce[NONCE_BYTES];
    char host[HOST_BYTES]; /* terminated, printable */
};

struct header {
    uint16_t version, kind;
    uint32_t size; /* of what follows the header */
};

enum header_check { HEADER_GOOD, HEADER_SHORT, HEADER_FOREIGN };

/* Reads a header; HEADER_FOREIGN as soon as the bytes can't become one. */
enum header_check wire_header(const unsigned char *bytes, size_t size, struct header *header);

/* A frame's place: up to PLACE_MAX bytes. */
struct place {
    size_t size;
    unsigned char bytes[PLACE_MAX];
};
void place_add(struct place *place, const void *bytes, size_t size);

/* Encoders return the size of the frame; `frame` has room for it. */
size_t wire_put_hello(unsigned char *frame, const struct claim *claim);
size_t wire_put_challenge(unsigned char *frame, const struct claim *claim);
size_t wire_put_open(unsigned char *frame, const struct claim *claim, uint64_t generation);
size_t wire_put_card(unsigned char *frame, const struct claim *claim, const struct card *card);
size_t wire_put_complaint(unsigned char *frame, enum complaint complaint, const struct claim *claim);
size_t wire_put_farewell(unsigned char *frame, enum farewell reason);

/* Writes the proof into a frame's last PROOF_BYTES, and checks it. */
void wire_seal(unsigned char *frame, size_t size, const unsigned char *key, const struct place *place);
bool wire_sealed(const unsigned char *frame, size_t size, const unsigned char *key,
                 const struct place *place);
/* Sealing in two steps, for one large frame that goes to many places. */
void wire_digest(const unsigned char *frame, size_t size, const unsigned char *key,
                 unsigned char digest[PROOF_BYTES]);
void wire_seal_digest(const unsigned char digest[PROOF_BYTES], const unsigned char *key,
                      const struct place *place, unsigned char proof[PROOF_BYTES]);

/* Decoders: false unless the whole frame is of that kind, this version and
 * this size, with fields in range. They do not look at the proof. */
bool wire_get_hello(const unsigned char *frame, size_t size, struct claim *claim);
bool wire_get_challenge(const unsigned char *frame, size_t size, struct claim *claim);
bool wire_get_open(const unsigned char *frame, size_t size, struct claim *claim, uint64_t *generation);
bool wire_get_card(const unsigned char *frame, size_t size, struct claim *claim, struct card *card);
bool wire_get_complaint(const unsigned char *frame, size_t size, enum complaint *complaint,
                        struct claim *claim);
bool wire_get_farewell(const unsigned char *frame, size_t size, enum farewell *reason);

/* How it ended. With PLAIT_OK there are nonces and cards for `size` ranks;
 * with a failure there are nonces (zero for a rank that is missing) and a sentence. */
struct outcome {
    plait_status status;
    int size;
    uint64_t generation;
    unsigned char secret[JOB_KEY_BYTES]; /* what the world's key is derived from */
    unsigned char outsider[NONCE_BYTES]; /* a failed claimant it is meant for as well */
    char sentence[OUTCOME_TEXT_BYTES];
    unsigned char (*nonces)[NONCE_BYTES]; /* size of them; NULL where there are none */
    struct card *cards;                   /* size of them; NULL where there are none */
};

size_t wire_outcome_size(plait_status status, int size);
void wire_put_outcome(unsigned char *frame, const struct outcome *outcome);
/* `outcome` comes with the caller's own size, and with nonces and cards of that size to be filled. */
bool wire_get_outcome(const unsigned char *frame, size_t size, struct outcome *outcome);

/* "rank 3 (pid 4711 on node7)"; with the thread's id where `threads`. */
enum { CLAIM_TEXT_BYTES = 160 };
const char *claim_text(const struct claim *claim, char text[CLAIM_TEXT_BYTES]);
/* Without the rank: "pid 4711 on node7". */
const char *claim_process(const struct claim *claim, char text[CLAIM_TEXT_BYTES]);

/* "ranks 3, 5-7" of those whose `there` is false, "rank 3" for one; cut short with the number left out. */
void missing_text(const bool *there, int size, char *text, size_t text_size);

#endif
