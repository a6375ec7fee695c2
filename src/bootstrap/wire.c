#include "bootstrap/wire.h"

#include <stdio.h>
#include <string.h>

/* Looks like no text protocol, and a line end that is mangled on the way shows. */
static const unsigned char magic[8] = { 0x93, 'P', 'L', 'A', 'I', 'T', '\r', '\n' };

/* ------------------------------------------------------------------ bytes */

struct cursor {
    unsigned char *at;
};

static void put_number(struct cursor *cursor, uint64_t number, int size)
{
    for (int i = 0; i < size; i++)
        *cursor->at++ = (unsigned char)(number >> (8 * i));
}

static void put_bytes(struct cursor *cursor, const void *bytes, size_t size)
{
    memcpy(cursor->at, bytes, size);
    cursor->at += size;
}

struct reader {
    const unsigned char *at;
    size_t left;
    bool good; /* false once something was missing or out of range */
};

static const unsigned char *take(struct reader *reader, size_t size)
{
    if (!reader->good || reader->left < size) {
        reader->good = false;
        return NULL;
    }
    const unsigned char *bytes = reader->at;
    reader->at += size;
    reader->left -= size;
    return bytes;
}

static uint64_t get_number(struct reader *reader, int size)
{
    const unsigned char *bytes = take(reader, (size_t)size);
    uint64_t number = 0;
    for (int i = 0; bytes != NULL && i < size; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

static void get_bytes(struct reader *reader, void *to, size_t size)
{
    const unsigned char *bytes = take(reader, size);
    if (bytes != NULL)
        memcpy(to, bytes, size);
}

/* A peer's text ends up in logs: printable ASCII only, and terminated. */
static void get_text(struct reader *reader, char *to, size_t size)
{
    memset(to, 0, size);
    get_bytes(reader, to, size);
    to[size - 1] = '\0';
    for (char *c = to; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

/* ---------------------------------------------------------------- headers */

static void put_header(struct cursor *cursor, enum wire_kind kind, size_t size)
{
    put_bytes(cursor, magic, sizeof magic);
    put_number(cursor, WIRE_VERSION, 2);
    put_number(cursor, kind, 2);
    put_number(cursor, size - HEADER_BYTES, 4);
}

enum header_check wire_header(const unsigned char *bytes, size_t size, struct header *header)
{
    size_t known = size < sizeof magic ? size : sizeof magic;
    if (memcmp(bytes, magic, known) != 0)
        return HEADER_FOREIGN;
    if (size < HEADER_BYTES)
        return HEADER_SHORT;
    struct reader reader = { bytes + sizeof magic, HEADER_BYTES - sizeof magic, true };
    header->version = (uint16_t)get_number(&reader, 2);
    header->kind = (uint16_t)get_number(&reader, 2);
    header->size = (uint32_t)get_number(&reader, 4);
    return HEADER_GOOD;
}

/* A reader of a frame's body, good only if the frame is what it should be. */
static struct reader body_of(const unsigned char *frame, size_t size, enum wire_kind kind)
{
    struct header header;
    struct reader reader = { NULL, 0, false };
    if (wire_header(frame, size, &header) != HEADER_GOOD)
        return reader;
    if (header.version != WIRE_VERSION || header.kind != kind || header.size != size - HEADER_BYTES)
        return reader;
    return (struct reader){ frame + HEADER_BYTES, size - HEADER_BYTES, true };
}

/* ----------------------------------------------------------------- claims */

static void put_claim(struct cursor *cursor, const struct claim *claim)
{
    put_number(cursor, (uint32_t)claim->rank, 4);
    put_number(cursor, (uint32_t)claim->size, 4);
    put_number(cursor, (uint64_t)claim->pid, 8);
    put_number(cursor, (uint64_t)claim->thread, 8);
    put_number(cursor, (uint64_t)claim->left_ms, 8);
    put_bytes(cursor, claim->nonce, NONCE_BYTES);
    put_bytes(cursor, claim->host, HOST_BYTES);
}

static void get_claim(struct reader *reader, struct claim *claim)
{
    uint32_t rank = (uint32_t)get_number(reader, 4);
    uint32_t size = (uint32_t)get_number(reader, 4);
    claim->pid = (int64_t)get_number(reader, 8);
    claim->thread = (int64_t)get_number(reader, 8);
    claim->left_ms = (int64_t)get_number(reader, 8);
    get_bytes(reader, claim->nonce, NONCE_BYTES);
    get_text(reader, claim->host, HOST_BYTES);
    if (size == 0 || size > WIRE_RANKS_MAX || rank >= size || claim->left_ms < 0)
        reader->good = false;
    claim->rank = reader->good ? (int)rank : 0;
    claim->size = reader->good ? (int)size : 0;
}

const char *claim_process(const struct claim *claim, char text[CLAIM_TEXT_BYTES])
{
    if (claim->thread != 0 && claim->thread != claim->pid)
        snprintf(text, CLAIM_TEXT_BYTES, "pid %lld, thread %lld, on %s", (long long)claim->pid,
                 (long long)claim->thread, claim->host);
    else
        snprintf(text, CLAIM_TEXT_BYTES, "pid %lld on %s", (long long)claim->pid, claim->host);
    return text;
}

const char *claim_text(const struct claim *claim, char text[CLAIM_TEXT_BYTES])
{
    char process[CLAIM_TEXT_BYTES];
    snprintf(text, CLAIM_TEXT_BYTES, "rank %d (%.120s)", claim->rank, claim_process(claim, process));
    return text;
}

/* ----------------------------------------------------------------- frames */

size_t wire_put_hello(unsigned char *frame, const struct claim *claim)
{
    struct cursor cursor = { frame };
    put_header(&cursor, WIRE_HELLO, HELLO_BYTES);
    put_claim(&cursor, claim);
    return HELLO_BYTES;
}

size_t wire_put_challenge(unsigned char *frame, const struct claim *claim)
{
    struct cursor cursor = { frame };
    put_header(&cursor, WIRE_CHALLENGE, CHALLENGE_BYTES);
    put_claim(&cursor, claim);
    return CHALLENGE_BYTES;
}

size_t wire_put_open(unsigned char *frame, const struct claim *claim, uint64_t generation)
{
    struct cursor cursor = { frame };
    put_header(&cursor, WIRE_OPEN, OPEN_BYTES);
    put_claim(&cursor, claim);
    put_number(&cursor, generation, 8);
    return OPEN_BYTES;
}

size_t wire_put_card(unsigned char *frame, const struct claim *claim, const struct card *card)
{
    struct cursor cursor = { frame };
    put_header(&cursor, WIRE_CARD, CARD_FRAME_BYTES);
    put_claim(&cursor, claim);
    put_bytes(&cursor, card->bytes, CARD_BYTES);
    return CARD_FRAME_BYTES;
}

size_t wire_put_complaint(unsigned char *frame, enum complaint complaint, const struct claim *claim)
{
    struct cursor cursor = { frame };
    put_header(&cursor, WIRE_COMPLAINT, COMPLAINT_BYTES);
    put_number(&cursor, complaint, 4);
    put_claim(&cursor, claim);
    return COMPLAINT_BYTES;
}

size_t wire_put_farewell(unsigned char *frame, enum farewell reason)
{
    struct cursor cursor = { frame };
    put_header(&cursor, WIRE_FAREWELL, FAREWELL_BYTES);
    put_number(&cursor, reason, 4);
    return FAREWELL_BYTES;
}

bool wire_get_hello(const unsigned char *frame, size_t size, struct claim *claim)
{
    struct reader reader = body_of(frame, size, WIRE_HELLO);
    get_claim(&reader, claim);
    return reader.good && reader.left == 0;
}

bool wire_get_challenge(const unsigned char *frame, size_t size, struct claim *claim)
{
    struct reader reader = body_of(frame, size, WIRE_CHALLENGE);
    get_claim(&reader, claim);
    return reader.good && reader.left == PROOF_BYTES;
}

bool wire_get_open(const unsigned char *frame, size_t size, struct claim *claim, uint64_t *generation)
{
    struct reader reader = body_of(frame, size, WIRE_OPEN);
    get_claim(&reader, claim);
    *generation = get_number(&reader, 8);
    return reader.good && reader.left == PROOF_BYTES;
}

bool wire_get_card(const unsigned char *frame, size_t size, struct claim *claim, struct card *card)
{
    struct reader reader = body_of(frame, size, WIRE_CARD);
    get_claim(&reader, claim);
    get_bytes(&reader, card->bytes, CARD_BYTES);
    return reader.good && reader.left == PROOF_BYTES;
}

bool wire_get_complaint(const unsigned char *frame, size_t size, enum complaint *complaint,
                        struct claim *claim)
{
    struct reader reader = body_of(frame, size, WIRE_COMPLAINT);
    uint64_t what = get_number(&reader, 4);
    get_claim(&reader, claim);
    if (what < COMPLAINT_TAKEN || what > COMPLAINT_LEADER)
        return false;
    *complaint = (enum complaint)what;
    return reader.good && reader.left == PROOF_BYTES;
}

bool wire_get_farewell(const unsigned char *frame, size_t size, enum farewell *reason)
{
    struct reader reader = body_of(frame, size, WIRE_FAREWELL);
    uint64_t what = get_number(&reader, 4);
    if (what != FAREWELL_VERSION && what != FAREWELL_KEY)
        return false;
    *reason = (enum farewell)what;
    return reader.good && reader.left == 0;
}

/* ------------------------------------------------------------------ seals */

void place_add(struct place *place, const void *bytes, size_t size)
{
    size_t room = PLACE_MAX - place->size;
    size = size < room ? size : room;
    memcpy(place->bytes + place->size, bytes, size);
    place->size += size;
}

/* The place and the frame are hashed in two steps, MAC(key, place | MAC(key, frame)),
 * so that a table for a thousand ranks is gone through once. */
void wire_digest(const unsigned char *frame, size_t size, const unsigned char *key,
                 unsigned char digest[PROOF_BYTES])
{
    job_key_prove(key, frame, size - PROOF_BYTES, digest);
}

void wire_seal_digest(const unsigned char digest[PROOF_BYTES], const unsigned char *key,
                      const struct place *place, unsigned char proof[PROOF_BYTES])
{
    unsigned char both[PLACE_MAX + PROOF_BYTES];
    memcpy(both, place->bytes, place->size);
    memcpy(both + place->size, digest, PROOF_BYTES);
    job_key_prove(key, both, place->size + PROOF_BYTES, proof);
}

void wire_seal(unsigned char *frame, size_t size, const unsigned char *key, const struct place *place)
{
    unsigned char digest[PROOF_BYTES];
    wire_digest(frame, size, key, digest);
    wire_seal_digest(digest, key, place, frame + size - PROOF_BYTES);
}

bool wire_sealed(const unsigned char *frame, size_t size, const unsigned char *key, const struct place *place)
{
    if (size < HEADER_BYTES + PROOF_BYTES)
        return false;
    unsigned char both[PLACE_MAX + PROOF_BYTES];
    memcpy(both, place->bytes, place->size);
    wire_digest(frame, size, key, both + place->size);
    return job_key_check(key, both, place->size + PROOF_BYTES, frame + size - PROOF_BYTES);
}

/* --------------------------------------------------------------- outcomes */

enum { OUTCOME_HEAD_BYTES = HEADER_BYTES + 4 + 4 + 8 + JOB_KEY_BYTES + NONCE_BYTES + OUTCOME_TEXT_BYTES };

size_t wire_outcome_size(plait_status status, int size)
{
    size_t entry = NONCE_BYTES + (status == PLAIT_OK ? CARD_BYTES : 0);
    return OUTCOME_HEAD_BYTES + (size_t)size * entry + PROOF_BYTES;
}

void wire_put_outcome(unsigned char *frame, const struct outcome *outcome)
{
    static const unsigned char nobody[NONCE_BYTES];
    struct cursor cursor = { frame };
    put_header(&cursor, WIRE_OUTCOME, wire_outcome_size(outcome->status, outcome->size));
    put_number(&cursor, (uint32_t)outcome->status, 4);
    put_number(&cursor, (uint32_t)outcome->size, 4);
    put_number(&cursor, outcome->generation, 8);
    put_bytes(&cursor, outcome->secret, JOB_KEY_BYTES);
    put_bytes(&cursor, outcome->outsider, NONCE_BYTES);
    put_bytes(&cursor, outcome->sentence, OUTCOME_TEXT_BYTES);
    for (int i = 0; i < outcome->size; i++)
        put_bytes(&cursor, outcome->nonces != NULL ? outcome->nonces[i] : nobody, NONCE_BYTES);
    for (int i = 0; outcome->status == PLAIT_OK && i < outcome->size; i++)
        put_bytes(&cursor, outcome->cards[i].bytes, CARD_BYTES);
}

/* The failures that rank 0 may hand on; anything else is one that this version doesn't know. */
static plait_status status_of_wire(uint32_t number)
{
    plait_status status = (plait_status)(int32_t)number;
    if (status == PLAIT_OK || status == PLAIT_OUT_OF_MEMORY || status == PLAIT_OUT_OF_RESOURCES)
        return status;
    return PLAIT_START_FAILED;
}

bool wire_get_outcome(const unsigned char *frame, size_t size, struct outcome *outcome)
{
    struct reader reader = body_of(frame, size, WIRE_OUTCOME);
    outcome->status = status_of_wire((uint32_t)get_number(&reader, 4));
    uint64_t ranks = get_number(&reader, 4);
    outcome->generation = get_number(&reader, 8);
    get_bytes(&reader, outcome->secret, JOB_KEY_BYTES);
    get_bytes(&reader, outcome->outsider, NONCE_BYTES);
    get_text(&reader, outcome->sentence, OUTCOME_TEXT_BYTES);
    if (!reader.good)
        return false;
    /* A failure may come from a rank 0 that counts other ranks than we do. */
    if (ranks != (uint64_t)outcome->size) {
        memset(outcome->nonces, 0, (size_t)outcome->size * NONCE_BYTES);
        return outcome->status != PLAIT_OK && ranks <= WIRE_RANKS_MAX &&
               reader.left == ranks * NONCE_BYTES + PROOF_BYTES;
    }
    get_bytes(&reader, outcome->nonces, (size_t)ranks * NONCE_BYTES);
    if (outcome->status == PLAIT_OK)
        get_bytes(&reader, outcome->cards, (size_t)ranks * CARD_BYTES);
    return reader.good && reader.left == PROOF_BYTES;
}

/* ------------------------------------------------------------------ words */

void missing_text(const bool *there, int size, char *text, size_t text_size)
{
    size_t used = 0;
    int missing = 0, spans = 0, told = 0;
    for (int i = 0; i < size; i++)
        missing += !there[i];
    used = (size_t)snprintf(text, text_size, missing == 1 ? "rank " : "ranks ");
    for (int first = 0; first < size; first++) {
        if (there[first])
            continue;
        int last = first;
        while (last + 1 < size && !there[last + 1])
            last++;
        if (used + 48 > text_size || spans == 12) {
            snprintf(text + used, text_size - used, " and %d more", missing - told);
            return;
        }
        const char *comma = spans++ > 0 ? ", " : "";
        if (first == last)
            used += (size_t)snprintf(text + used, text_size - used, "%s%d", comma, first);
        else
            used += (size_t)snprintf(text + used, text_size - used, "%s%d%s%d", comma, first,
                                     last == first + 1 ? ", " : "-", last);
        told += last - first + 1;
        first = last;
    }
}
